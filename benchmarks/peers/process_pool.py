"""concurrent.futures.ProcessPoolExecutor, as it comes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop
from benchmarks.peers import gather_in_order


class PoolEngine:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self.submit = pool.submit

    def map(self, function: Any, items: Any) -> list[Any]:
        return list(self._pool.map(function, items))

    gather = staticmethod(gather_in_order)


@contextmanager
def open_engine(workers: int) -> Iterator[PoolEngine]:
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(noop, range(100 * workers)))
        yield PoolEngine(pool)
