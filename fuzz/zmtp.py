"""ZeroMQ's protocol by hand: what a peer of ours may say, right and wrong."""

from __future__ import annotations

from collections.abc import Sequence

MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(payload: bytes, flags: int = 0) -> bytes:
    if len(payload) < 256:
        return bytes((flags, len(payload))) + payload
    return bytes((flags | LONG,)) + len(payload).to_bytes(8, "big") + payload


def command(name: bytes, data: bytes = b"") -> bytes:
    return frame(bytes((len(name),)) + name + data, COMMAND)


def ready(kind: bytes, identity: bytes = b"") -> bytes:
    properties = ((b"Socket-Type", kind), (b"Identity", identity))
    named = (bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value for name, value in properties)
    return command(b"READY", b"".join(named))


def message(frames: Sequence[bytes]) -> bytes:
    return b"".join(frame(each, MORE) for each in frames[:-1]) + frame(frames[-1])


def plain_reading(stream: bytes) -> list[list[bytes]]:
    """The messages behind the handshake, up to the first thing that is wrong. For streams in which no command is."""
    found: list[list[bytes]] = []
    frames: list[bytes] = []
    while len(stream) >= 2:
        flags, head = stream[0], 9 if stream[0] & LONG else 2
        if len(stream) < head:
            break
        length = int.from_bytes(stream[1:head], "big")
        if flags & ~(MORE | LONG) or length > len(stream) - head or len(frames) == 64:
            break
        frames.append(stream[head : head + length])
        stream = stream[head + length :]
        if not flags & MORE:
            if frames != [b""]:
                found.append(frames)
            frames = []
    return found
