"""The tasks of one graph, which end together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.core.outcome import Sink
from scaler.core.runs import AnyRange, Range, TaskSink

_WAITING, _ENDED, _NEEDED = 0, 1, 2


class GraphGroup:
    """A graph. Its tasks stay unfinished until every target has ended and its large results have been fetched or
    dropped, because a scheduler that restarts may need them all. ``first`` and ``last`` are its first and last task id.
    ``waiting`` counts the targets that have not ended, ``large`` the results that are still at their agents."""

    __slots__ = ("first", "last", "ranges", "waiting", "large")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        self.ranges: list[Range[GraphPart]] = []
        self.waiting = 0
        self.large = 0

    @property
    def is_over(self) -> bool:
        return not (self.waiting or self.large)


class GraphPart:
    """Tasks of one graph that share a shape. Either all of them are targets, with a sink each, or none is. A target
    that other tasks of the graph need stays unfinished as long as they may need it."""

    __slots__ = ("group", "needed")

    def __init__(self, group: GraphGroup) -> None:
        self.group = group
        self.needed: set[int] = set()

    def settle_silently(self, entry: AnyRange, index: int) -> Sink | None:
        entry.states[index] = _NEEDED if index in self.needed else _ENDED
        return self.take_sink(entry, index)

    def take_sink(self, entry: AnyRange, index: int) -> Sink | None:
        if not entry.sinks:
            return None
        self.group.waiting -= 1
        return entry.take_sink(index)

    def unfinished(self, entry: AnyRange) -> list[int]:
        return [index for index, state in enumerate(entry.states) if state != _ENDED or index in entry.large]


def fill(entry: Range[GraphPart], sinks: Sequence[TaskSink], waited_for: Sequence[bool]) -> None:
    """Call this when all tasks are in the ``builder``. ``sinks`` has one sink per task or is empty; ``waited_for`` says
    which targets other tasks need."""
    assert entry.builder is not None
    entry.remaining = entry.builder.count
    entry.states = bytearray(entry.remaining)
    entry.sinks.extend(sinks)
    entry.part.group.waiting += len(sinks)
    entry.part.needed = {index for index, others_wait in enumerate(waited_for) if others_wait}
    for index, sink in enumerate(sinks):
        sink.task_range, sink.task_index = entry, index


def stays_needed(entry: Range[GraphPart], index: int) -> bool:
    """Return whether the task has ended, and other tasks may need its result."""
    return entry.states[index] == _NEEDED


def end_tasks(entry: Range[GraphPart]) -> Iterator[int]:
    """End all tasks. Yields the indices of those that had not ended before."""
    states, entry.states = entry.states, bytearray([_ENDED]) * len(entry.states)
    entry.remaining = len(entry.large)
    index = states.find(_WAITING)
    while index >= 0:
        yield index
        index = states.find(_WAITING, index + 1)
