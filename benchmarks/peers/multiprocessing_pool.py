"""multiprocessing.Pool with one task a message."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop
from benchmarks.peers import gather_in_order


class PoolFuture:
    def __init__(self, result: Any) -> None:
        self.result = result.get


class MultiprocessingEngine:
    chunk_size: int | None = 1

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def submit(self, function: Any, *arguments: Any, **keywords: Any) -> PoolFuture:
        return PoolFuture(self._pool.apply_async(function, arguments, keywords))

    def map(self, function: Any, items: Any) -> list[Any]:
        return self._pool.map(function, items, chunksize=self.chunk_size)

    gather = staticmethod(gather_in_order)


@contextmanager
def open_engine(workers: int, engine: type[MultiprocessingEngine] = MultiprocessingEngine) -> Iterator[Any]:
    with multiprocessing.Pool(workers) as pool:
        pool.map(noop, range(100 * workers), chunksize=1)
        yield engine(pool)
