"""The tasks in which nested clients live, as far as records told them: parents and children of tasks.

A nested client lives in one task after the other. From each stay on, all tasks that the client submits are children of
that task, until the next stay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

STAYS_LIMIT = 100_000
"""Stays that are kept, the latest ones."""


class TaskPlace(NamedTuple):
    """A task: the index of its client in records, and its number."""

    session: int
    task: int


class ChildTasks(NamedTuple):
    """Tasks of a nested client, from ``first`` to before ``stop``; None: to the last one."""

    session: int
    first: int
    stop: int | None


class NestedTasks:
    def __init__(self) -> None:
        self._stays: OrderedDict[TaskPlace, TaskPlace] = OrderedDict()
        """The parents, by the first child of each stay, in order of arrival."""

        self._firsts: dict[int, list[int]] = {}
        """The first child of each stay by nested client, in ascending order."""

        self._children: dict[TaskPlace, list[TaskPlace]] = {}
        """The first child of each stay by parent."""

        self._counts: dict[TaskPlace, int] = {}
        """The number of children of each stay, by its first child."""

        self._totals: dict[TaskPlace, int] = {}
        """The number of children by parent."""

    def add(self, session: int, first: int, parent: TaskPlace) -> None:
        """The nested client ``session`` lives in ``parent`` from now on, and numbers its tasks from ``first`` on."""
        firsts = self._firsts.setdefault(session, [])
        while firsts and firsts[-1] >= first:  # nothing was submitted in between
            self._forget(TaskPlace(session, firsts[-1]))
        if len(self._stays) >= STAYS_LIMIT:
            self._forget(next(iter(self._stays)))
        begin = TaskPlace(session, first)
        self._stays[begin] = parent
        self._firsts.setdefault(session, []).append(first)
        self._children.setdefault(parent, []).append(begin)

    def add_children(self, session: int, first: int, count: int) -> None:
        """Tasks of a client have come; it need not be nested."""
        begin = self._begin_of(session, first)
        if begin is not None:
            parent = self._stays[begin]
            self._counts[begin] = self._counts.get(begin, 0) + count
            self._totals[parent] = self._totals.get(parent, 0) + count

    def _forget(self, begin: TaskPlace) -> None:
        parent = self._stays.pop(begin)
        _remove(self._firsts, begin.session, begin.task)
        _remove(self._children, parent, begin)
        count = self._counts.pop(begin, 0)
        if count:
            self._totals[parent] -= count
        if parent not in self._children:
            self._totals.pop(parent, None)

    def parent_of(self, session: int, task: int) -> TaskPlace | None:
        """None: the client is not nested, or that is not known."""
        begin = self._begin_of(session, task)
        return self._stays[begin] if begin is not None else None

    def _begin_of(self, session: int, task: int) -> TaskPlace | None:
        """The stay to which a task of a nested client belongs."""
        firsts = self._firsts.get(session, ())
        place = bisect_right(firsts, task) - 1
        return TaskPlace(session, firsts[place]) if place >= 0 else None

    def has_children(self, stay: ChildTasks) -> bool:
        """Return whether any task of a nested client has come in this stay."""
        return self._counts.get(TaskPlace(stay.session, stay.first), 0) > 0

    def count_children(self, parent: TaskPlace) -> int:
        """Return how many tasks of nested clients in this task have come."""
        return self._totals.get(parent, 0)

    def children_of(self, parent: TaskPlace) -> Iterator[ChildTasks]:
        """Return the tasks of nested clients in this task, in the order in which the clients came."""
        return (ChildTasks(*begin, self._end_of(begin)) for begin in self._children.get(parent, ()))

    def _end_of(self, begin: TaskPlace) -> int | None:
        firsts = self._firsts[begin.session]
        place = bisect_right(firsts, begin.task)
        return firsts[place] if place < len(firsts) else None


def _remove(lists: dict[K, list[V]], key: K, value: V) -> None:
    lists[key].remove(value)
    if not lists[key]:
        del lists[key]
