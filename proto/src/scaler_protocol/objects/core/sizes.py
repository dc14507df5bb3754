"""The size of the largest object, nearly: known at once, however many objects come and go."""

from __future__ import annotations

from collections.abc import Sequence


class Sizes:
    """Counts sizes by their number of bits."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    def add(self, size: int) -> None:
        bits = size.bit_length()
        if bits >= len(self._counts):
            self._counts += [0] * (bits + 1 - len(self._counts))
        self._counts[bits] += 1

    def remove(self, size: int) -> None:
        self._counts[size.bit_length()] -= 1
        while self._counts and not self._counts[-1]:
            self._counts.pop()

    @property
    def largest_bytes(self) -> int:
        """No size is larger, and the largest one is more than half of it. 0: there is none."""
        return (1 << len(self._counts) - 1) - 1 if self._counts else 0

    def check(self, sizes: Sequence[int]) -> None:
        """``sizes`` are all that there are."""
        expected = [0] * (max((size.bit_length() for size in sizes), default=-1) + 1)
        for size in sizes:
            expected[size.bit_length()] += 1
        assert self._counts == expected
