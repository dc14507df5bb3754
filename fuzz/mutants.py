"""Mutants of an input: what libFuzzer does between two inputs costs more than many of the inputs themselves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

NUMBERS = (0, 1, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
SIZES = (1, 2, 4, 8)
MOST_CHANGES = 4
LONGEST_RANGE = 64
REMEMBERED = 256


class Mutants:
    """Each has at most ``longest_bytes``, and one to ``MOST_CHANGES`` changes. ``are_filled``: it has as many bytes as
    it may have, and other inputs follow the first one. ``kept``: inputs of which half of the mutants are made, since
    libFuzzer forgets all inputs of targets without compiled code, whose branches it does not see."""

    def __init__(self, longest_bytes: int, are_filled: bool = False, kept: Sequence[bytes] = ()) -> None:
        self._kept = kept
        self._longest_bytes = longest_bytes
        self._are_filled = are_filled
        self._bits = random.Random(0).getrandbits
        self._others: list[bytes] = [b""]
        self._changes: tuple[Callable[[bytearray, int], None], ...] = (
            self._flip, self._flip, self._set, self._number, self._remove, self._copy, self._insert, self._splice,
        )  # fmt: skip

    def of(self, data: bytes, count: int) -> Iterator[bytes]:
        """``count`` mutants of ``data``, which is remembered to be mixed with later ones."""
        if len(self._others) < REMEMBERED:
            self._others.append(data)
        else:
            self._others[self._bits(8) % REMEMBERED] = data
        for number in range(count):
            is_of_kept = number % 2 and self._kept
            mutant = bytearray(self._kept[self._bits(16) % len(self._kept)] if is_of_kept else data)
            for _ in range(1 + self._bits(8) % MOST_CHANGES):
                self._changes[self._bits(3)](mutant, self._bits(16) % (len(mutant) + 1))
            while self._are_filled and len(mutant) < self._longest_bytes:
                mutant += self._other() or self._bits(8 * LONGEST_RANGE).to_bytes(LONGEST_RANGE, "little")
            yield bytes(mutant[: self._longest_bytes])

    def _other(self) -> bytes:
        return self._others[self._bits(8) % len(self._others)]

    def _flip(self, mutant: bytearray, at: int) -> None:
        if at < len(mutant):
            mutant[at] ^= 1 << self._bits(3)

    def _set(self, mutant: bytearray, at: int) -> None:
        mutant[at : at + 1] = bytes((self._bits(8),))

    def _number(self, mutant: bytearray, at: int) -> None:
        size = SIZES[self._bits(2)]
        number = (NUMBERS[self._bits(8) % len(NUMBERS)] + self._bits(2) - 1) % 256**size
        mutant[at : at + size] = number.to_bytes(size, "big" if self._bits(2) == 0 else "little")

    def _remove(self, mutant: bytearray, at: int) -> None:
        del mutant[at : at + 1 + self._bits(8) % LONGEST_RANGE]

    def _copy(self, mutant: bytearray, at: int) -> None:
        """A range, to another place."""
        place = self._bits(16) % (len(mutant) + 1)
        mutant[place:place] = mutant[at : at + 1 + self._bits(8) % LONGEST_RANGE]

    def _insert(self, mutant: bytearray, at: int) -> None:
        count = 1 + self._bits(3)
        mutant[at:at] = self._bits(8 * count).to_bytes(count, "little")

    def _splice(self, mutant: bytearray, at: int) -> None:
        """The rest is that of another input."""
        other = self._other()
        mutant[at:] = other[self._bits(16) % (len(other) + 1) :]
