"""Ranges of tasks that this client has submitted and that have not all ended.

A range is one run on the wire: consecutive ids of one shape. It keeps its run until its last task has ended, so that
what is unfinished can be stated again to a scheduler that restarted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from scaler.core.outcome import Outcome, Sink

if TYPE_CHECKING:
    from scaler.core.functions import Shape
    from scaler.core.uploads import Upload
    from scaler_protocol.codec import ResultRun, TaskRun, TaskRunBuilder

_COMPACT_FROM = 64


class Range:
    """``first`` is 0 until the range is closed and has ids. ``large`` has the tasks that ended well, with a result that
    is still at its agent: they count as unfinished until it was fetched or given up. ``left``: on its way."""

    __slots__ = ("shape", "first", "count", "remaining", "builder", "run", "references", "large", "left")

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

    def close(self, first: int) -> TaskRun:
        """Give the tasks their ids. All or nothing, when it is interrupted."""
        builder = self.builder
        assert builder is not None
        builder.first_task = first
        run = self.run = builder.build()
        self.first = first
        self.count = builder.count
        self.builder = None
        return run

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
    """Submitted one by one: one sink per task; None: ended."""

    __slots__ = ("sinks",)

    def __init__(self, shape: Shape, builder: TaskRunBuilder) -> None:
        super().__init__(shape, builder)
        self.sinks: list[Sink | None] = []

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


class RangeIndex:
    """The closed ranges by task id. Ids only grow, so a range is found by bisection; what is removed leaves a gap that
    is closed when half of all are gaps."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ranges: list[Range | None] = []
        self._gaps = 0

    def __len__(self) -> int:
        return len(self._ranges) - self._gaps

    def __iter__(self) -> Iterator[Range]:
        return iter([entry for entry in self._ranges if entry is not None])

    def add(self, entry: Range) -> None:
        """Also when adding it was interrupted before."""
        del self._ranges[len(self._firsts) :]
        if not self._firsts or self._firsts[-1] != entry.first:
            self._ranges.append(entry)
            self._firsts.append(entry.first)

    def find(self, task: int) -> Range | None:
        position = bisect_right(self._firsts, task) - 1
        if position < 0:
            return None
        entry = self._ranges[position]
        return entry if entry is not None and task < entry.first + entry.count else None

    def remove(self, entry: Range) -> None:
        position = bisect_left(self._firsts, entry.first)
        if position >= len(self._ranges) or self._ranges[position] is not entry:
            return
        self._ranges[position] = None
        self._gaps += 1
        if self._gaps > _COMPACT_FROM and self._gaps * 2 > len(self._ranges):
            self._compact()

    def clear(self) -> None:
        self._firsts.clear()
        self._ranges.clear()
        self._gaps = 0

    def _compact(self) -> None:
        self._ranges = [entry for entry in self._ranges if entry is not None]
        self._firsts = [entry.first for entry in self._ranges if entry is not None]
        self._gaps = 0
