"""The version, under the name that programs written for opengris-scaler use."""

from __future__ import annotations

from scaler import __version__

__all__ = ["__version__"]
