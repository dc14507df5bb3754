"""The overview: numbers at the top, charts of throughput, processors, memory and queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy

from scaler_gui.models.overview import Overview, figures, first_time, running_text, series
from scaler_gui.models.tips import plain_tip
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_gui.views.figure_row import FigureRow
from scaler_gui.views.pane import Pane

CHARTS = ("throughput", "cpu", "memory", "queue")


class OverviewPane(Pane):
    name = "overview"
    title = "Overview"
    keys = (
        ("+ and -", "show a shorter or a longer time"),
        ("Left, Right", "move to older or newer times"),
        ("End or Esc", "follow the newest"),
        ("mouse", "drag to move, wheel to zoom"),
    )

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._state = Overview()
        self._theme = LIGHT
        self._charts: dict[str, Any] = {}
        self._figures = FigureRow(figures(monitor.model))
        self._grid = QGridLayout()
        self._grid.setContentsMargins(4, 0, 6, 4)
        self._grid.setSpacing(4)
        self._running = QLabel()
        self._running.setProperty("role", "muted")
        self._running.setTextFormat(Qt.TextFormat.PlainText)
        self._running.setContentsMargins(10, 0, 10, 4)
        self._running.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.box.addWidget(self._figures)
        self.box.addWidget(self._running)
        self.box.addLayout(self._grid, 1)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def refresh(self) -> None:
        self._make_charts()
        self._figures.show_figures(figures(self.monitor.model))
        self._show_running()
        if not self._state.is_due(self.monitor.model, self.monitor.now):
            return
        start, end = self.span
        for name, chart in self._charts.items():
            chart.show_lines(series(self.monitor.model, name, start), start, end)

    def _show_running(self) -> None:
        text, tone, whole = running_text(self.monitor.model)
        room = self._running.contentsRect().width()
        self._running.setText(self._running.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room))
        self._running.setToolTip(plain_tip(whole))
        if self._running.property("tone") != tone:
            self._running.setProperty("tone", tone)
            self._running.style().polish(self._running)

    def replaced(self) -> None:
        self._state.follow()
        self.refresh()

    def show_moment(self, moment: float) -> None:
        half = (self.span[1] - self.span[0]) / 2
        self._state.show(moment - half, moment + half, self.monitor.now)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        self._state.touch()
        super().resizeEvent(event)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._state.touch()
        for chart in self._charts.values():
            chart.set_theme(theme)

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        lines = [(name, line) for name in CHARTS for line in series(self.monitor.model, name, 0.0)]
        rows = (
            (name, line.name, moment, value)
            for name, line in lines
            for moment, value in zip(line.times, line.values, strict=True)
        )
        return ("chart", "line", "time", "value"), rows

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key, shown = event.key(), self.span[1] - self.span[0]
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Up):
            self._state.zoom(-1, shown)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Down):
            self._state.zoom(1, shown)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._state.pan(-0.25 if key == Qt.Key.Key_Left else 0.25, self.monitor.now)
        elif key in (Qt.Key.Key_End, Qt.Key.Key_Escape):
            self._state.follow()
        else:
            super().keyPressEvent(event)
            return
        self.refresh()

    @property
    def span(self) -> tuple[float, float]:
        """The span that the charts show, in unix seconds."""
        return self._state.span(self.monitor.now, first_time(self.monitor.model))

    def _make_charts(self) -> None:
        """Make the charts when the view is first shown: their library takes longer to load than everything else."""
        if self._charts:
            return
        from scaler_gui.views.chart import Chart

        kinds = (("Throughput", "rate"), ("CPU", "percent"), ("Memory", "bytes"), ("Queue", "count"))
        for place, (name, (title, kind)) in enumerate(zip(CHARTS, kinds, strict=True)):
            chart = self._charts[name] = Chart(title, kind)
            chart.set_theme(self._theme)
            chart.moved.connect(self._on_moved)
            self._grid.addWidget(chart, place // 2, place % 2)

    def _on_moved(self, start: float, end: float) -> None:
        self._state.show(start, end, self.monitor.now)
        self.refresh()
