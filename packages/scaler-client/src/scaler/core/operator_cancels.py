"""Reasons of cancels that this client has not made itself."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque

from scaler.core.outcome import Outcome
from scaler_protocol.messages import Cancel, Status

_MESSAGES_LIMIT = 64


class OperatorCancels:
    """The latest messages about tasks that an operator cancels, each with its reason. The tasks end with results, as
    all tasks do."""

    def __init__(self, session: bytes) -> None:
        self._session = session
        self._reasons: deque[tuple[array[int], bytes]] = deque(maxlen=_MESSAGES_LIMIT)

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def on_cancel(self, cancel: Cancel, now: float) -> None:
        for column in cancel.columns:
            if column.session == self._session:
                self._reasons.append((array("Q", sorted(column.tasks)), cancel.reason.encode()))

    def explained(self, task: int, outcome: Outcome) -> Outcome:
        """Return the outcome of a task with the reason why an operator has cancelled it, if one has."""
        if outcome.status != Status.CANCELLED:
            return outcome
        for tasks, reason in reversed(self._reasons):
            place = bisect_left(tasks, task)
            if place < len(tasks) and tasks[place] == task:
                return outcome._replace(payload=reason)
        return outcome

    def clear(self) -> None:
        """No task is unfinished."""
        self._reasons.clear()
