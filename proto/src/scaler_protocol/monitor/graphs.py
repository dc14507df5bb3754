"""The shape of graphs, and how far their nodes are."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor.task_log import NOT_ENDED, TaskLog

GRAPH_LIMIT = 100
"""Graphs kept, the newest ones."""

NODE_LIMIT = 10_000
"""Nodes of a graph that is shown node by node."""


SPAN_LIMIT = 16 * NODE_LIMIT
"""Numbers between a graph's first and last task: others may have come between them."""


class NodeState(enum.IntEnum):
    WAITING = 0
    HANDED = 1  # to an agent, where it waits or runs
    SUCCEEDED = 2
    FAILED = 3
    CANCELED = 4


class GraphNode(NamedTuple):
    task: int
    function: int
    state: NodeState


@dataclass(slots=True)
class Graph:
    """A graph as its client submitted it. ``graph`` is the number of its last task."""

    session: int
    graph: int
    first: int = 0
    count: int = 0
    cut: bool = False
    """Too large: the edges are not known."""

    functions: list[tuple[int, int, int]] = field(default_factory=list)  # first task, count, function
    edges: list[tuple[int, int]] = field(default_factory=list)  # node, the node whose result it needs
    handed: set[int] = field(default_factory=set)


class Graphs:
    """Found by (session index, number of the last task)."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[int, int], Graph] = {}

    def add(
        self, session: int, number: int, first: int, count: int, function: int, edges: Sequence[int], cut: bool
    ) -> None:
        """Nodes ``first`` to ``first + count - 1`` of a graph, and (node, input) pairs, flat."""
        graph = self._graphs.get((session, number))
        if graph is None:
            graph = self._make(session, number, first)
        graph.first = min(graph.first, first)
        graph.count += count
        graph.cut |= cut or graph.count > NODE_LIMIT or number - graph.first >= SPAN_LIMIT
        if graph.cut:
            graph.functions, graph.edges, graph.handed = [], [], set()
            return
        graph.functions.append((first, count, function))
        graph.edges += zip(edges[::2], edges[1::2], strict=True)

    def hand(self, session: int, first: int, count: int) -> None:
        for graph in self._graphs.values():
            if graph.session == session and not graph.cut and first <= graph.graph and graph.first < first + count:
                graph.handed.update(range(max(first, graph.first), min(first + count, graph.graph + 1)))

    def get(self, session: int, number: int) -> Graph | None:
        return self._graphs.get((session, number))

    def all(self) -> list[Graph]:
        """Oldest first."""
        return list(self._graphs.values())

    def _make(self, session: int, number: int, first: int) -> Graph:
        if len(self._graphs) >= GRAPH_LIMIT:
            del self._graphs[next(iter(self._graphs))]
        return self._graphs.setdefault((session, number), Graph(session, number, first))


def nodes_of(graph: Graph, log: TaskLog) -> list[GraphNode]:
    """All nodes in the order of their numbers; none when the graph was cut."""
    runs = sorted(graph.functions)
    if not runs:
        return []
    endings = log.endings(graph.session, graph.first, graph.graph - graph.first + 1)
    starts = [first for first, _, _ in runs]
    found = []
    for task in range(graph.first, graph.graph + 1):
        first, count, function = runs[bisect_right(starts, task) - 1]
        if task < first + count:
            found.append(GraphNode(task, function, _state(endings[task - graph.first], task in graph.handed)))
    return found


def _state(ending: int, handed: bool) -> NodeState:
    if ending == NOT_ENDED:
        return NodeState.HANDED if handed else NodeState.WAITING
    if ending in (Status.SUCCESS, Status.SUCCESS_LARGE):
        return NodeState.SUCCEEDED
    return NodeState.CANCELED if ending == Status.CANCELLED else NodeState.FAILED
