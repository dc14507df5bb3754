"""The threads in which an actor runs several calls at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from scaler_worker.worker_process.call_threads import CallThreads
from tests.support.waiting import wait_until

LIMIT_SECONDS = 30.0


class Calls:
    """Functions as calls. ``wakes``: a thread that takes one wakes another for the next."""

    def __init__(self, count: int, wakes: bool) -> None:
        self.waiting: deque[Callable[[], object]] = deque()
        self.threads_seen: list[int] = []
        self.lock = threading.Lock()
        self._wakes = wakes
        self._threads = CallThreads(count, self.lock, self._take, self._run)

    def add(self, *calls: Callable[[], object]) -> None:
        with self.lock:
            self.waiting.extend(calls)
            self._threads.wake()

    def _take(self) -> Callable[[], object] | None:
        if not self.waiting:
            return None
        call = self.waiting.popleft()
        if self._wakes and self.waiting:
            self._threads.wake()
        return call

    def _run(self, call: Callable[[], object]) -> None:
        self.threads_seen.append(threading.get_ident())
        call()


def test_one_thread_runs_calls_until_there_is_none() -> None:
    calls, ended = Calls(3, wakes=False), threading.Event()
    calls.add(*[int] * 50, ended.set)
    assert ended.wait(LIMIT_SECONDS)
    assert len(calls.threads_seen) == 51 and len(set(calls.threads_seen)) == 1


def test_a_thread_without_calls_takes_later_ones() -> None:
    calls, first, second = Calls(1, wakes=True), threading.Event(), threading.Event()
    calls.add(first.set)
    assert first.wait(LIMIT_SECONDS)
    calls.add(second.set)
    assert second.wait(LIMIT_SECONDS) and len(set(calls.threads_seen)) == 1


def test_calls_that_wait_for_one_another_run_at_the_same_time() -> None:
    calls, meeting = Calls(3, wakes=True), threading.Barrier(4)
    calls.add(*[lambda: meeting.wait(LIMIT_SECONDS)] * 3)
    meeting.wait(LIMIT_SECONDS)
    assert len(set(calls.threads_seen)) == 3


def test_no_more_threads_than_allowed_take_calls() -> None:
    calls, gate, ended = Calls(2, wakes=True), threading.Event(), threading.Event()
    calls.add(*[lambda: gate.wait(LIMIT_SECONDS)] * 2, ended.set)
    wait_until(lambda: len(calls.threads_seen) == 2)
    calls.add()
    assert len(calls.waiting) == 1
    gate.set()
    assert ended.wait(LIMIT_SECONDS) and len(set(calls.threads_seen)) == 2
