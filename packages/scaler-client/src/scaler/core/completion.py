"""The steps after a task has ended: its objects are released, and its range ends with its last task."""

from __future__ import annotations

from scaler.core.graphs import GraphRange
from scaler.core.kept_objects import KeptObjects
from scaler.core.open_graph import NodeRange, OpenGraph
from scaler.core.runs import ClosedRanges, Range


class Completion:
    """Counts down ``ranges`` and releases the objects that their tasks used."""

    def __init__(self, ranges: ClosedRanges, objects: KeptObjects) -> None:
        self._ranges = ranges
        self._objects = objects

    def finish(self, entry: Range, index: int) -> None:
        """A task has ended, and its result is here or dropped."""
        if isinstance(entry, GraphRange):
            self._finish_target(entry, index)
            return
        if type(entry) is NodeRange:
            self._finish_node(entry, index)
            return
        entry.remaining -= 1
        if entry.references:
            self._objects.unrefer(entry, index)
        if not entry.remaining and entry.first:
            self._ranges.pop(entry.first, None)

    def _finish_node(self, entry: NodeRange, index: int) -> None:
        """A task that has succeeded stays until its graph is over."""
        if index not in entry.values:
            entry.remaining -= 1
            if entry.references:
                self._objects.unrefer(entry, index)
            if not entry.remaining and entry.first:
                self._ranges.pop(entry.first, None)
        if entry.group.is_over:
            self._drop_open_graph(entry.group)

    def _drop_open_graph(self, group: OpenGraph) -> None:
        ranges, group.ranges = group.ranges, []
        for entry in ranges:
            entry.values.clear()
            entry.remaining = 0
            for index in list(entry.references):
                self._objects.unrefer(entry, index)
            self._ranges.pop(entry.first, None)

    def _finish_target(self, entry: GraphRange, index: int) -> None:
        if not entry.stays_needed(index):
            entry.remaining -= 1
        if not entry.group.is_over:
            return
        ranges, entry.group.ranges = entry.group.ranges, []
        for other in ranges:
            for _ in other.end():
                pass
            self.drop_graph_range(other)
        if not entry.remaining:
            self._ranges.pop(entry.first, None)

    def drop_graph_range(self, entry: GraphRange) -> None:
        """All tasks of a range have ended with their graph."""
        for index in list(entry.references):
            self._objects.unrefer(entry, index)
        if not entry.remaining:
            self._ranges.pop(entry.first, None)
            entry.run = None
