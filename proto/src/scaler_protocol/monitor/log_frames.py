"""Frames of event logs: messages of the monitor stream, one after another in a file.

A file begins with ``MAGIC``; the digit is the version, and older ones are read, too: version 1 had no RAN records,
version 2 no STEPPED ones. A frame is a header of 17 bytes, little-endian: u32 size of the payload, u32 CRC-32 of all
that follows, u8 kind, f64 time (seconds since 1970); then the payload: the message as ``feed.encode`` makes it,
compressed with zlib. A file that was cut, by SIGKILL or a full disk, is good up to its last whole frame.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from scaler_protocol.monitor.bounds import MESSAGE_LIMIT_BYTES

VERSION = 3
MAGIC = b"scaler events %d\n" % VERSION
_MAGICS = re.compile(rb"scaler events (\d)\n")
SUFFIX = ".events"
SNAPSHOT, EVENTS = 1, 2
"""Kinds of frames."""

PAYLOAD_LIMIT_BYTES = MESSAGE_LIMIT_BYTES
"""Limit of the uncompressed contents of a frame."""

_COMPRESSED_BYTES = range(8, PAYLOAD_LIMIT_BYTES + PAYLOAD_LIMIT_BYTES // 1000 + 64)
"""Sizes that the payload of a frame can have: zlib makes 8 bytes of nothing, and adds at most 0.03 % to noise."""

_HEADER = struct.Struct("<IIBd")
_CHECKED = struct.Struct("<Bd")
_LEVEL = 1


class BadLog(ValueError):
    """Describes the damage of a log in one sentence."""


class Frame(NamedTuple):
    """The position of a frame, and the contents of its header."""

    offset: int  # of the payload
    size: int
    checksum: int
    kind: int
    time: float


def frame(kind: int, time: float, message: bytes) -> bytes:
    """One frame; ``message`` is what ``feed.encode`` made."""
    payload = zlib.compress(message, _LEVEL)
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, time)))
    return _HEADER.pack(len(payload), checksum, kind, time) + payload


def frames(file: BinaryIO) -> Iterator[Frame]:
    """All whole frames, without reading their payloads. BadLog at the end of one that was cut, at a header that no
    writer makes, or at once for a file that is not an event log."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    _check_version(file.read(len(MAGIC)))
    at = len(MAGIC)
    while at < length:
        file.seek(at)
        header = file.read(_HEADER.size)
        size, checksum, kind, time = _HEADER.unpack(header) if len(header) == _HEADER.size else (length, 0, 0, 0.0)
        if at + _HEADER.size + size > length:
            raise BadLog(f"truncated, the last {length - at:,} bytes are skipped")
        if size not in _COMPRESSED_BYTES:
            raise BadLog(f"damaged at byte {at:,}, the last {length - at:,} bytes are skipped")
        yield Frame(at + _HEADER.size, size, checksum, kind, time)
        at += _HEADER.size + size


def _check_version(start: bytes) -> None:
    magic = _MAGICS.fullmatch(start)
    if magic is None:
        raise BadLog("not an event log")
    if int(magic[1]) > VERSION:
        raise BadLog(f"of version {int(magic[1])}, this program reads up to {VERSION}: use the scheduler's release")


def read_frame(file: BinaryIO, found: Frame) -> bytes:
    """The message in a frame, for ``feed.decode``. BadLog when it is damaged."""
    file.seek(found.offset)
    payload = file.read(found.size)
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(found.kind, found.time))) != found.checksum:
        raise BadLog(f"damaged at byte {found.offset:,}, {found.size:,} bytes are skipped")
    try:
        message = zlib.decompressobj().decompress(payload, PAYLOAD_LIMIT_BYTES)
    except zlib.error:
        raise BadLog(f"damaged at byte {found.offset:,}, {found.size:,} bytes are skipped") from None
    return message
