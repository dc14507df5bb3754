"""Ranges of tasks that this client has submitted and that have not all ended.

A range is one run on the wire: consecutive ids of one shape. It keeps its run until its last task has ended, so that
what is unfinished can be stated again to a scheduler that restarted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from scaler.core.outcome import Outcome, Sink

if TYPE_CHECKING:
    from scaler.core.functions import Shape
    from scaler.core.uploads import Upload
    from scaler_protocol.codec import ResultRun, TaskRun, TaskRunBuilder

_GAPS_LIMIT = 64


class Range:
    """``first`` is 0 until the range is closed and has ids. ``large`` has the tasks that ended well, with a result that
    is still at its agent: they count as unfinished until it was fetched or given up. ``left``: on its way. ``sinks``:
    who is told of each task, where that is not one for all; None: it has ended."""

    __slots__ = ("shape", "first", "count", "remaining", "builder", "run", "references", "large", "left", "sinks")

    def __init__(self, shape: Shape, builder: TaskRunBuilder) -> None:
        self.shape = shape
        self.first = 0
        self.count = 0
        self.remaining = 0
        self.builder: TaskRunBuilder | None = builder
        self.run: TaskRun | None = None
        self.references: dict[int, list[Upload]] = {}
        self.large: dict[int, Outcome] = {}
        self.left = False
        self.sinks: list[Sink | None] = []

    def is_unsettled(self, index: int) -> bool:
        raise NotImplementedError

    def settle_silently(self, index: int) -> Sink | None:
        """Mark a task as ended. Returns who is to be told, if anybody single is."""
        raise NotImplementedError

    def unfinished(self) -> list[int]:
        """Indices of the tasks that a restarted scheduler must be told of."""
        return [index for index in range(self.count) if self.is_unsettled(index) or index in self.large]

    def unfinished_segments(self) -> Iterator[tuple[int, int]]:
        start = stop = -1
        for index in self.unfinished():
            if index != stop:
                if start >= 0:
                    yield start, stop
                start = index
            stop = index + 1
        if start >= 0:
            yield start, stop


class FutureRange(Range):
    """Submitted one by one: one sink per task."""

    __slots__ = ()

    def mend(self) -> None:
        """Adding a task may have been interrupted: every task has its place, or else all later ones would have the
        results of their neighbours."""
        if self.builder is not None:
            self.sinks.extend([None] * (self.builder.count - len(self.sinks)))
            self.remaining = sum(sink is not None for sink in self.sinks)

    def is_unsettled(self, index: int) -> bool:
        return self.sinks[index] is not None

    def settle_silently(self, index: int) -> Sink | None:
        sink = self.sinks[index]
        self.sinks[index] = None
        return sink


class MapSink(Protocol):
    """Takes the results of a whole map."""

    def take_run(self, owner: MapRange, run: ResultRun) -> bool:
        """Results that are all of ``owner``. False: somebody else waits, so ``finish`` must be called."""

    def take_outcome(self, owner: MapRange, index: int, outcome: Outcome) -> bool: ...

    def settle(self, outcome: Outcome) -> bool: ...

    def finish(self, outcome: Outcome) -> None: ...


class MapRange(Range):
    """A part of a map: one byte per task (0: not ended) and one sink for all of them. ``offset`` is the place of the
    first task in the map."""

    __slots__ = ("states", "sink", "offset")

    def __init__(self, shape: Shape, builder: TaskRunBuilder, sink: MapSink, offset: int) -> None:
        super().__init__(shape, builder)
        self.sink = sink
        self.offset = offset
        self.states = bytearray()

    def is_unsettled(self, index: int) -> bool:
        return not self.states[index]

    def settle_silently(self, index: int) -> Sink | None:
        self.states[index] = 1
        return None


class ClosedRanges(dict[int, Range]):
    """The ranges that have ids, by the first of them. Ids only grow, so who has a task is found by bisection."""

    def __init__(self) -> None:
        super().__init__()
        self.next_task = 1
        self._firsts: list[int] = []

    def close(self, entry: Range) -> None:
        """Give the tasks of ``entry`` the next ids. All or nothing, and it may be done again, when it is interrupted:
        there is no call between what belongs together."""
        builder = entry.builder
        if builder is not None:
            builder.first_task = self.next_task
            run = builder.build()
            entry.run = run
            entry.first = self.next_task
            entry.count = builder.count
            entry.builder = None
        self.next_task = entry.first + entry.count
        self[entry.first] = entry
        if not self._firsts or self._firsts[-1] != entry.first:
            self._firsts.append(entry.first)
        if len(self._firsts) > 2 * len(self) + _GAPS_LIMIT:
            self._firsts = list(self)

    def find(self, task: int) -> Range | None:
        position = bisect_right(self._firsts, task) - 1
        entry = self.get(self._firsts[position]) if position >= 0 else None
        return entry if entry is not None and task < entry.first + entry.count else None

    def clear(self) -> None:
        super().clear()
        self._firsts.clear()
