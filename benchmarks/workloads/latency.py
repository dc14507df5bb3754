"""One task at a time: the time from submit to its result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.functions import noop
from benchmarks.peers import Engine
from benchmarks.workloads.objects import total

_WARM_SECONDS = 1.0
"""Before it counts: processes that are still starting take the cores from whatever runs."""

_CALM_SECONDS = 5.0


def submit_and_wait(engine: Engine, count: int) -> dict[str, float]:
    until = time.monotonic() + _WARM_SECONDS
    _while(engine, lambda: time.monotonic() < until)
    samples = sorted(_one(engine) * 1e6 for _ in range(count))
    return {"p50_us": samples[count // 2], "p99_us": samples[count * 99 // 100]}


def submit_during_bulk(engine: Engine, size: int) -> dict[str, float]:
    """Small tasks, first alone and then while an array of ``size`` bytes travels to another task. How much longer they
    take by the median, and the longest of both."""
    import numpy

    array = numpy.random.default_rng(1).random(size // 8)
    until = time.monotonic() + _WARM_SECONDS
    _while(engine, lambda: time.monotonic() < until)
    until = time.monotonic() + _CALM_SECONDS
    alone = _while(engine, lambda: time.monotonic() < until)
    bulk = threading.Thread(target=lambda: engine.submit(total, array).result())
    started = time.perf_counter()
    bulk.start()
    during = _while(engine, bulk.is_alive)
    return {
        "delay_p50_ms": (during[len(during) // 2] - alone[len(alone) // 2]) * 1e3,
        "alone_longest_ms": alone[-1] * 1e3,
        "during_longest_ms": during[-1] * 1e3,
        "mb_per_second": size / (time.perf_counter() - started) / 1e6,
    }


def _while(engine: Engine, condition: Callable[[], bool]) -> list[float]:
    """The times of tasks, sorted; at least one."""
    samples = [_one(engine)]
    while condition():
        samples.append(_one(engine))
    return sorted(samples)


def _one(engine: Engine) -> float:
    started = time.perf_counter()
    engine.submit(noop, 0).result()
    return time.perf_counter() - started
