"""One task at a time: the time from submit to its result."""

from __future__ import annotations

import time

from benchmarks.functions import noop
from benchmarks.peers import Engine

_WARM_SECONDS = 1.0
"""Before it counts: processes that are still starting take the cores from whatever runs."""


def submit_and_wait(engine: Engine, count: int) -> dict[str, float]:
    until = time.monotonic() + _WARM_SECONDS
    while time.monotonic() < until:
        engine.submit(noop, 0).result()
    samples = []
    for index in range(count):
        started = time.perf_counter()
        engine.submit(noop, index).result()
        samples.append((time.perf_counter() - started) * 1e6)
    samples.sort()
    return {"p50_us": samples[count // 2], "p99_us": samples[count * 99 // 100]}
