"""Uneven tasks: how close the whole comes to the time that perfect balance would take."""

from __future__ import annotations

import statistics
import time

from benchmarks.functions import sleep, spin
from benchmarks.peers import Engine

SLOW_SECONDS = 0.2
FAST_SECONDS = 0.005
TASKS = 200
SLOW_TASKS = TASKS // 10
SPINS = {
    "50us": (50e-6, 20_000),
    "200us": (200e-6, 8_000),
    "1ms": (0.001, 2_000),
    "5ms": (0.005, 500),
    "20ms": (0.02, 150),
}
"""Seconds of a task, and the number of tasks."""
_TURNS = 5


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


def ideal_share(engine: Engine, count: int) -> dict[str, float]:
    """Return the share of the elapsed time in which ``count`` workers would have done the tasks; medians."""
    engine.map(spin, [0.0001] * 2000)
    figures: dict[str, float] = {}
    for name, (seconds, tasks) in SPINS.items():
        maps, submits = [], []
        for _ in range(_TURNS):
            started = time.perf_counter()
            engine.map(spin, [seconds] * tasks)
            maps.append(time.perf_counter() - started)
            started = time.perf_counter()
            engine.gather([engine.submit(spin, seconds) for _ in range(tasks)])
            submits.append(time.perf_counter() - started)
        figures[f"{name}_map"] = tasks * seconds / count / statistics.median(maps)
        figures[f"{name}_submit"] = tasks * seconds / count / statistics.median(submits)
    return figures
