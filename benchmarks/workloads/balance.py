"""Uneven tasks: how close the whole comes to the time that perfect balance would take."""

from __future__ import annotations

import time

from benchmarks.functions import sleep
from benchmarks.peers import Engine

SLOW_SECONDS = 0.2
FAST_SECONDS = 0.005
TASKS = 200
SLOW_TASKS = TASKS // 10


def slow_first() -> list[float]:
    return [SLOW_SECONDS] * SLOW_TASKS + [FAST_SECONDS] * (TASKS - SLOW_TASKS)


def slow_every_second() -> list[float]:
    """Slow and fast by turns until there are no slow ones left."""
    return [SLOW_SECONDS, FAST_SECONDS] * SLOW_TASKS + [FAST_SECONDS] * (TASKS - 2 * SLOW_TASKS)


def _makespan_ratio(engine: Engine, durations: list[float], workers: int) -> float:
    started = time.perf_counter()
    engine.map(sleep, durations)
    return (time.perf_counter() - started) / (sum(durations) / workers)


def makespan(engine: Engine, count: int) -> dict[str, float]:
    """``count`` is the number of workers."""
    return {
        "slow_first_ratio": _makespan_ratio(engine, slow_first(), count),
        "slow_every_second_ratio": _makespan_ratio(engine, slow_every_second(), count),
    }
