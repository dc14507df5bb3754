"""ZeroMQ's protocol spoken by hand."""

from __future__ import annotations

import socket

from scaler_protocol.ids import new_session


def greet(address: str, identity: bytes | None = None, version: bytes = b"\x03\x01") -> socket.socket:
    """A connection that speaks ZeroMQ's protocol by hand, far enough to send messages."""
    host, port = address.removeprefix("tcp://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(b"\xff" + bytes(8) + b"\x7f" + version + b"NULL".ljust(20, b"\0") + bytes(32))
    name = new_session() if identity is None else identity
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity" + len(name).to_bytes(4, "big") + name
    connection.sendall(bytes([4, len(ready)]) + ready)
    return connection


def has_ended(connection: socket.socket) -> bool:
    """By the other end. The connection must not block."""
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def send_some(connection: socket.socket, data: bytes) -> int:
    """What the kernel takes now."""
    try:
        return connection.send(data)
    except (BlockingIOError, ConnectionError):
        return 0
