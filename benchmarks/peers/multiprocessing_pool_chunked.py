"""multiprocessing.Pool with the chunk size it chooses itself: one answer for hundreds of tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from benchmarks.peers import multiprocessing_pool


class ChunkedEngine(multiprocessing_pool.MultiprocessingEngine):
    chunk_size = None


def open_engine(workers: int) -> AbstractContextManager[Any]:
    return multiprocessing_pool.open_engine(workers, ChunkedEngine)
