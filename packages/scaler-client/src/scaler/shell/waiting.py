"""What a thread can wait for."""

from __future__ import annotations

import enum
import threading
from typing import Protocol

from scaler.core.outcome import Outcome


class Waits(enum.IntEnum):
    """What a thread waits for: a task that waits lends its worker to tasks that are nested deeper, and one that waits
    for a lock to any other when nothing else runs on its host."""

    NOT_AT_ALL = 0  # or not for long
    FOR_TASKS = 1
    FOR_A_LOCK = 2


class Target(Protocol):
    """Its condition is made when somebody first needs it: most futures never need one."""

    _lazy_condition: threading.Condition | None

    def is_settled(self) -> bool: ...

    def prepare_condition(self) -> None:
        """Called once, under the pump's lock, before the condition is there."""

    @property
    def _condition(self) -> threading.Condition: ...


class Waiter(Protocol):
    """What an answer needs of the client's input and output."""

    def wait(self, target: Target, timeout_seconds: float | None = None, kind: Waits = Waits.FOR_TASKS) -> None: ...

    def make_condition(self, target: Target) -> tuple[threading.Condition, bool]: ...


class Answer:
    """The outcome of one request, for the thread that made it. ``kind``: what waiting for it does to a task."""

    def __init__(self, pump: Waiter, kind: Waits = Waits.FOR_TASKS) -> None:
        self._pump = pump
        self._kind = kind
        self._lazy_condition: threading.Condition | None = None
        self.outcome: Outcome | None = None

    @property
    def _condition(self) -> threading.Condition:
        return self._lazy_condition or self._pump.make_condition(self)[0]

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
            self._pump.wait(self, timeout_seconds, self._kind)
        assert self.outcome is not None
        return self.outcome
