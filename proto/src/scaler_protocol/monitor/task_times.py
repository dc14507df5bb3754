"""The arrival of single tasks, and the parts of their durations, as far as records told them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

RANGES_LIMIT = 20_000
"""Ranges of tasks of one session whose arrival is kept, the latest ones."""

SESSIONS_LIMIT = 200
PARTS_LIMIT = 100_000
"""Executions whose parts are kept, the latest ones."""


class ExecutionParts(NamedTuple):
    """The parts of a duration, in seconds; the rest is running."""

    fetching: float = 0.0
    loading: float = 0.0
    storing: float = 0.0


class TaskTimes:
    """The times of tasks by session (its index in records), task and attempt."""

    def __init__(self) -> None:
        self._arrivals: OrderedDict[int, _Arrivals] = OrderedDict()
        self._parts: OrderedDict[tuple[int, int, int], ExecutionParts] = OrderedDict()

    def add_arrival(self, session: int, first: int, count: int, time_us: int) -> None:
        arrivals = self._arrivals.get(session)
        if arrivals is None:
            if len(self._arrivals) >= SESSIONS_LIMIT:
                self._arrivals.popitem(last=False)
            arrivals = self._arrivals[session] = _Arrivals()
        arrivals.add(first, first + count, time_us)

    def add_parts(self, session: int, task: int, attempt: int, parts: ExecutionParts) -> None:
        if len(self._parts) >= PARTS_LIMIT:
            self._parts.popitem(last=False)
        self._parts[session, task, attempt] = parts

    def arrived_us(self, session: int, task: int) -> int | None:
        """Return when a task arrived from its client; None if that is not known."""
        arrivals = self._arrivals.get(session)
        return arrivals.find(task) if arrivals is not None else None

    def parts(self, session: int, task: int, attempt: int) -> ExecutionParts | None:
        """None: all of the duration was spent running, as far as is known."""
        return self._parts.get((session, task, attempt))


class _Arrivals:
    """Ranges of one session in ascending order, as they come."""

    def __init__(self) -> None:
        self._firsts, self._stops, self._times = array("Q"), array("Q"), array("Q")

    def add(self, first: int, stop: int, time_us: int) -> None:
        if self._firsts and first < self._stops[-1]:
            self._keep_last(0)  # not in order: the session has begun again
        if len(self._firsts) >= RANGES_LIMIT:
            self._keep_last(RANGES_LIMIT // 2)
        self._firsts.append(first)
        self._stops.append(stop)
        self._times.append(time_us)

    def _keep_last(self, count: int) -> None:
        for column in (self._firsts, self._stops, self._times):
            del column[: len(column) - count]

    def find(self, task: int) -> int | None:
        place = bisect_right(self._firsts, task) - 1
        return self._times[place] if place >= 0 and task < self._stops[place] else None
