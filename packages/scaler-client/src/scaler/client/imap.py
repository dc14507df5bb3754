"""One imap call: it takes from its iterables as results are taken from it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from scaler.client.future import ScalerFuture
from scaler.client.unordered import EndedQueue, QueuedFuture

if TYPE_CHECKING:
    from scaler.shell.pump import Pump

_REFILL_BELOW = 0.75
_FILL_SECONDS = 0.001


class ImapCall:
    """``send`` submits the arguments of a call, with the future that it is to have or None. At most ``ahead`` calls are
    unfinished, or finished and not taken. Whatever ends the iteration cancels the rest."""

    def __init__(
        self, pump: Pump, send: Callable[..., ScalerFuture], calls: Iterator[tuple[Any, ...]], ahead: int
    ) -> None:
        self._pump = pump
        self._send = send
        self._calls = calls
        self._ahead = ahead

    def in_order(self) -> Generator[Any, None, None]:
        """Results in the order of the calls."""
        futures: deque[ScalerFuture] = deque()
        try:
            while True:
                if self._wants_more(len(futures)):
                    self._fill(futures, self._ahead - len(futures), None)
                if not futures:
                    return
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()

    def as_ended(self) -> Generator[Any, None, None]:
        """Results in the order in which tasks end."""
        queue = EndedQueue(self._pump)
        running: dict[int, ScalerFuture] = {}
        try:
            while True:
                if self._wants_more(len(running)):
                    sent: deque[ScalerFuture] = deque()
                    self._fill(sent, self._ahead - len(running), queue)
                    running.update((id(future), future) for future in sent)
                if not running:
                    return
                future = queue.take()
                del running[id(future)]
                yield future.result()
        finally:
            for future in running.values():
                future.cancel()

    def _wants_more(self, count: int) -> bool:
        return count <= self._ahead * _REFILL_BELOW

    def _fill(self, futures: deque[ScalerFuture], count: int, queue: EndedQueue | None) -> None:
        """Submit up to ``count`` calls. An iterable that is slow does not hold back a result that is there."""
        until = time.monotonic() + _FILL_SECONDS
        for call in islice(self._calls, count):
            future = None if queue is None else QueuedFuture(self._pump, queue)
            futures.append(self._send(call, future))
            ready = futures[0].is_settled() if queue is None else queue.is_settled()
            if ready and time.monotonic() > until:
                return
