"""The name under which programs written for opengris-scaler import the default serializer."""

from __future__ import annotations

from scaler.client.serializer import DefaultSerializer

__all__ = ["DefaultSerializer"]
