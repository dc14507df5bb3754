"""One imap call: it takes from its iterables as results are taken from it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from scaler.client.future import ScalerFuture, cancel_futures
from scaler.client.outcomes import hide_frames
from scaler.client.unordered import EndedQueue, QueuedFuture

if TYPE_CHECKING:
    from scaler.shell.pump import Pump

_REFILL_BELOW = 0.75
_FILL_SECONDS = 0.001


class ImapCall:
    """``send`` submits the arguments of a call with the future that it is given. At most ``ahead`` calls are
    unfinished, or finished and not taken. Whatever ends the iteration cancels those that were not taken: a future stays
    on the list until its result was waited for, and is on it before its task is sent."""

    def __init__(self, pump: Pump, send: Callable[..., object], calls: Iterator[tuple[Any, ...]], ahead: int) -> None:
        self._pump = pump
        self._send = send
        self._calls = calls
        self._ahead = ahead

    def in_order(self) -> Generator[Any, None, None]:
        """Results in the order of the calls."""
        futures: deque[ScalerFuture[Any]] = deque()
        taken = 0

        def begin() -> ScalerFuture[Any]:
            future: ScalerFuture[Any] = ScalerFuture(self._pump)
            futures.append(future)
            return future

        try:
            while True:
                if self._wants_more(len(futures)):
                    self._fill(self._ahead - len(futures), begin, lambda: futures[0].is_settled())
                if not futures:
                    return
                try:
                    futures[0].result()
                except Exception as error:
                    error.add_note(f"Raised by item {taken} of imap(), counting from 0.")
                    raise
                taken += 1
                yield futures.popleft().result()
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            cancel_futures(self._pump, futures)
            futures.clear()  # an exception that refers to this frame must not keep them

    def as_ended(self) -> Generator[Any, None, None]:
        """Results in the order in which tasks end."""
        queue = EndedQueue(self._pump)
        running: dict[int, ScalerFuture[Any]] = {}

        def begin() -> ScalerFuture[Any]:
            future = QueuedFuture(self._pump, queue)
            running[id(future)] = future
            return future

        try:
            while True:
                if self._wants_more(len(running)):
                    self._fill(self._ahead - len(running), begin, queue.is_settled)
                if not running:
                    return
                yield running.pop(id(queue.take())).result()
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            cancel_futures(self._pump, running.values())
            running.clear()

    def _wants_more(self, count: int) -> bool:
        return count <= self._ahead * _REFILL_BELOW

    def _fill(self, count: int, begin: Callable[[], ScalerFuture[Any]], is_ready: Callable[[], bool]) -> None:
        """Submit up to ``count`` calls. An iterable that is slow does not hold back a result that is there."""
        until = time.monotonic() + _FILL_SECONDS
        for call in islice(self._calls, count):
            self._send(call, begin())
            if is_ready() and time.monotonic() > until:
                return
