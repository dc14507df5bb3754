"""The time before tasks start, for traces: waiting for dependencies, then waiting for a worker."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from scaler_protocol.monitor.graphs import WatchedGraph
from scaler_protocol.monitor.model import Model

if TYPE_CHECKING:
    from scaler_protocol.monitor.task_log import LogRow

LANES_LIMIT = 32
"""Tasks of one client that are shown waiting at a time: very many may."""


class TaskWait(NamedTuple):
    """The moments in microseconds at which a task arrived, had what it needs, and started."""

    arrived_us: int
    ready_us: int
    started_us: int


class GraphInputs:
    """The nodes that each node of a graph needs, and when they ended, as far as that has been seen."""

    def __init__(self, graph: WatchedGraph) -> None:
        self._graph = graph
        self._ends: dict[int, int] = {}
        self._inputs: dict[int, list[int]] = {}
        self._known = 0

    def has(self, task: int) -> bool:
        """Return whether the task is between the first and the last node. False if the edges are not known."""
        return not self._graph.cut and self._graph.first <= task <= self._graph.graph

    def note_end(self, task: int, ended_us: int) -> None:
        self._ends[task] = ended_us

    def ready_us(self, task: int) -> int:
        """Return when the last of the nodes that this one needs ended; 0 if it needs none, or that is not known."""
        edges = self._graph.ends
        while self._known < len(edges):
            self._inputs.setdefault(edges[self._known], []).append(edges[self._known + 1])
            self._known += 2
        return max((self._ends.get(each, 0) for each in self._inputs.get(task, ())), default=0)


class TaskWaits:
    """Executions in the order in which they ended."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[int, int], GraphInputs] = {}
        self._by_session: dict[int, list[GraphInputs]] = {}
        self._lanes: dict[int, list[tuple[int, int]]] = {}

    def follow(self, model: Model) -> None:
        """Learn which graphs there are."""
        watched = {(graph.session, graph.graph): graph for graph in model.activity.graphs.all()}
        self._graphs = {key: self._graphs.get(key) or GraphInputs(graph) for key, graph in watched.items()}
        self._by_session = {}
        for (session, _), graph in self._graphs.items():
            self._by_session.setdefault(session, []).append(graph)

    def note_end(self, row: LogRow) -> None:
        task, ended_us, session = row[0], row[1], row[3]
        for graph in self._graphs_of(session, task):
            graph.note_end(task, ended_us)

    def of(self, model: Model, row: LogRow) -> TaskWait | None:
        """None: the arrival of the task is not known, it did not wait, or this is a later attempt."""
        task, ended_us, duration_us, session, _, _, attempt, _ = row
        arrived_us = model.activity.times.arrived_us(session, task) if attempt == 1 else None
        started_us = ended_us - duration_us
        if arrived_us is None or arrived_us >= started_us:
            return None
        ready_us = max((graph.ready_us(task) for graph in self._graphs_of(session, task)), default=0)
        return TaskWait(arrived_us, min(max(arrived_us, ready_us), started_us), started_us)

    def _graphs_of(self, session: int, task: int) -> list[GraphInputs]:
        return [graph for graph in self._by_session.get(session, ()) if graph.has(task)]

    def lane(self, session: int, wait: TaskWait) -> int | None:
        """A row of the client in which nothing else waits at this time; None: there are too many."""
        lanes = self._lanes.setdefault(session, [])
        if lanes and lanes[0][0] <= wait.arrived_us:
            _, number = heapq.heapreplace(lanes, (wait.started_us, lanes[0][1]))
            return number
        if len(lanes) >= LANES_LIMIT:
            return None
        heapq.heappush(lanes, (wait.started_us, len(lanes)))
        return len(lanes) - 1
