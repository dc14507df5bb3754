"""Addresses under the names that programs written for opengris-scaler use."""

from __future__ import annotations

import enum
from typing import Any

from scaler_protocol.address import parse_address


class SocketType(enum.Enum):
    """The ways to reach a peer."""

    inproc = "inproc"
    ipc = "ipc"
    tcp = "tcp"


class AddressConfig(str):
    """An address as a text, so that it can be passed to any parameter for addresses. ``host`` is a path or a name if
    ``type`` is not tcp; ``port`` is None then."""

    type: SocketType
    host: str
    port: int | None

    def __new__(cls, type: SocketType, host: str, port: int | None = None) -> AddressConfig:
        """Raises ValueError if these parts are not an address."""
        scheme = SocketType(type)
        text = f"{scheme.value}://{host}" if port is None else f"{scheme.value}://{host}:{port}"
        parse_address(text)
        address = super().__new__(cls, text)
        address.type, address.host, address.port = scheme, host, port
        return address

    def __reduce__(self) -> tuple[Any, ...]:
        return AddressConfig, (self.type, self.host, self.port)

    @classmethod
    def from_string(cls, value: str) -> AddressConfig:
        """Raises ValueError if ``value`` is not an address."""
        parsed = parse_address(value)
        if parsed.scheme == "tcp":
            return cls(SocketType.tcp, str(parsed).removeprefix("tcp://").rpartition(":")[0], parsed.port)
        return cls(SocketType(parsed.scheme), parsed.path)

    def to_address(self) -> str:
        """The text."""
        return str(self)
