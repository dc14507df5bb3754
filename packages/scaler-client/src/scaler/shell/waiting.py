"""Waiting of the client's threads."""

from __future__ import annotations

import enum
import threading
from typing import Protocol

from scaler.core.outcome import Outcome


class Waits(enum.IntEnum):
    """The reason why a thread waits. A task that waits lends its worker to tasks that are nested deeper. A task that
    waits for a lock lends it to any task if nothing else runs on its host."""

    NOT_AT_ALL = 0  # or not for long
    FOR_TASKS = 1
    FOR_A_LOCK = 2


class Target(Protocol):
    """Something that a thread can wait for. Its condition is made when it is first needed; most need none."""

    _lazy_condition: threading.Condition | None

    def is_settled(self) -> bool: ...

    def prepare_condition(self) -> None:
        """Called once, with the lock of the client's I/O held, before the condition is there."""

    @property
    def _condition(self) -> threading.Condition: ...


class Waiter(Protocol):
    """The interface of the client's I/O to an answer."""

    def wait(self, target: Target, timeout_seconds: float | None = None, kind: Waits = Waits.FOR_TASKS) -> None: ...

    def make_condition(self, target: Target) -> tuple[threading.Condition, bool]: ...


class PendingAnswer:
    """The outcome of one request, for the thread that made it. ``kind``: what a task that waits for it lends."""

    def __init__(self, client_io: Waiter, kind: Waits = Waits.FOR_TASKS) -> None:
        self._client_io = client_io
        self._kind = kind
        self._lazy_condition: threading.Condition | None = None
        self.outcome: Outcome | None = None

    @property
    def _condition(self) -> threading.Condition:
        return self._lazy_condition or self._client_io.make_condition(self)[0]

    def is_settled(self) -> bool:
        return self.outcome is not None

    def prepare_condition(self) -> None:
        pass

    def settle(self, outcome: Outcome) -> bool:
        if self._lazy_condition is not None:
            return False
        self.outcome = outcome
        return True

    def finish(self, outcome: Outcome) -> None:
        with self._condition:
            self.outcome = outcome
            self._condition.notify_all()

    def wait(self, timeout_seconds: float | None = None) -> Outcome:
        """Raises TimeoutError."""
        if self.outcome is None:
            self._client_io.wait(self, timeout_seconds, self._kind)
        assert self.outcome is not None
        return self.outcome
