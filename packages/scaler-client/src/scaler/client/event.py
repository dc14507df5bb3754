"""Events of the whole cluster."""

from __future__ import annotations

from typing import Any

from scaler.client.named import NamingClient
from scaler.client.named_value import NamedValue, deadline_of
from scaler.core.named_calls import CallState
from scaler_protocol.messages import CoordinationKind, NamedAction


class Event(NamedValue):
    """An event of the whole cluster, used like ``threading.Event``. Make it with :meth:`Client.event`.

    Events of one name are one event wherever they are used: in this application, in others and in tasks. A task that
    waits for one lends its worker to other tasks. An event is forgotten when all applications that have used it have
    left; the tasks of an application count as that application."""

    noun = "event"
    kind = CoordinationKind.EVENT

    def __init__(self, name: str, client: NamingClient | None = None) -> None:
        """If ``client`` is None, the event uses the client of the task that uses it."""
        super().__init__(name, client)

    def set(self) -> None:
        """Set the event: calls of ``wait`` return, and return at once, until the event is cleared."""
        self._call(NamedAction.SET)

    def clear(self) -> None:
        """Clear the event: later calls of ``wait`` block until it is set again."""
        self._call(NamedAction.CLEAR)

    def is_set(self) -> bool:
        return self._call(NamedAction.PEEK).state is CallState.DONE

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set. Returns False if that takes longer than ``timeout`` seconds."""
        return self._wait_for(NamedAction.READ, deadline_of(timeout)).state is CallState.DONE

    def __reduce__(self) -> tuple[Any, ...]:
        return Event, (self.name, self._client)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "scaler.Event", self.name

    def __repr__(self) -> str:
        return f"Event({self.name!r})"
