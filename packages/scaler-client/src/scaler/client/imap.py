"""``imap`` and ``imap_unordered``: a call takes from its iterables as results are taken from it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from scaler.client.future import ScalerFuture, cancel_futures
from scaler.client.map_items import note_item
from scaler.client.outcomes import hide_frames
from scaler.core.outcome import Outcome

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

_REFILL_BELOW = 0.75
_FILL_SECONDS = 0.001


class EndedQueue:
    """The futures of an ``imap_unordered`` that have ended, in that order. A thread may wait for the next one."""

    def __init__(self, client_io: ClientIO) -> None:
        self._client_io = client_io
        self._lazy_condition: threading.Condition | None = None
        self.ended: deque[QueuedFuture] = deque()

    def take(self) -> QueuedFuture:
        if not self.ended:
            self._client_io.wait(self)
        return self.ended.popleft()

    def is_settled(self) -> bool:
        return bool(self.ended)

    def prepare_condition(self) -> None:
        pass

    def notify(self) -> None:
        with self._condition:
            self._condition.notify_all()

    @property
    def _condition(self) -> threading.Condition:
        return self._lazy_condition or self._client_io.make_condition(self)[0]


class QueuedFuture(ScalerFuture[Any]):
    """A future that puts itself into its queue when it ends. ``place``: that of its item, counting from 0."""

    def __init__(self, client_io: ClientIO, queue: EndedQueue, place: int) -> None:
        super().__init__(client_io)
        self._queue = queue
        self._place = place
        self._is_queued = False

    def settle(self, outcome: Outcome) -> bool:
        if self._is_queued:  # the scheduler repeats a message whose taking was interrupted
            return True
        if self._queue._lazy_condition is not None or not super().settle(outcome):
            return False
        self._is_queued = True
        self._queue.ended.append(self)
        return True

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        if not self._is_queued:
            self._is_queued = True
            self._queue.ended.append(self)
            self._queue.notify()

    def item_result(self) -> Any:
        """The result. A failure names the item."""
        try:
            return self.result()
        except Exception as error:
            note_item(error, "imap_unordered", self._place)
            raise
        finally:
            self = None  # type: ignore[assignment]  # no cycle through the traceback


class ImapCall:
    """``send`` submits the arguments of a call with the future that it is given. At most ``ahead`` calls are
    unfinished, or finished and not taken. When the iteration ends, the calls that were not taken are cancelled. For
    this, a future is on the list before its task is sent, and until its result has been waited for."""

    def __init__(
        self, client_io: ClientIO, send: Callable[..., object], calls: Iterator[tuple[Any, ...]], ahead: int
    ) -> None:
        self._client_io = client_io
        self._send = send
        self._calls = calls
        self._ahead = ahead

    def in_order(self) -> Generator[Any, None, None]:
        """Results in the order of the calls."""
        futures: deque[ScalerFuture[Any]] = deque()
        taken = 0

        def begin() -> ScalerFuture[Any]:
            future: ScalerFuture[Any] = ScalerFuture(self._client_io)
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
                    note_item(error, "imap", taken)
                    raise
                taken += 1
                yield futures.popleft().result()
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            cancel_futures(self._client_io, futures)
            futures.clear()  # an exception that refers to this frame must not keep them

    def as_ended(self) -> Generator[Any, None, None]:
        """Results in the order in which tasks end."""
        queue = EndedQueue(self._client_io)
        running: dict[int, QueuedFuture] = {}
        places = count()

        def begin() -> ScalerFuture[Any]:
            future = QueuedFuture(self._client_io, queue, next(places))
            running[id(future)] = future
            return future

        try:
            while True:
                if self._wants_more(len(running)):
                    self._fill(self._ahead - len(running), begin, queue.is_settled)
                if not running:
                    return
                yield running.pop(id(queue.take())).item_result()
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            cancel_futures(self._client_io, running.values())
            running.clear()

    def _wants_more(self, unfinished: int) -> bool:
        return unfinished <= self._ahead * _REFILL_BELOW

    def _fill(self, limit: int, begin: Callable[[], ScalerFuture[Any]], is_ready: Callable[[], bool]) -> None:
        """Submit up to ``limit`` calls. An iterable that is slow does not hold back a result that is there."""
        until = time.monotonic() + _FILL_SECONDS
        for call in islice(self._calls, limit):
            self._send(call, begin())
            if is_ready() and time.monotonic() > until:
                return
