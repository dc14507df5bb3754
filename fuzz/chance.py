"""A source of chance that a fuzzer decides."""

from __future__ import annotations

import random

from fuzz.choices import Choices


class Chance(random.Random):
    """Takes what it gives out from the fuzzer's bytes; when there are none left, from a seed, always the same."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(0)
        self._choices = choices

    def random(self) -> float:
        return self._choices.byte() / 256 if self._choices.more else super().random()

    def getrandbits(self, k: int, /) -> int:
        if not self._choices.more:
            return super().getrandbits(k)
        return self._choices.number((k + 7) // 8) >> (-k % 8)
