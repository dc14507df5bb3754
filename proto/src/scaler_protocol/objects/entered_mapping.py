"""A memory file that is written through one kept mapping. Pages are entered into the mapping before they are written,
many at once, and those that it has already are not entered again."""

from __future__ import annotations

from scaler_protocol.objects.core.space import PAGE_BYTES
from scaler_protocol.objects.memory import Mapping


class EnteredMapping:
    """The mapping of a whole file. ``offset`` and ``size`` are bytes and need not be those of pages."""

    def __init__(self, fd: int, size: int) -> None:
        self.mapping = Mapping(fd, 0, size, False)
        self._entered = bytearray(size // PAGE_BYTES)  # per page: 1 when the mapping has it

    def enter(self, offset: int, size: int) -> None:
        """Enter the pages of these bytes, which the system has reserved, because they will be written."""
        first, stop = _pages(offset, size)
        if self._entered.find(0, first, stop) >= 0:
            self.mapping.populate(first * PAGE_BYTES, (stop - first) * PAGE_BYTES)
            self._entered[first:stop] = b"\1" * (stop - first)

    def forget(self, offset: int, size: int) -> None:
        """Forget the pages of these bytes, which were given back to the system meanwhile."""
        first, stop = _pages(offset, size)
        self._entered[first:stop] = bytes(stop - first)


def _pages(offset: int, size: int) -> tuple[int, int]:
    return offset // PAGE_BYTES, -(-(offset + size) // PAGE_BYTES)
