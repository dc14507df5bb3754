"""The common part of targets that fuzz sockets: pieces of a byte stream, and proof that no descriptor is left open."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from fuzz.choices import Choices

PIECES = (70_000, 1, 2, 3, 9, 64, 1000)


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """The lowest free descriptor is the same before and after."""
    before = lowest_free_descriptor()
    yield
    assert lowest_free_descriptor() == before, "A descriptor was left open."


def lowest_free_descriptor() -> int:
    free = os.dup(0)
    os.close(free)
    return free


def pieces(data: bytes, choices: Choices) -> Iterator[bytes]:
    """The bytes, cut anywhere."""
    while data:
        size = choices.pick(PIECES)
        yield data[:size]
        data = data[size:]


def send(connection: socket.socket, data: bytes) -> None:
    """Send to an end that may be gone."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)
