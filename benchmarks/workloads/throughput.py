"""Very many very short tasks."""

from __future__ import annotations

import time

from benchmarks.functions import add, label, noop, power, scale
from benchmarks.peers import Engine


def map_noops(engine: Engine, count: int) -> dict[str, float]:
    """One map call over ``count`` no-ops."""
    started = time.perf_counter()
    results = engine.map(noop, range(count))
    elapsed = time.perf_counter() - started
    assert len(results) == count
    return {"tasks_per_second": count / elapsed}


def submit_noops(engine: Engine, count: int) -> dict[str, float]:
    """``count`` submits, then all results."""
    started = time.perf_counter()
    futures = [engine.submit(noop, index) for index in range(count)]
    submitted = time.perf_counter()
    engine.gather(futures)
    elapsed = time.perf_counter() - started
    return {"tasks_per_second": count / elapsed, "submit_us": (submitted - started) / count * 1e6}


def submit_mixed(engine: Engine, count: int) -> dict[str, float]:
    """Submits that alternate between four functions, each with another keyword argument."""
    quarter = count // 4
    started = time.perf_counter()
    futures = []
    for index in range(quarter):
        futures.append(engine.submit(add, index, step=3))
        futures.append(engine.submit(scale, index, factor=4))
        futures.append(engine.submit(power, index, exponent=3))
        futures.append(engine.submit(label, index, prefix="n"))
    results = engine.gather(futures)
    elapsed = time.perf_counter() - started
    assert results[-1] == f"n{quarter - 1}"
    return {"tasks_per_second": 4 * quarter / elapsed}
