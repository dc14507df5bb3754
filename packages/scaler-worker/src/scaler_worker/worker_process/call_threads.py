"""The threads in which an actor runs several calls at a time."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Generic, TypeVar

from scaler_protocol.command.threads import lack_of_thread

T = TypeVar("T")


class CallThreads(Generic[T]):
    """At most ``count`` threads, which are started when they are needed. Each takes calls and runs them until there is
    none. So calls that end soon follow one another in one thread, which costs no change of threads.

    ``take`` claims the next call, if there is one. It is called under ``lock``, and calls ``wake`` if another call
    waits. ``run`` runs a call, and raises nothing unless the process cannot go on."""

    def __init__(
        self, count: int, lock: AbstractContextManager[object], take: Callable[[], T | None], run: Callable[[T], None]
    ) -> None:
        self._count = self._missing = count  # not started yet
        self._idle = 0
        self._is_waking = False  # one thread was woken or started, and has not looked yet
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._lock = lock
        self._take = take
        self._run = run

    def wake(self) -> None:
        """Under the lock: let a further thread take a call, if one is free and none is about to look."""
        if self._is_waking or not (self._idle or self._missing):
            return
        self._is_waking = True
        if self._idle:
            self._idle -= 1
            self._wakes.put(None)
        else:
            self._start()

    def _start(self) -> None:
        """If no thread can be started, those that run take all calls. Raises RuntimeError if none runs."""
        try:
            threading.Thread(target=self._serve, name="actor call", daemon=True).start()
        except RuntimeError as error:
            if self._missing == self._count:
                raise RuntimeError(f"This actor cannot run calls: {lack_of_thread(error)}") from error
            self._is_waking = False
        else:
            self._missing -= 1

    def _serve(self) -> None:
        try:
            while True:
                self._run_all()
                self._wakes.get()
        except BaseException:  # as in the main thread, where it ends the process: a call without a result never ends
            traceback.print_exc()
            os._exit(1)

    def _run_all(self) -> None:
        call = self._next(was_woken=True)
        while call is not None:
            self._run(call)
            call = self._next()

    def _next(self, was_woken: bool = False) -> T | None:
        with self._lock:
            if was_woken:
                self._is_waking = False
            call = self._take()
            if call is None:
                self._idle += 1
            return call


def meet_interruption() -> None:
    """Raise the exception that another thread has set for this one, if it is pending: Python does that where a function
    begins. Removing it instead (``PyThreadState_SetAsyncExc`` with NULL) would make the interpreter believe from then
    on that there is one; a traced function then never begins."""
