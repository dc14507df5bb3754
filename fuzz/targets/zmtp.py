"""One end of ZeroMQ's protocol, as DEALER and as ROUTER, against bytes that are cut anywhere.

The cut changes nothing of what is received; the connection ends or goes on, and what is sent meanwhile is whole.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from fuzz import zmtp
from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left, pieces, send
from scaler_protocol.transport.zmtp import ZmtpConnection

KINDS = ("DEALER", "ROUTER")
CUTS = 24
HANDSHAKES = (b"", zmtp.GREETING, zmtp.GREETING + zmtp.ready(b"ROUTER"), zmtp.GREETING + zmtp.ready(b"DEALER", b"me"))
"""Bytes before the input, so that the fuzzer need not find it."""


def one_input(data: bytes) -> None:
    """One byte for the kind of our end, the handshake of the other and what we send; some for the cuts; the stream."""
    if not data:
        return
    kind, handshake, sends = KINDS[data[0] & 1], HANDSHAKES[data[0] >> 1 & 3], data[0] >> 3 & 1
    stream = handshake + data[1 + CUTS :]
    with no_descriptor_left():
        at_once, identity = talk(kind, [stream], bool(sends))
        in_pieces, again = talk(kind, list(pieces(stream, Choices(data[1 : 1 + CUTS]))), bool(sends))
    assert (at_once, identity) == (in_pieces, again), "The cut of the stream changed what was received."
    if len(handshake) > len(zmtp.GREETING) and kind.encode() not in handshake:
        plain = zmtp.plain_reading(data[1 + CUTS :])
        assert at_once[: len(plain)] == plain


def talk(kind: str, stream: list[bytes], sends: bool) -> tuple[list[list[bytes]], bytes]:
    ours, theirs = socket.socketpair()
    connection = ZmtpConnection(ours, kind, b"us")
    received: list[list[bytes]] = []
    with theirs:
        for piece in stream:
            send(theirs, piece)
            connection.look()
            received += take(connection)
            if sends:
                connection.send([b"answer", b""])
    connection.look()
    received += take(connection)
    identity = connection.identity
    connection.close()
    return received, identity


def take(connection: ZmtpConnection) -> Iterator[list[bytes]]:
    """All that is there: a connection may say None once too often, to save a call."""
    nothing = 0
    while nothing < 2:
        frames = connection.receive()
        if frames is None:
            nothing += 1
        else:
            nothing = 0
            yield frames


def seeds() -> Iterator[bytes]:
    messages = zmtp.message([b"abc", b"", b"x" * 300]) + zmtp.message([b""]) + zmtp.message([b"y"])
    pings = zmtp.command(b"PING", b"\0\1context") + zmtp.command(b"ERROR", b"\0")
    for kind in range(16):
        yield bytes([kind]) + bytes(CUTS) + messages + pings
    yield b"\0" + bytes(range(CUTS)) + zmtp.GREETING + zmtp.ready(b"ROUTER", b"i" * 255) + messages
    yield b"\1" + bytes(range(CUTS)) + zmtp.GREETING + zmtp.ready(b"DEALER", b"i" * 16) + pings + messages
