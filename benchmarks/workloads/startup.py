"""The time from nothing to the first result."""

from __future__ import annotations

import time

from benchmarks.functions import noop
from benchmarks.peers import open_engine


def first_result(peer: str, workers: int) -> dict[str, float]:
    started = time.perf_counter()
    with open_engine(peer, workers) as engine:
        engine.submit(noop, 0).result()
        elapsed = time.perf_counter() - started
    return {"seconds": elapsed}
