"""Decisions read from a fuzzer's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Each decision takes bytes from the front. When there are none left every decision is the first one or 0; a target
    that goes on while there are ``more`` ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        if self._at < len(self._data):
            self._at += 1
            return self._data[self._at - 1]
        return 0

    def number(self, size_bytes: int) -> int:
        return int.from_bytes(self.take(size_bytes), "little")

    def below(self, limit: int) -> int:
        """0 up to ``limit`` - 1, which is at most 65,535."""
        if limit > 256:
            return self.number(2) % limit
        at = self._at
        if at >= len(self._data):
            return 0
        self._at = at + 1
        return self._data[at] % limit

    def flag(self, one_in: int = 2) -> bool:
        """False when nothing is left."""
        return self.byte() % one_in == one_in - 1

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def take(self, size: int) -> bytes:
        """Take at most ``count`` bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._data))
