"""Cancels of tasks that have not started: only the scheduler and the agents know which these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.core.outcome import Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler_protocol.messages import UNSTARTED_ONLY_SINCE_MINOR, Cancel, CancelRefused, Status, TaskColumn

_TASKS_PER_MESSAGE = 20_000
_REFUSED = Outcome(Status.SUCCESS, b"")


class UnstartedCancels:
    """Each request has a sink, which gets an outcome when it is known that the task was not cancelled. A task that is
    cancelled ends, like all tasks, with a result; then the request is withdrawn."""

    def __init__(self, session: bytes, outgoing: Outgoing) -> None:
        self._session = session
        self._outgoing = outgoing
        self._sinks: dict[int, list[Sink]] = {}
        self._is_supported = True

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def ask(self, requests: Mapping[int, Sink]) -> None:
        """Cancel these tasks, which have been sent, unless they have started."""
        for task, sink in requests.items():
            self._sinks.setdefault(task, []).append(sink)
        if self._is_supported:
            self._send(list(requests))
        else:
            self.refuse_all()

    def withdraw(self, requests: Mapping[int, Sink]) -> None:
        """Forget these requests, for which no thread waits any more."""
        for task, sink in requests.items():
            sinks = self._sinks.get(task, [])
            if sink in sinks:
                sinks.remove(sink)
            if not sinks:
                self._sinks.pop(task, None)

    def on_refused(self, refused: CancelRefused, now: float) -> None:
        tasks = [task for column in refused.columns if column.session == self._session for task in column.tasks]
        if refused.moved:
            self._send([task for task in tasks if task in self._sinks])
            return
        for task in tasks:
            self._outgoing.tell_all(self._sinks.pop(task, []), _REFUSED)

    def on_welcome(self, minor: int, resumed: bool) -> None:
        """A scheduler that has restarted does not know which tasks have started, and an old one cannot ask."""
        self._is_supported = minor >= UNSTARTED_ONLY_SINCE_MINOR
        if not (self._is_supported and resumed):
            self.refuse_all()

    def refuse_all(self) -> None:
        sinks, self._sinks = self._sinks, {}
        for each in sinks.values():
            self._outgoing.tell_all(each, _REFUSED)

    def _send(self, tasks: Sequence[int]) -> None:
        for start in range(0, len(tasks), _TASKS_PER_MESSAGE):
            part = tuple(tasks[start : start + _TASKS_PER_MESSAGE])
            self._outgoing.urgent.append(Cancel((TaskColumn(self._session, part),), unstarted_only=True))
