"""Queues of the whole cluster."""

from __future__ import annotations

import operator
import queue
from typing import Any

from scaler.client.named import NamingClient
from scaler.client.named_value import NamedValue, deadline_of, loaded, serialized
from scaler.core.named_calls import CallState
from scaler.utility.exceptions import DeserializeObjectError
from scaler_protocol.messages import QUEUE_LIMIT, CoordinationKind, NamedAction


class Queue(NamedValue):
    """A queue of the whole cluster, used like ``queue.Queue``. Make it with :meth:`Client.queue`.

    Queues of one name are one queue wherever they are used: in this application, in others and in tasks. Items are
    taken in the order in which they were put, by the getters in the order in which they asked. An item is any small
    object that can be pickled. A task that waits for an item or for room lends its worker to other tasks. A queue is
    forgotten, with its items, when all applications that have used it have left; the tasks of an application count as
    that application."""

    noun = "queue"
    kind = CoordinationKind.QUEUE

    def __init__(self, name: str, maximum_size: int = 0, client: NamingClient | None = None) -> None:
        """If ``client`` is None, the queue uses the client of the task that uses it."""
        super().__init__(name, client)
        self.limit = _checked(maximum_size)

    @property
    def maximum_size(self) -> int:
        """The maximum number of items; 0 means no limit."""
        return self.limit

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an item; wait until there is room. Raises ``queue.Full`` if that takes longer than ``timeout``
        seconds, or at once if ``block`` is False."""
        payload = serialized(self, item)
        if not block:
            call = self._call(NamedAction.TRY_PUT, payload)
        else:
            call = self._wait_for(NamedAction.PUT, deadline_of(_not_negative(timeout)), payload)
        if call.state is not CallState.DONE:
            raise queue.Full

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the first item; wait until there is one. Raises ``queue.Empty`` if that takes longer than
        ``timeout`` seconds, or at once if ``block`` is False."""
        deadline = deadline_of(_not_negative(timeout)) if block else None
        call = self._new(NamedAction.TAKE if block else NamedAction.TRY_TAKE)
        try:
            self._finish(call, deadline)
            if call.state is not CallState.DONE:
                raise queue.Empty
            item = loaded(self, call)
        except DeserializeObjectError:  # it would be the first one for all that follow
            raise
        except BaseException:
            self._give_up(call)
            raise
        return item

    def put_nowait(self, item: Any) -> None:
        """``put(item, block=False)``."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """``get(block=False)``."""
        return self.get(block=False)

    def qsize(self) -> int:
        """The number of items."""
        return self._call(NamedAction.COUNT).count

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.limit <= self.qsize()

    def __reduce__(self) -> tuple[Any, ...]:
        return Queue, (self.name, self.limit, self._client)

    def __dask_tokenize__(self) -> tuple[str, str, int]:
        return "scaler.Queue", self.name, self.limit

    def __repr__(self) -> str:
        return f"Queue({self.name!r}, {self.limit})" if self.limit else f"Queue({self.name!r})"


def _checked(maximum_size: int) -> int:
    """Check the size: as in ``queue.Queue``, a negative size means no limit. Raises TypeError or ValueError."""
    number = max(operator.index(maximum_size), 0)
    if number > QUEUE_LIMIT:
        raise ValueError(f"The maximum size of a queue is at most {QUEUE_LIMIT}, not {number}.")
    return number


def _not_negative(timeout: float | None) -> float | None:
    """Check the timeout like ``queue.Queue``."""
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout
