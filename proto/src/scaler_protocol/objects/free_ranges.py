"""The free ranges of a file, for placing objects in it."""

from __future__ import annotations

import bisect


class FreeRanges:
    """Positions and sizes have the unit of the caller. ``end`` is the end of the used part of the file."""

    def __init__(self) -> None:
        self.end = 0
        self._sizes: dict[int, int] = {}  # by where it begins
        self._starts: dict[int, int] = {}  # by where it ends
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """Return the start of a range of this size: in the smallest free range that is large enough, or at the end."""
        index = bisect.bisect_left(self._by_size, (size, 0))
        if index == len(self._by_size):
            self.end += size
            return self.end - size
        room, start = self._by_size[index]
        self._remove(start)
        if room > size:
            self._add(start + size, room - size)
        return start

    def give_back(self, start: int, size: int) -> None:
        """Free a range, and join it with free neighbours. If it is the last one, ``end`` moves back."""
        if start + size in self._sizes:
            size += self._remove(start + size)
        if start in self._starts:
            before = self._starts[start]
            size += self._remove(before)
            start = before
        if start + size == self.end:
            self.end = start
        else:
            self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        self._sizes[start] = size
        self._starts[start + size] = start
        bisect.insort(self._by_size, (size, start))

    def _remove(self, start: int) -> int:
        size = self._sizes.pop(start)
        del self._starts[start + size]
        del self._by_size[bisect.bisect_left(self._by_size, (size, start))]
        return size
