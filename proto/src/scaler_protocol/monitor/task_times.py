"""The arrival and the functions of single tasks, and the parts of their durations, as far as records told them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import NamedTuple

from scaler_protocol.monitor.records import NONE

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

    def add_arrival(
        self, session: int, first: int, count: int, time_us: int, function: int = NONE, options: int = 0,
        argument_bytes: int = NONE,
    ) -> bool:  # fmt: skip
        """Return whether these tasks have come now; otherwise what is known of them has changed."""
        arrivals = self._arrivals.get(session)
        if arrivals is None:
            if len(self._arrivals) >= SESSIONS_LIMIT:
                self._arrivals.popitem(last=False)
            arrivals = self._arrivals[session] = _Arrivals()
        return arrivals.add(first, first + count, (time_us, function, options, argument_bytes))

    def add_parts(self, session: int, task: int, attempt: int, parts: ExecutionParts) -> None:
        if len(self._parts) >= PARTS_LIMIT:
            self._parts.popitem(last=False)
        self._parts[session, task, attempt] = parts

    @property
    def has_parts(self) -> bool:
        """False: nothing but running is known of any execution."""
        return bool(self._parts)

    def arrived_us(self, session: int, task: int) -> int | None:
        """Return when a task arrived from its client; None if that is not known."""
        arrivals = self._arrivals.get(session)
        return arrivals.find(task, arrivals.times) if arrivals is not None else None

    def function_of(self, session: int, task: int) -> int:
        """Return the index of the function of a task that has arrived, or NONE."""
        arrivals = self._arrivals.get(session)
        found = arrivals.find(task, arrivals.functions) if arrivals is not None else None
        return NONE if found is None else found

    def options_of(self, session: int, task: int) -> int:
        """Return the index of the options of a task that has arrived; 0 if it is not known."""
        arrivals = self._arrivals.get(session)
        return arrivals.find(task, arrivals.options) or 0 if arrivals is not None else 0

    def arguments_of(self, session: int, task: int) -> tuple[int, int] | None:
        """Return the mean size of the arguments of the tasks that arrived together with this one, in bytes, and how
        many tasks these are; None if it is not known."""
        arrivals = self._arrivals.get(session)
        found = arrivals.find(task, arrivals.argument_bytes) if arrivals is not None else None
        return (found, arrivals.count_with(task)) if arrivals is not None and found not in (None, NONE) else None

    def arrived_between(self, session: int, first: int, stop: int | None) -> Iterator[range]:
        """The tasks of a session that are known to have arrived, from ``first`` to before ``stop``."""
        arrivals = self._arrivals.get(session)
        return arrivals.between(first, stop) if arrivals is not None else iter(())

    def ranges_with(self, options: Container[int]) -> Iterator[tuple[int, array[int], array[int], array[int]]]:
        """The ranges of arrived tasks that have some of these options: their session, and for each range its first
        task, the task after its last one, and the index of its options."""
        for session, arrivals in self._arrivals.items():
            columns = arrivals.with_options(options)
            if columns[0]:
                yield session, *columns

    def parts(self, session: int, task: int, attempt: int, duration_us: int) -> ExecutionParts | None:
        """Return the parts of an execution that took this long. None: all of it was spent running, as far as is
        known."""
        found = self._parts.get((session, task, attempt))
        return found if found is not None and sum(found) * 1e6 <= duration_us + 1 else None


class _Arrivals:
    """Ranges of one session in ascending order, as they come."""

    def __init__(self) -> None:
        self._firsts, self._stops = array("Q"), array("Q")
        self.times, self.functions, self.options, self.argument_bytes = array("Q"), array("I"), array("I"), array("I")
        self._dropped_stop = 0

    def add(self, first: int, stop: int, values: tuple[int, int, int, int]) -> bool:
        """``values``: one for each column, in their order."""
        if self._firsts and first < self._stops[-1]:
            place = bisect_left(self._firsts, first)
            if place < len(self._firsts) and (self._firsts[place], self._stops[place]) == (first, stop):
                for column, value in zip(self._columns(), values, strict=True):
                    column[place] = value
                return False  # its options have changed
            if stop <= self._dropped_stop:
                return False  # it came too long ago: its range is not kept any more
            self._keep_last(0)  # not in order: the session has begun again
            self._dropped_stop = 0
        if len(self._firsts) >= RANGES_LIMIT:
            self._keep_last(RANGES_LIMIT // 2)
            self._dropped_stop = self._firsts[0]
        self._firsts.append(first)
        self._stops.append(stop)
        for column, value in zip(self._columns(), values, strict=True):
            column.append(value)
        return True

    def _columns(self) -> tuple[array[int], ...]:
        return self.times, self.functions, self.options, self.argument_bytes

    def _keep_last(self, count: int) -> None:
        for column in (self._firsts, self._stops, *self._columns()):
            del column[: len(column) - count]

    def find(self, task: int, column: array[int]) -> int | None:
        """Return the value in this column of the range of a task."""
        place = bisect_right(self._firsts, task) - 1
        return column[place] if place >= 0 and task < self._stops[place] else None

    def with_options(self, options: Container[int]) -> tuple[array[int], array[int], array[int]]:
        places = [place for place, each in enumerate(self.options) if each in options]
        firsts, stops, found = (
            array(column.typecode, [column[place] for place in places])
            for column in (self._firsts, self._stops, self.options)
        )
        return firsts, stops, found

    def count_with(self, task: int) -> int:
        """Return how many tasks the range of a task has."""
        place = bisect_right(self._firsts, task) - 1
        return self._stops[place] - self._firsts[place]

    def between(self, first: int, stop: int | None) -> Iterator[range]:
        for place in range(max(0, bisect_right(self._firsts, first) - 1), len(self._firsts)):
            end = self._stops[place] if stop is None else min(stop, self._stops[place])
            found = range(max(first, self._firsts[place]), end)
            if found:
                yield found
            elif self._firsts[place] >= end:
                return
