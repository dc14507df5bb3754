"""A graph as it is drawn: places, edges, names and states of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from scaler_gui.models.graph_layout import GraphLayout, layered

NODE_WIDTH, NODE_HEIGHT = 3.4, 0.64
STATES = ("waiting", "on hosts", "done", "failed", "cancelled")
"""The states in the order of their numbers; the words are those of the table of graphs."""

_Array = numpy.ndarray[Any, Any]


class GraphPicture(NamedTuple):
    tasks: Sequence[int]
    names: Sequence[str]
    layout: GraphLayout
    sources: _Array
    targets: _Array

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom, with a margin."""
        return -0.6, -1.0, self.layout.width + NODE_WIDTH - 0.4, self.layout.height + 0.6

    def node_at(self, x: float, y: float) -> int | None:
        """The node whose box is there."""
        boxes = (self.layout.x <= x) & (x <= self.layout.x + NODE_WIDTH)
        boxes &= numpy.abs(self.layout.y - y) <= NODE_HEIGHT / 2
        found = numpy.flatnonzero(boxes)
        return int(found[0]) if found.size else None

    def seen(self, left: float, top: float, right: float, bottom: float) -> _Array:
        """Nodes whose boxes lie at least partly in there."""
        x, y = self.layout.x, self.layout.y
        return numpy.flatnonzero((x + NODE_WIDTH >= left) & (x <= right) & (y + 0.5 >= top) & (y - 0.5 <= bottom))


def picture(tasks: Sequence[int], names: Sequence[str], edges: Sequence[tuple[int, int]]) -> GraphPicture:
    """``edges`` are (task, task whose result it needs); edges to tasks that are not nodes of the graph are left out."""
    place = {task: number for number, task in enumerate(tasks)}
    known = [(place[needed], place[task]) for task, needed in edges if task in place and needed in place]
    pairs = numpy.array(known, numpy.int64).reshape(-1, 2)
    sources, targets = pairs[:, 0], pairs[:, 1]
    return GraphPicture(tasks, names, layered(len(tasks), sources, targets), sources, targets)


def sentence(states: _Array) -> str:
    """Return how many nodes are in which state."""
    counts = numpy.bincount(states, minlength=len(STATES))
    parts = [f"{count:,} {name}" for name, count in zip(STATES, counts, strict=True) if count]
    return ", ".join(parts)
