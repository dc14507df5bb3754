"""The name under which programs written for opengris-scaler import the base class of serializers."""

from __future__ import annotations

from scaler.client.serializer import Serializer

__all__ = ["Serializer"]
