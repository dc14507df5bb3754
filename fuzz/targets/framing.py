"""Messages on a stream socket, cut anywhere and with descriptors between: a plain reader finds the same ones.

Nothing is received after an invalid message, and no descriptor is left open.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left, pieces
from scaler_protocol.transport.stream import SIZE_LIMIT_BYTES, StreamConnection

FRAME_COUNT_LIMIT = 64
LONGEST_INPUT_BYTES = 4096
CUTS = 32
"""The first bytes of an input say how the rest is cut and where descriptors go."""


PASSED = os.open(os.devnull, os.O_RDONLY)
"""A descriptor to send."""


def one_input(data: bytes) -> None:
    with no_descriptor_left():
        feed(Choices(data[:CUTS]), data[CUTS:])


def feed(choices: Choices, stream: bytes) -> None:
    plain, other = socket.socketpair()
    connection = StreamConnection(other)
    received: list[list[bytes]] = []
    with plain:
        for piece in pieces(stream, choices):
            sent = choices.below(3) if choices.flag(8) else 0
            if sent:
                socket.send_fds(plain, [piece], [PASSED] * sent)
            else:
                plain.sendall(piece)
            received += take(connection)
            take_descriptors(connection, choices)
    received += take(connection)
    expected, is_whole = plain_reading(stream)
    assert received == expected
    assert connection.eof and (is_whole or not connection.send([b"late"]))
    connection.close()


def take(connection: StreamConnection) -> Iterator[list[bytes]]:
    while (frames := connection.receive()) is not None:
        yield frames


def take_descriptors(connection: StreamConnection, choices: Choices) -> None:
    """Some; ``close`` closes the others."""
    while connection.received_fds and choices.flag():
        os.close(connection.received_fds.popleft())


def plain_reading(stream: bytes) -> tuple[list[list[bytes]], bool]:
    """The messages, and whether nothing follows that is none."""
    found: list[list[bytes]] = []
    while len(stream) >= 6:
        size, count = struct.unpack_from("<IH", stream)
        if size > SIZE_LIMIT_BYTES or not 0 < count <= FRAME_COUNT_LIMIT or size < 2 + 4 * count:
            return found, False
        if len(stream) < 4 + size:
            break
        lengths = struct.unpack_from(f"<{count}I", stream, 6)
        if sum(lengths) + 2 + 4 * count != size:
            return found, False
        at, frames = 6 + 4 * count, []
        for length in lengths:
            frames.append(stream[at : at + length])
            at += length
        stream = stream[at:]
        if frames != [b""]:
            found.append(frames)
    return found, True


def seeds() -> Iterator[bytes]:
    messages = packed([b"abc", b""]) + packed([b""]) + packed([b"x" * 300]) + packed([b""] * 64)
    yield bytes(CUTS) + messages
    yield bytes(range(CUTS)) + messages
    yield bytes([4, 7] * (CUTS // 2)) + messages + b"\xff" * 6


def packed(frames: list[bytes]) -> bytes:
    body = struct.pack(f"<H{len(frames)}I", len(frames), *map(len, frames)) + b"".join(frames)
    return struct.pack("<I", len(body)) + body
