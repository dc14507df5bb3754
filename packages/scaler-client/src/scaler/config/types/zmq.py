"""Addresses under earlier names of opengris-scaler."""

from __future__ import annotations

from scaler.config.types.address import AddressConfig as ZMQConfig
from scaler.config.types.address import SocketType as ZMQType

__all__ = ["ZMQConfig", "ZMQType"]
