"""The tasks of one graph, which end together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scaler.core.outcome import Sink
from scaler.core.runs import Range, Shape, TaskSink

if TYPE_CHECKING:
    from scaler_protocol.codec import TaskRunBuilder

_WAITING, _ENDED, _NEEDED = 0, 1, 2


class GraphGroup:
    """A graph. Its tasks stay unfinished until every target has ended and its large results have been fetched or
    dropped, because a scheduler that restarts may need them all. ``first`` and ``last`` are its first and last task id.
    ``waiting`` counts the targets that have not ended, ``large`` the results that are still at their agents."""

    __slots__ = ("first", "last", "ranges", "waiting", "large")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        self.ranges: list[GraphRange] = []
        self.waiting = 0
        self.large = 0

    @property
    def is_over(self) -> bool:
        return not (self.waiting or self.large)


class GraphRange(Range):
    """Tasks of one graph that share a shape. Either all of them are targets, with a sink each, or none is. A target
    that other tasks of the graph need stays unfinished as long as they may need it."""

    __slots__ = ("group", "states", "needed")

    def __init__(self, shape: Shape, builder: TaskRunBuilder, group: GraphGroup) -> None:
        super().__init__(shape, builder)
        self.group = group
        self.states = bytearray()
        self.needed: set[int] = set()

    @property
    def has_targets(self) -> bool:
        return bool(self.sinks)

    def fill(self, sinks: Sequence[TaskSink], waited_for: Sequence[bool]) -> None:
        """Call this when all tasks are in the ``builder``. ``sinks`` has one sink per task or is empty; ``waited_for``
        says which targets other tasks need."""
        assert self.builder is not None
        self.remaining = self.builder.count
        self.states = bytearray(self.remaining)
        self.sinks.extend(sinks)
        self.group.waiting += len(sinks)
        self.needed = {index for index, others_wait in enumerate(waited_for) if others_wait}
        for index, sink in enumerate(sinks):
            sink.task_range, sink.task_index = self, index

    def is_unsettled(self, index: int) -> bool:
        return self.states[index] == _WAITING

    def settle_silently(self, index: int) -> Sink | None:
        self.states[index] = _NEEDED if index in self.needed else _ENDED
        return self.take_sink(index)

    def take_sink(self, index: int) -> Sink | None:
        if not self.sinks:
            return None
        self.group.waiting -= 1
        sink = self.sinks[index]
        self.sinks[index] = None
        return sink

    def stays_needed(self, index: int) -> bool:
        return self.states[index] == _NEEDED

    def end(self) -> Iterator[int]:
        """End all tasks. Yields the indices of those that had not ended before."""
        states, self.states = self.states, bytearray([_ENDED]) * len(self.states)
        self.remaining = len(self.large)
        index = states.find(_WAITING)
        while index >= 0:
            yield index
            index = states.find(_WAITING, index + 1)

    def unfinished(self) -> list[int]:
        return [index for index, state in enumerate(self.states) if state != _ENDED or index in self.large]
