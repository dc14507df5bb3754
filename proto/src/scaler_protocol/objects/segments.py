"""The segments of a store as its peers use them: written through one kept mapping, read through private ones.

What writing costs depends on the pages. Those that the system has not reserved yet are written by system call, which
reserves them (a mapping would kill the process if there was no memory left). Those that are new to this process are
entered into its mapping at once. Pages written before through this mapping cost no more than the copy.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_protocol.messages import StoreExtent
from scaler_protocol.objects.entered_mapping import EnteredMapping
from scaler_protocol.objects.layout import Part
from scaler_protocol.objects.memory import Descriptor, Kept, Mapping, Releases

COPY_BYTES = 256 * 1024
"""Smaller objects are copied out: mapping and unmapping them takes longer."""


@dataclass(slots=True)
class _Segment:
    descriptor: Descriptor
    size: int
    written: EnteredMapping | None = None

    @property
    def fd(self) -> int:
        return self.descriptor.fd


class Segments:
    """``maps_always``: who reads here must not wait for a copy, even when much of the memory is mapped."""

    def __init__(self, maps_always: bool = False) -> None:
        self._maps_always = maps_always
        self._segments: dict[int, _Segment] = {}
        self._kept = Kept()

    def add(self, number: int, fd: int, size: int) -> None:
        """It owns ``fd`` from now on."""
        self._segments[number] = _Segment(Descriptor(fd), size)

    def has(self, number: int) -> bool:
        return number in self._segments

    def remove(self, number: int) -> None:
        """Remove a segment; reads and writes of it that are in progress can still finish."""
        self._segments.pop(number, None)
        self._kept.forget(number)

    def close(self) -> None:
        self._segments.clear()
        self._kept.close()

    def unmap_unused(self) -> None:
        """Mappings that are kept for the next object in the same place."""
        self._kept.clear()

    def write(self, number: int, offset: int, parts: Sequence[Part], fresh: bool) -> None:
        """``parts`` begin at ``offset``, the start of a page. Raises OSError when the system has no memory left, and
        KeyError when the segment was removed."""
        segment = self._segments[number]
        size = parts[-1][0] + len(parts[-1][1])
        if fresh:
            self._reserve(segment, offset, size, parts)
            return
        if segment.written is None:
            segment.written = EnteredMapping(segment.fd, segment.size)
        segment.written.enter(offset, size)
        for place, part in parts:
            segment.written.mapping.write(offset + place, part)

    def write_piece(self, number: int, offset: int, data: bytes) -> None:
        """Anywhere, whatever the pages are. Raises OSError as ``write`` does."""
        _write_all(self._segments[number].fd, offset, memoryview(data))

    def read(self, extent: StoreExtent, releases: Releases) -> memoryview:
        """A writable copy of small objects, a copy-on-write mapping of others. The pin is released when the bytes in
        the segment are not needed any more."""
        segment = self._segments[extent.segment]
        if extent.size >= COPY_BYTES and (self._maps_always or not extent.copied):
            try:
                return memoryview(
                    Mapping(
                        segment.fd, extent.offset, extent.size, True, releases, extent.pin, self._kept, extent.segment
                    )
                )
            except OSError:
                pass  # a process has at most 65,530 mappings
        try:
            return _copy(segment.fd, extent.offset, extent.size)
        finally:
            releases.release(extent.pin)

    def copy(self, number: int, offset: int, size: int) -> memoryview | None:
        """Bytes that no pin holds: the caller verifies afterwards that they were not reused. None: the segment is not
        known here."""
        segment = self._segments.get(number)
        return None if segment is None else _copy(segment.fd, offset, size)

    def _reserve(self, segment: _Segment, offset: int, size: int, parts: Sequence[Part]) -> None:
        for place, part in parts:
            _write_all(segment.fd, offset + place, part)
        if not size:
            os.pwrite(segment.fd, b"\0", offset)  # even an empty object has a page
        if segment.written is not None:
            segment.written.forget(offset, max(size, 1))


def _copy(fd: int, offset: int, size: int) -> memoryview:
    data = _room(size)
    view = data
    while view:
        count = os.preadv(fd, [view], offset)
        view, offset = view[count:], offset + count
    return data


def _room(size: int) -> memoryview:
    """Given back to the system as a whole when it is large."""
    if size < COPY_BYTES:
        return memoryview(bytearray(size))
    try:
        return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError:
        raise MemoryError(f"This host has no memory for a copy of an object of {size:,} bytes.") from None


def _write_all(fd: int, offset: int, part: memoryview) -> None:
    while part:
        count = os.pwrite(fd, part, offset)
        part, offset = part[count:], offset + count
