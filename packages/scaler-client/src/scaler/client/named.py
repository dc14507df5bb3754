"""Objects that clients and tasks of the whole cluster share by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from scaler.core.outcome import DISCONNECTED
from scaler.shell.client_io import ClientIO
from scaler.shell.connection import parent_task
from scaler.utility.exceptions import DisconnectedError, ScalerError
from scaler_protocol.messages import LOCK_NAME_LIMIT_BYTES, Status, TaskName


class NamingClient(Protocol):
    """The interface of a client to the objects that it shares by name."""

    @property
    def _client_io(self) -> ClientIO: ...


class NamedObject:
    """The common part of these objects. ``noun``: how errors name it."""

    default_client: ClassVar[Callable[[], NamingClient]]
    """Makes the client of an object that was made without one, in a task."""

    noun: ClassVar[str]

    def __init__(self, name: str, client: NamingClient | None) -> None:
        """If ``client`` is None, the object uses the client of the task that uses it."""
        check_name(name, self.noun)
        self._name = name
        self._client = client
        self._opening = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    def _client_io(self) -> ClientIO:
        if self._client is None:
            with self._opening:
                self._client = self._client or NamedObject.default_client()
        return self._client._client_io

    def _client_io_to_wait(self) -> ClientIO:
        """Raises RuntimeError where waiting would block the client itself."""
        client_io = self._client_io()
        if client_io.is_mine():
            raise RuntimeError(
                f"Cannot wait for {with_article(self.noun)} here: the garbage collector has interrupted the client. "
                "Do not wait in __del__."
            )
        return client_io


def check_name(name: str, noun: str) -> None:
    """Raises TypeError or ValueError if ``name`` cannot be the name of such an object."""
    if not isinstance(name, str):
        raise TypeError(f"The name of {with_article(noun)} is a string, not {type(name).__name__}.")
    size = len(name.encode())
    if not 1 <= size <= LOCK_NAME_LIMIT_BYTES:
        raise ValueError(f"The name of {with_article(noun)} has 1 to {LOCK_NAME_LIMIT_BYTES} bytes, not {size}.")


def with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def left(deadline: float | None) -> float | None:
    """The seconds until then; None if there is no deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def task_of(client_io: ClientIO) -> TaskName | None:
    """The task that this process runs, when the client is nested in one."""
    task = parent_task() if client_io.session.is_nested else None
    return task if task is not None and task.session else None


def check_answer(outcome: Any) -> Any:
    """The payload of an answer. Raises an exception if there was none."""
    if outcome.status == Status.SUCCESS:
        return outcome.payload
    text = bytes(outcome.payload).decode(errors="replace")
    raise (DisconnectedError if outcome.status == DISCONNECTED else ScalerError)(text)
