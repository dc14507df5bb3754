"""The graph that a session's tasks join while their results may become arguments of other tasks.

Its nodes are submitted one by one. It has room for a fixed range of ids, of which it uses those that its tasks get.
It is closed when it is full or has been idle for a while, and the next node opens another one. See
docs/internals/decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from scaler.core.outcome import Outcome, Sink
from scaler.core.runs import AnyRange, Range, TaskSink
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.core.outgoing import Outgoing

ID_ROOM = 1 << 16
NODES_LIMIT = 8192
BYTES_LIMIT = 256 * 1024 * 1024
_MARGIN = 1 << 15
_NUMBER_MASK = 2**32 - 1


class DependentSink(Sink, Protocol):
    """A future of a task that has results of other tasks as arguments."""

    def blame(self, culprit: TaskSink) -> None:
        """The task ended because this input did not succeed."""


class OpenGraph:
    """``last`` is an id that no task of the graph gets: a cancel of it tells the scheduler that no more nodes come.
    ``waiting`` counts the tasks that have not ended, ``large`` the results that are still in the cluster, ``unsent``
    the ranges without ids. Tasks that have succeeded are kept until the graph is over, because a scheduler that
    restarts may need them to make a lost value again."""

    __slots__ = ("last", "ranges", "waiting", "large", "unsent", "nodes", "size_bytes", "is_closed", "_outgoing")

    def __init__(self, first: int, outgoing: Outgoing) -> None:
        self.last = first + ID_ROOM
        if not self.last & _NUMBER_MASK:
            self.last -= 1
        self.ranges: list[Range[NodePart]] = []
        self.waiting = 0
        self.large = 0
        self.unsent = 0
        self.nodes = 0
        self.size_bytes = 0
        self.is_closed = False
        self._outgoing = outgoing

    @property
    def number(self) -> int:
        return self.last & _NUMBER_MASK

    def has_room(self, next_task: int) -> bool:
        return self.nodes < NODES_LIMIT and self.size_bytes < BYTES_LIMIT and next_task + _MARGIN < self.last

    @property
    def is_over(self) -> bool:
        return not (self.waiting or self.large or self.unsent)

    @property
    def is_idle(self) -> bool:
        """Every result is here, or stays in the cluster under its own name: later nodes need no value of others."""
        return not (self.waiting or self.unsent)

    def close(self) -> None:
        """No more nodes come: the cluster frees the values that no node needs."""
        if not self.is_closed:
            self.is_closed = True
            self._outgoing.cancels.append(self.last)


class NodePart:
    """Tasks of an open graph that share a shape. ``inputs`` has the futures that a task names, until it has ended.
    ``values`` are the tasks that have succeeded and whose result is here: the scheduler may need them again.
    ``failures`` has how the others ended."""

    __slots__ = ("group", "inputs", "values", "failures", "is_counted")

    def __init__(self, group: OpenGraph) -> None:
        self.group = group
        self.inputs: dict[int, Sequence[TaskSink]] = {}
        self.values: set[int] = set()
        self.failures: dict[int, Outcome] = {}
        self.is_counted = False
        group.unsent += 1

    def note_closed(self, entry: Range[NodePart]) -> None:
        """The tasks have ids now, or will never get any."""
        group = self.group
        if self.is_counted:
            return
        if entry.run is not None:
            group.ranges.append(entry)
            group.size_bytes += entry.run.payload_bytes
        group.unsent -= 1  # no call from here on, so that an interruption leaves out everything or nothing
        group.nodes += entry.remaining
        group.waiting += entry.remaining
        self.is_counted = True

    def settle_silently(self, entry: AnyRange, index: int) -> Sink | None:
        self.inputs.pop(index, None)
        if self.is_counted:
            self.group.waiting -= 1
        return entry.take_sink(index)

    def end_with_value(self, entry: AnyRange, index: int) -> None:
        """The task has succeeded, and its result is here."""
        self.values.add(index)
        self.inputs.pop(index, None)
        if self.is_counted:  # no call from here on, so that an interruption leaves out everything or nothing
            self.group.waiting -= 1
        entry.sinks[index] = None

    def note_ended(self, index: int, outcome: Outcome) -> None:
        """Call this before the task is settled."""
        if outcome.status == Status.SUCCESS:
            self.values.add(index)
        elif outcome.status != Status.SUCCESS_LARGE:
            self.failures[index] = outcome

    def culprit(self, index: int) -> tuple[TaskSink, Outcome] | None:
        """An input that did not succeed, and how it ended."""
        for sink in self.inputs.get(index, ()):
            part = None if sink.task_range is None else sink.task_range.part
            outcome = part.failures.get(sink.task_index) if isinstance(part, NodePart) else None
            if outcome is not None:
                return sink, outcome
        return None

    def unfinished(self, entry: AnyRange) -> list[int]:
        large, values = entry.large, self.values
        return [
            index for index, sink in enumerate(entry.sinks) if sink is not None or index in large or index in values
        ]

    def restated(self, entry: AnyRange) -> Iterator[tuple[int, int, bool]]:
        """The unfinished tasks as (start, stop, whether their results are here)."""
        start, stop, is_here = -1, -1, False
        for index in self.unfinished(entry):
            if index != stop or (index in self.values) != is_here:
                if start >= 0:
                    yield start, stop, is_here
                start, is_here = index, index in self.values
            stop = index + 1
        if start >= 0:
            yield start, stop, is_here
