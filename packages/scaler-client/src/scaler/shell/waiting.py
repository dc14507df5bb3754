"""What a thread can wait for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from scaler.core.outcome import Outcome

if TYPE_CHECKING:
    from scaler.shell.pump import Pump


class Target(Protocol):
    """Its condition is made when somebody first needs it: most futures never need one."""

    _lazy_condition: threading.Condition | None

    def is_settled(self) -> bool: ...

    def prepare_condition(self) -> None:
        """Called once, under the pump's lock, before the condition is there."""

    @property
    def _condition(self) -> threading.Condition: ...


class Answer:
    """The outcome of one request, for the thread that made it."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
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
            self._pump.wait(self, timeout_seconds)
        assert self.outcome is not None
        return self.outcome
