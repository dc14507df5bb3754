"""Futures in the order in which they end."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from scaler.client.future import ScalerFuture
from scaler.core.outcome import Outcome

if TYPE_CHECKING:
    from scaler.shell.pump import Pump


class EndedQueue:
    """Something to wait for: that one more of its futures has ended."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._lazy_condition: threading.Condition | None = None
        self.ended: deque[ScalerFuture[Any]] = deque()

    def take(self) -> ScalerFuture[Any]:
        if not self.ended:
            self._pump.wait(self)
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
        return self._lazy_condition or self._pump.make_condition(self)[0]


class QueuedFuture(ScalerFuture[Any]):
    """Puts itself into its queue when it ends."""

    def __init__(self, pump: Pump, queue: EndedQueue) -> None:
        super().__init__(pump)
        self._queue = queue
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
