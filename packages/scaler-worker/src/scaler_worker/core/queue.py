"""Runs that wait on this host for a processor."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Collection, Iterator

from scaler_protocol.codec import TaskRun

Named = tuple[int, int]
"""A task and its attempt. 0: any attempt."""


class TaskQueue:
    """Deeper tasks first, then higher priority, then in order of arrival."""

    def __init__(self) -> None:
        self._levels: dict[tuple[int, int], deque[TaskRun]] = {}
        self._order: list[tuple[int, int]] = []  # keys of levels, negated so that the first is the next to run
        self.count = 0

    def push(self, run: TaskRun) -> None:
        self._level(run).append(run)
        self.count += run.count

    def push_front(self, run: TaskRun) -> None:
        """A run that was taken out and did not start."""
        self._level(run).appendleft(run)
        self.count += run.count

    def head(self, deeper_than: int | None = None) -> TaskRun | None:
        """The run whose first task is next."""
        if not self._order:
            return None
        run = self._levels[self._order[0]][0]
        return run if deeper_than is None or run.options.depth > deeper_than else None

    def take(self, limit: int) -> TaskRun:
        """Up to ``limit`` tasks from the head."""
        key = self._order[0]
        level = self._levels[key]
        run = level[0]
        if run.count <= limit:
            level.popleft()
            if not level:
                self._drop_if_empty(key)
            self.count -= run.count
            return run
        level[0] = run.slice(limit, run.count)
        self.count -= limit
        return run.slice(0, limit)

    def withdraw(self, count: int) -> list[TaskRun]:
        """Take out up to ``count`` tasks, those that would run last."""
        taken: list[TaskRun] = []
        while count and self._order:
            run = self._take_last(count)
            taken.append(run)
            count -= run.count
        return taken

    def _take_last(self, limit: int) -> TaskRun:
        key = self._order[-1]
        level = self._levels[key]
        run = level.pop()
        if run.count > limit:
            level.append(run.slice(0, run.count - limit))
            run = run.slice(run.count - limit, run.count)
        self._drop_if_empty(key)
        self.count -= run.count
        return run

    def remove(self, session: bytes, tasks: Collection[Named]) -> list[Named]:
        """Take out the given tasks; returns those that were here, with their attempts."""
        removed: list[Named] = []
        for key in list(self._order):
            level = self._levels[key]
            self._levels[key] = deque(part for run in level for part in without_tasks(run, session, tasks, removed))
            self._drop_if_empty(key)
        self.count -= len(removed)
        return removed

    def runs(self) -> Iterator[TaskRun]:
        for key in self._order:
            yield from self._levels[key]

    def clear(self) -> list[TaskRun]:
        """Take out everything."""
        runs = list(self.runs())
        self._levels.clear()
        self._order.clear()
        self.count = 0
        return runs

    def check(self) -> None:
        assert self.count == sum(run.count for run in self.runs())
        assert len(self._order) == len(self._levels) and all(self._levels.values())

    def _level(self, run: TaskRun) -> deque[TaskRun]:
        key = (-run.options.depth, -run.options.priority)
        level = self._levels.get(key)
        if level is None:
            level = self._levels[key] = deque()
            insort(self._order, key)
        return level

    def _drop_if_empty(self, key: tuple[int, int]) -> None:
        if not self._levels[key]:
            del self._levels[key]
            self._order.remove(key)


def without_tasks(run: TaskRun, session: bytes, tasks: Collection[Named], removed: list[Named]) -> Iterator[TaskRun]:
    """The parts of ``run`` that are left; what is taken out is added to ``removed``."""
    if run.session != session:
        yield run
        return
    start = 0
    for index in range(run.count):
        if (run.first_task + index, run.attempt) in tasks or (run.first_task + index, 0) in tasks:
            removed.append((run.first_task + index, run.attempt))
            if index > start:
                yield run.slice(start, index)
            start = index + 1
    if start == 0:
        yield run
    elif start < run.count:
        yield run.slice(start, run.count)
