"""The segments of the store as their owner has them: anonymous memory files, which vanish with the last holder."""

from __future__ import annotations

import fcntl
import os

from scaler_protocol.objects.core.space import Extent
from scaler_protocol.objects.entered_mapping import EnteredMapping
from scaler_protocol.objects.memory import punch

_SEAL_SIZE = 0x2 | 0x4 | 0x1  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL
_ADD_SEALS = 1033


class MemoryFiles:
    def __init__(self) -> None:
        self._fds: dict[int, int] = {}
        self._mappings: dict[int, EnteredMapping] = {}

    def make(self, number: int, size: int) -> None:
        """Prevent peers with the descriptor from changing its size, which would kill processes that map it. Raises
        OSError."""
        fd = os.memfd_create("scaler-objects", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, _ADD_SEALS, _SEAL_SIZE)
        except BaseException:
            os.close(fd)
            raise
        self._fds[number] = fd

    def __contains__(self, number: int) -> bool:
        return number in self._fds

    def fd(self, number: int) -> int:
        return self._fds[number]

    def close(self, number: int) -> None:
        """Harmless for one that could not be made."""
        self._mappings.pop(number, None)
        fd = self._fds.pop(number, None)
        if fd is not None:
            os.close(fd)

    def punch(self, extent: Extent) -> None:
        """Free the file's memory like ``close``."""
        fd = self._fds.get(extent.segment)
        if fd is not None:
            punch(fd, extent.offset, extent.size)

    def view(self, extent: Extent) -> memoryview:
        """The bytes of an extent, shared with all who map it. Raises OSError."""
        view = memoryview(self._mapping(extent.segment).mapping)
        return view[extent.offset : extent.offset + extent.size]

    def prepare(self, extent: Extent, offset: int, size: int) -> None:
        """These bytes of an extent will be written through ``view``. Raises OSError when no memory is left."""
        place = extent.offset + offset
        mapping = self._mapping(extent.segment)
        if extent.fresh:
            os.posix_fallocate(self._fds[extent.segment], place, size)
            mapping.forget(place, size)
        mapping.enter(place, size)

    def _mapping(self, number: int) -> EnteredMapping:
        mapping = self._mappings.get(number)
        if mapping is None:
            fd = self._fds[number]
            mapping = self._mappings[number] = EnteredMapping(fd, os.fstat(fd).st_size)
        return mapping

    def write(self, extent: Extent, offset: int, data: bytes) -> None:
        """``offset`` counts from the beginning of the extent. Raises OSError when no memory is left."""
        view = memoryview(data)
        place = extent.offset + offset
        while view:
            count = os.pwrite(self._fds[extent.segment], view, place)
            view, place = view[count:], place + count
        if not data:
            os.pwrite(self._fds[extent.segment], b"\0", place)
