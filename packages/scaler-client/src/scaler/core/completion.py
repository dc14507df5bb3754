"""The steps after a task has ended: its objects are released, and its range ends with its last task."""

from __future__ import annotations

from scaler.core.graphs import GraphPart, end_tasks, stays_needed
from scaler.core.kept_objects import KeptObjects
from scaler.core.open_graph import NodePart, OpenGraph
from scaler.core.runs import AnyRange, ClosedRanges, Range


class Completion:
    """Counts down ``ranges`` and releases the objects that their tasks used."""

    def __init__(self, ranges: ClosedRanges, objects: KeptObjects) -> None:
        self._ranges = ranges
        self._objects = objects

    def finish(self, entry: AnyRange, index: int) -> None:
        """A task has ended, and its result is here or dropped."""
        if isinstance(entry.part, GraphPart):
            self._finish_target(entry, index)
            return
        if isinstance(entry.part, NodePart):
            self._finish_node(entry, index)
            return
        entry.remaining -= 1
        if entry.references:
            self._objects.unrefer(entry, index)
        if not entry.remaining and entry.first:
            self._ranges.pop(entry.first, None)

    def _finish_node(self, entry: Range[NodePart], index: int) -> None:
        """A task that has succeeded stays until its graph is over."""
        if index not in entry.part.values:
            entry.remaining -= 1
            if entry.references:
                self._objects.unrefer(entry, index)
            if not entry.remaining and entry.first:
                self._ranges.pop(entry.first, None)
        self.finish_graph(entry.part.group)

    def finish_graph(self, group: OpenGraph) -> None:
        """Drop the ranges of an open graph if it is over."""
        if not group.is_over:
            return
        ranges, group.ranges = group.ranges, []
        for entry in ranges:
            entry.part.values.clear()
            entry.remaining = 0
            for index in list(entry.references):
                self._objects.unrefer(entry, index)
            self._ranges.pop(entry.first, None)

    def _finish_target(self, entry: Range[GraphPart], index: int) -> None:
        group = entry.part.group
        if not stays_needed(entry, index):
            entry.remaining -= 1
        if not group.is_over:
            return
        ranges, group.ranges = group.ranges, []
        for other in ranges:
            for _ in end_tasks(other):
                pass
            self.drop_graph_range(other)
        if not entry.remaining:
            self._ranges.pop(entry.first, None)

    def drop_graph_range(self, entry: Range[GraphPart]) -> None:
        """All tasks of a range have ended with their graph."""
        for index in list(entry.references):
            self._objects.unrefer(entry, index)
        if not entry.remaining:
            self._ranges.pop(entry.first, None)
            entry.run = None
