"""Room in a file: what is free between its beginning and its end."""

from __future__ import annotations

import bisect


class Holes:
    """``end`` is where the part of the file that is used ends."""

    def __init__(self) -> None:
        self.end = 0
        self._sizes: dict[int, int] = {}  # by where it begins
        self._starts: dict[int, int] = {}  # by where it ends
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """Return where there is room: in the smallest hole that has it, or at the end."""
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
        """Joined with its neighbours, or with what comes after the end."""
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
