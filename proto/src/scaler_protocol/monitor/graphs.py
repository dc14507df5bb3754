"""The shape of graphs, and the states of their nodes."""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor.task_log import NOT_ENDED, TaskLog

GRAPH_LIMIT = 100
"""Graphs kept, the newest ones."""

NODE_LIMIT = 10_000
"""Nodes of a graph that is shown node by node."""


EDGE_LIMIT = 10 * NODE_LIMIT
"""Edges of such a graph."""

EDGES_LIMIT = 10 * EDGE_LIMIT
"""Edges of all graphs together: beyond it the oldest graphs go."""

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
class WatchedGraph:
    """A graph as its client submitted it. ``graph`` is the number of its last task."""

    session: int
    graph: int
    first: int = 0
    count: int = 0
    cut: bool = False
    """Too large: the edges are not known."""

    functions: list[tuple[int, int, int]] = field(default_factory=list)  # first task, count, function
    ends: array[int] = field(default_factory=lambda: array("Q"))  # of edges: node, the node whose result it needs, ...
    handed: list[tuple[int, int]] = field(default_factory=list)  # ranges of tasks: the first, and the one behind them

    @property
    def edge_count(self) -> int:
        return len(self.ends) // 2

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Node, the node whose result it needs."""
        return list(zip(self.ends[::2], self.ends[1::2], strict=True))

    def has(self, task: int) -> bool:
        """Other tasks of the client may have numbers between those of the nodes. False, too, when it is not known."""
        if not self.first <= task <= self.graph:
            return False
        if self.count == self.graph - self.first + 1:
            return True
        return any(first <= task < first + count for first, count, _ in self.functions)

    def drop_details(self) -> None:
        self.functions, self.ends, self.handed = [], array("Q"), []


class Graphs:
    """Found by (session index, number of the last task)."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[int, int], WatchedGraph] = {}
        self._edge_count = 0

    def add(
        self, session: int, number: int, first: int, count: int, function: int, edges: memoryview, cut: bool
    ) -> None:
        """Nodes ``first`` to ``first + count - 1`` of a graph, and (node, input) pairs, flat."""
        graph = self._graphs.get((session, number))
        if graph is None:
            graph = self._make(session, number, first)
        before = graph.edge_count
        graph.first = min(graph.first, first)
        graph.count += count
        graph.cut |= cut or _is_too_large(graph, len(edges) // 2)
        if graph.cut:
            graph.drop_details()
        else:
            graph.ends.frombytes(edges.cast("B"))
            if count:
                graph.functions.append((first, count, function))
        self._edge_count += graph.edge_count - before
        self._make_room()

    def hand(self, session: int, first: int, count: int) -> None:
        for graph in self._graphs.values():
            if graph.session == session and not graph.cut and first <= graph.graph and graph.first < first + count:
                _note_range(graph.handed, first, first + count)

    def get(self, session: int, number: int) -> WatchedGraph | None:
        return self._graphs.get((session, number))

    def all(self) -> list[WatchedGraph]:
        """Oldest first."""
        return list(self._graphs.values())

    def _make(self, session: int, number: int, first: int) -> WatchedGraph:
        if len(self._graphs) >= GRAPH_LIMIT:
            self._forget_oldest()
        return self._graphs.setdefault((session, number), WatchedGraph(session, number, first))

    def _make_room(self) -> None:
        while self._edge_count > EDGES_LIMIT:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._graphs))
        self._edge_count -= self._graphs.pop(oldest).edge_count


def _is_too_large(graph: WatchedGraph, more_edges: int) -> bool:
    """Return whether the graph is too large to be shown node by node."""
    return (
        graph.count > NODE_LIMIT
        or graph.edge_count + more_edges > EDGE_LIMIT
        or not 0 <= graph.graph - graph.first < SPAN_LIMIT
    )


def _note_range(ranges: list[tuple[int, int]], first: int, stop: int) -> None:
    """Ranges that follow one another become one."""
    if ranges and ranges[-1][1] == first:
        ranges[-1] = ranges[-1][0], stop
    elif len(ranges) < NODE_LIMIT:
        ranges.append((first, stop))


def nodes_of(graph: WatchedGraph, log: TaskLog) -> list[GraphNode]:
    """All nodes in the order of their numbers; none when the graph was cut."""
    span = graph.graph - graph.first + 1
    functions = _functions_of(graph, span)
    if not functions:
        return []
    endings = log.endings(graph.session, graph.first, span)
    handed = bytearray(span)
    for start, stop in graph.handed:
        inside = slice(max(0, start - graph.first), max(0, min(span, stop - graph.first)))
        handed[inside] = b"\x01" * len(handed[inside])
    return [
        GraphNode(graph.first + place, functions[place], _state(endings[place], bool(handed[place])))
        for place in sorted(functions)
    ]


def _functions_of(graph: WatchedGraph, span: int) -> dict[int, int]:
    """Return the functions of the nodes by the distance of a node from the first one."""
    return {
        task - graph.first: function
        for first, count, function in graph.functions
        for task in range(first, min(first + count, graph.first + span))
    }


def _state(ending: int, handed: bool) -> NodeState:
    if ending == NOT_ENDED:
        return NodeState.HANDED if handed else NodeState.WAITING
    if ending in (Status.SUCCESS, Status.SUCCESS_LARGE):
        return NodeState.SUCCEEDED
    return NodeState.CANCELED if ending == Status.CANCELLED else NodeState.FAILED
