"""Each body of a message, behind a root that is always right: pointers into one or two segments, lists, text, columns.

Decoding gives an envelope or MalformedMessage. An envelope can be looked at, written and read again, and is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fuzz.messages import check_written_again, decoded, examine, sample_envelopes
from scaler_protocol.codec import encode

ROOT_BYTES = 8 + 8 * 4
"""Size of the root of a message in one segment: the table of segments, the root pointer and three words of data."""


def one_input(data: bytes) -> None:
    """A byte for the body's number, one for where the second segment begins, one for the payload frame; then
    the pointer to the body and what follows it."""
    if len(data) < 3:
        return
    envelope = decoded([framed(data[0] & 0x7F, data[1], data[3:]), *([data[3:]] if data[2] & 1 else [])])
    if envelope is not None:
        examine(envelope)
        check_written_again(envelope)


def framed(tag: int, cut: int, content: bytes) -> bytes:
    content += bytes(-len(content) % 8)
    words = struct.pack("<QQQQ", 3 << 32 | 1 << 48, 5, 6, tag) + content
    first = 5 + cut
    if not cut or 8 * first >= len(words):
        return struct.pack("<II", 0, len(words) // 8) + words
    return struct.pack("<IIII", 1, first, len(words) // 8 - first, 0) + words


def seeds() -> Iterator[bytes]:
    for envelope in sample_envelopes():
        frames = encode(envelope)
        tag = struct.unpack_from("<H", frames[0], 8 + 8 * 3)[0]
        yield bytes([tag, 0, len(frames) - 1]) + frames[0][ROOT_BYTES:]
