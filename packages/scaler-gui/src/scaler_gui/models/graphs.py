"""The graph that is drawn, and the states of its nodes."""

from __future__ import annotations

from typing import Any

import numpy

from scaler_gui.models.graph_picture import GraphPicture, picture
from scaler_protocol.monitor.graphs import WatchedGraph, nodes_of
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.rows import short_id

_NO_GRAPH = "No graph has been submitted while this window watched."
_Array = numpy.ndarray[Any, Any]


class GraphWatch:
    """Follows the newest graph, or one that was chosen."""

    def __init__(self) -> None:
        self.picture: GraphPicture | None = None
        self.note = _NO_GRAPH
        self.states: _Array = numpy.zeros(0, numpy.int64)
        self._chosen: tuple[str, int] | None = None
        self._drawn: tuple[object, ...] | None = None

    def choose(self, session: str, number: int) -> None:
        """Choose a graph by the entries of the table of graphs."""
        self._chosen = (session, number)

    def choose_newest(self) -> None:
        self._chosen = None

    def look(self, model: Model) -> bool:
        """Read the model; whether there is another picture than before."""
        graph = self._find(model)
        shape = None if graph is None else (id(model), graph.session, graph.graph, graph.count, graph.edge_count)
        changed = shape != self._drawn
        if changed:
            self._drawn = shape
            self._draw(model, graph)
        if graph is not None and self.picture is not None:
            self.states = numpy.array([int(node.state) for node in nodes_of(graph, model.log)], numpy.int64)
        return changed

    def _find(self, model: Model) -> WatchedGraph | None:
        known = model.activity.graphs.all()
        for graph in known:
            if self._chosen == (short_id(model.activity.session_of(graph.session)), graph.graph):
                return graph
        return known[-1] if known else None

    def _draw(self, model: Model, graph: WatchedGraph | None) -> None:
        self.picture, self.note = None, _NO_GRAPH
        if graph is None:
            return
        if graph.cut:
            self.note = f"This graph has {graph.count:,} nodes: too many to draw. The table shows its progress."
            return
        nodes = nodes_of(graph, model.log)
        names = [model.activity.function_name(node.function) or f"task {node.task}" for node in nodes]
        self.picture = picture([node.task for node in nodes], names, graph.edges)
