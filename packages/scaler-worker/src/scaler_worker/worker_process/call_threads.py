"""The threads in which an actor runs several calls at a time."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class CallThreads(Generic[T]):
    """At most ``count`` threads, which are started when they are needed. ``run`` runs a call, and raises nothing unless
    the process cannot go on."""

    def __init__(self, count: int, run: Callable[[T], None]) -> None:
        self._free = threading.Semaphore(count)
        self._pool = ThreadPoolExecutor(count, "actor call")
        self._run = run

    def reserve(self) -> None:
        """Wait until a thread is free, and keep it for the next call. Signals are handled meanwhile."""
        self._free.acquire()

    def give_back(self) -> None:
        """There is no call for the reserved thread."""
        self._free.release()

    def start(self, call: T) -> None:
        """Run the call in the reserved thread."""
        self._pool.submit(self._run_one, call)

    def _run_one(self, call: T) -> None:
        try:
            self._run(call)
        except BaseException:  # as in the main thread, where it ends the process: a call without a result never ends
            traceback.print_exc()
            os._exit(1)
        self._free.release()
