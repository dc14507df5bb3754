"""The layout of an object: a pickle and, behind it, the buffers of its arrays, written where they will be read.

Little-endian: magic (8 bytes), u32 number of buffers, u32 zero, u64 size of the pickle, for each buffer u64 where it
begins and u64 its size; the pickle; the buffers, each from a multiple of 64 bytes. No pickle begins with the magic, so
an object without buffers is a plain pickle, and so is one of another serializer plain bytes.
"""

from __future__ import annotations

import mmap
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = b"\xffscaler1"
_HEAD = struct.Struct("<8sIIQ")
_BUFFER = struct.Struct("<QQ")
_ALIGNMENT = 64

Part = tuple[int, memoryview]
"""Bytes, and where in the object they go."""


class ObjectLayout:
    """The bytes of one object, not yet joined. Keeps the buffers, so they must not change before it is written."""

    def __init__(self, pickled: bytes, buffers: Sequence[memoryview]) -> None:
        self._parts: list[Part] = []
        self.size = 0
        if buffers:
            self._plan(pickled, buffers)
        else:
            self._add(0, memoryview(pickled))

    def __len__(self) -> int:
        return self.size

    def parts(self) -> list[Part]:
        """Return the parts in ascending order. The gaps between them, each below 64 bytes, may contain anything."""
        return self._parts

    def write_into(self, view: memoryview) -> None:
        """``view`` has at least ``size`` writable bytes."""
        for offset, part in self._parts:
            view[offset : offset + len(part)] = part

    def to_bytes(self) -> bytes:
        """The object in one piece, for a host without a store."""
        if len(self._parts) == 1 and self._parts[0][0] == 0:
            return bytes(self._parts[0][1])
        data = bytearray(self.size)
        self.write_into(memoryview(data))
        return bytes(data)

    def to_memory(self) -> memoryview:
        """Like ``to_bytes``, in memory of its own, which is obtained and given back as a whole."""
        if not hasattr(mmap, "MAP_ANONYMOUS"):
            return memoryview(self.to_bytes())
        memory = mmap.mmap(-1, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                memory.madvise(mmap.MADV_HUGEPAGE)
            except OSError:  # the kernel has no large pages
                pass
        view = memoryview(memory)
        self.write_into(view)
        return view

    def _plan(self, pickled: bytes, buffers: Sequence[memoryview]) -> None:
        head_size = _HEAD.size + _BUFFER.size * len(buffers)
        position = head_size + len(pickled)
        places = []
        for buffer in buffers:
            position = -(-position // _ALIGNMENT) * _ALIGNMENT
            places.append((position, buffer.nbytes))
            position += buffer.nbytes
        head = bytearray(_HEAD.pack(MAGIC, len(buffers), 0, len(pickled)))
        for place in places:
            head += _BUFFER.pack(*place)
        self._add(0, memoryview(bytes(head) + pickled))
        for (offset, _), buffer in zip(places, buffers, strict=True):
            self._add(offset, buffer.cast("B") if buffer.nbytes else memoryview(b""))

    def _add(self, offset: int, part: memoryview) -> None:
        self._parts.append((offset, part))
        self.size = offset + len(part)


def parts_of(data: ObjectLayout | bytes | bytearray | memoryview) -> list[Part]:
    return data.parts() if isinstance(data, ObjectLayout) else [(0, memoryview(data).cast("B"))]


def size_of(parts: Sequence[Part]) -> int:
    """The size of an object with these parts."""
    offset, last = parts[-1]
    return offset + len(last)


def plan(pickled: bytes, buffers: Sequence[pickle.PickleBuffer | memoryview] = ()) -> ObjectLayout:
    """``buffers`` are those that the pickler gave to its ``buffer_callback``, in order. Raises BufferError when one is
    not contiguous."""
    return ObjectLayout(pickled, [_raw(buffer) for buffer in buffers])


def load(view: memoryview | bytes, loads: Callable[..., Any] = pickle.loads) -> Any:
    """The object of these bytes; its arrays are parts of ``view`` and keep it alive, or of a copy when that cannot be
    written to: arrays can. ``loads`` takes bytes and the keyword ``buffers``. Raises ValueError when the bytes are cut
    or forged."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        return loads(view)
    data = memoryview(view)
    return _load_parts(memoryview(bytearray(data)) if data.readonly else data, loads)


def load_read_only(view: memoryview | bytes, loads: Callable[..., Any] = pickle.loads) -> Any:
    """Like ``load``, but its arrays cannot be written to, so that several tasks may have the same object."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        return loads(view)
    return _load_parts(memoryview(view).toreadonly(), loads)


def _load_parts(data: memoryview, loads: Callable[..., Any]) -> Any:
    if len(data) < _HEAD.size:
        raise ValueError("The object is truncated.")
    _, count, _, pickle_size = _HEAD.unpack_from(data)
    start = _HEAD.size + _BUFFER.size * count
    if start + pickle_size > len(data):
        raise ValueError("The object is truncated.")
    buffers = [_slice(data, *_BUFFER.unpack_from(data, _HEAD.size + _BUFFER.size * index)) for index in range(count)]
    return loads(data[start : start + pickle_size], buffers=buffers)


def _raw(buffer: pickle.PickleBuffer | memoryview) -> memoryview:
    if isinstance(buffer, pickle.PickleBuffer):
        return buffer.raw()
    if not buffer.contiguous:
        raise BufferError("Only contiguous buffers can be written without a copy.")
    return buffer


def _slice(data: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(data):
        raise ValueError("The object is truncated.")
    return data[offset : offset + size]
