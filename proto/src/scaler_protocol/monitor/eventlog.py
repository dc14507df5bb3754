"""Files that keep the monitor stream: what an event log is made of, and how it is written.

A log begins with ``MAGIC``. Frames follow, each a head (little-endian: u32 size of the payload, u32 CRC-32 of all
after it in the frame, u8 kind, f64 seconds since 1970) and the payload: a monitor message as ``feed`` encodes it,
compressed by zlib. Kinds are ``SNAPSHOT`` and ``EVENTS``; a reader passes over others. A log may end anywhere, also
inside a frame: its writer may have been killed.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MAGIC = b"scaler events 1\n"
SNAPSHOT = 1
EVENTS = 2
FRAME_LIMIT_BYTES = 64 * 1024 * 1024
_HEAD = struct.Struct("<IIBd")
_CHECKED = struct.Struct("<Bd")
_COMPRESSION_LEVEL = 1


class NotAnEventLog(ValueError):
    """The text is one plain sentence."""


class Frame(NamedTuple):
    """One frame of a log, as it lies there. ``offset``: where it begins; ``stop``: where the next one does."""

    offset: int
    stop: int
    kind: int
    time: float
    packed: bytes

    def payload(self) -> bytes:
        """For ``feed.decode``."""
        return zlib.decompress(self.packed)


def frames(file: BinaryIO, offset: int = 0) -> Iterator[Frame]:
    """The frames from ``offset`` (0: all of them) to the last whole one. NotAnEventLog for another file."""
    if offset == 0:
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            raise NotAnEventLog("This file is not an event log of a Scaler scheduler.")
        offset = len(MAGIC)
    file.seek(offset)
    while (frame := _read_frame(file, offset)) is not None:
        yield frame
        offset = frame.stop


def _read_frame(file: BinaryIO, offset: int) -> Frame | None:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    size, check, kind, time = _HEAD.unpack(head)
    if size > FRAME_LIMIT_BYTES:
        return None
    packed = file.read(size)
    if len(packed) < size or _checksum(kind, time, packed) != check:
        return None
    return Frame(offset, offset + _HEAD.size + size, kind, time, packed)


def _checksum(kind: int, time: float, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(_CHECKED.pack(kind, time)))


class EventLogWriter:
    """Appends to a log, made when it is not there; what is left of a frame at its end is cut off. OSError when the file
    cannot be opened, NotAnEventLog when it is something else."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._end = self._find_end()
            os.ftruncate(self._descriptor, self._end)
        except BaseException:
            os.close(self._descriptor)
            raise

    def write(self, kind: int, time: float, payload: bytes) -> None:
        """One frame, whole or (OSError) not at all."""
        packed = zlib.compress(payload, _COMPRESSION_LEVEL)
        head = _HEAD.pack(len(packed), _checksum(kind, time, packed), kind, time)
        self._append(head + packed)

    def close(self) -> None:
        os.close(self._descriptor)

    def _find_end(self) -> int:
        if os.fstat(self._descriptor).st_size < len(MAGIC):
            os.ftruncate(self._descriptor, 0)
            self._end = 0
            self._append(MAGIC)
            return len(MAGIC)
        with open(self._descriptor, "rb", closefd=False) as file:
            stop = len(MAGIC)
            for frame in frames(file):
                stop = frame.stop
            return stop

    def _append(self, data: bytes) -> None:
        try:
            if os.pwrite(self._descriptor, data, self._end) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(data)
