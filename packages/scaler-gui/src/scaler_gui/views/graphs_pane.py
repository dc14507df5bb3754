"""Graphs: how far each one is, and a drawing of the selected one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter

from scaler_gui.models.graphs import GraphWatch
from scaler_gui.monitor import Monitor
from scaler_gui.theme import Theme
from scaler_gui.views.graph_canvas import GraphCanvas
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor.tables import GRAPHS


class GraphsPane(TablePane):
    """The graphs. Without a selection the newest graph is drawn, also when it is over."""

    keys = (
        *TablePane.keys,
        ("Tab", "from the table to the drawing"),
        ("arrows, drag", "move the drawing"),
        ("+ and -, wheel", "zoom"),
        ("Home, f, double click", "all of it"),
    )

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor, GRAPHS, shows_events=True)
        self._watch = GraphWatch()
        self.canvas = GraphCanvas()
        self.canvas.show_picture(None, self._watch.note)
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self.view)
        splitter.addWidget(self.canvas)
        splitter.setSizes([110, 400])
        splitter.setStretchFactor(1, 1)
        self.box.addWidget(splitter, 1)
        self.view.row_selected.connect(self._on_selected)

    def refresh(self) -> None:
        super().refresh()
        self._draw()

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.canvas.set_theme(theme)

    @property
    def states(self) -> Sequence[int]:
        """The states of the nodes that are drawn, as ``NodeState`` numbers them."""
        return self._watch.states.tolist()

    def _on_selected(self, row: tuple[Any, ...] | None) -> None:
        """A graph that is over leaves the table, and with it its choice."""
        if row is None:
            self._watch.choose_newest()
        else:
            self._watch.choose(row[GRAPHS.index("session")], row[GRAPHS.index("graph")])
        self._draw()

    def _draw(self) -> None:
        if self._watch.look(self.monitor.model):
            self.canvas.show_picture(self._watch.picture, self._watch.note)
        if self._watch.picture is not None:
            self.canvas.show_states(self._watch.states)
