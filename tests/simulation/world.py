"""Virtual time: a heap of things to happen, and one source of chance. The same seed gives the same run."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

START_TIME = 1000.0


class World:
    """Holds the clock. Nothing here waits: time jumps to the next thing that happens."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now = START_TIME
        self.steps = 0
        self._counter = itertools.count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, time: float, action: Callable[[], None]) -> None:
        """``action`` happens at ``time``; what is due at the same time happens in the order it was asked for."""
        heapq.heappush(self._heap, (max(time, self.now), next(self._counter), action))

    def after(self, delay_seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay_seconds, action)

    def between(self, least: float, most: float) -> float:
        return self.chance.uniform(least, most)

    def run(self, until: float, finished: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen until ``finished`` or the time is ``until``; says whether it finished."""
        while not finished():
            if not self._heap or self._heap[0][0] > until:
                self.now = max(self.now, until)
                return finished()
            self.now, _, action = heapq.heappop(self._heap)
            self.steps += 1
            action()
        return True
