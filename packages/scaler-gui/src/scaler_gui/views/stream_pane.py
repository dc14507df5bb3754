"""The task stream as a pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton

from scaler_gui.monitor import Monitor
from scaler_gui.theme import Theme
from scaler_gui.views.pane import Pane
from scaler_gui.views.stream_canvas import StreamCanvas
from scaler_protocol.monitor.rows import task_row
from scaler_protocol.monitor.tables import TASKS

_SPAN_PIXELS, _BUTTON_HEIGHT = 74, 22
"""Room for the text at the right of the button, and the height of the line in which both stand."""


class StreamPane(Pane):
    name = "stream"
    title = "Task stream"
    shows_events = True
    keys = (
        ("arrows", "go from task to task and show the details of each"),
        ("Enter, double click", "the task in the task log"),
        ("Shift+Left, Shift+Right, drag", "move to older or newer times"),
        ("+ and -, wheel, Shift+drag", "zoom; zoom to what is marked"),
        ("Shift+Up, Shift+Down, PgUp, PgDn, Shift+wheel", "scroll workers"),
        ("[ and ], Ctrl+wheel", "lower or taller rows"),
        ("Home, End", "the oldest tasks; follow the newest"),
        ("Esc", "choose no task, follow the newest"),
        ("f", "all tasks at once"),
    )

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor)
        self.canvas = StreamCanvas(monitor)
        self.follow = QPushButton("Follow", self.canvas)
        self.follow.setToolTip("Follow what happens now (End)")
        self.follow.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.follow.clicked.connect(self._follow)
        self.follow.hide()
        self.canvas.moved.connect(self._show_follow)
        self.box.addWidget(self.canvas)
        self.setFocusProxy(self.canvas)

    def refresh(self) -> None:
        self.canvas.refresh()
        self._show_follow()

    def replaced(self) -> None:
        self.canvas.window_shown.follow()
        self.canvas.refresh()

    def show_moment(self, moment: float) -> None:
        shown = self.canvas.window_shown
        shown.show(moment - shown.span_seconds / 2, moment + shown.span_seconds / 2)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._show_follow()

    def _follow(self) -> None:
        self.canvas.window_shown.follow()
        self.canvas.refresh()
        self._show_follow()

    def _show_follow(self) -> None:
        """In the line of the legend while the stream stands still."""
        size = self.follow.sizeHint()
        self.follow.setGeometry(self.width() - size.width() - _SPAN_PIXELS, 2, size.width(), _BUTTON_HEIGHT)
        self.follow.setVisible(not self.canvas.window_shown.follows)

    def set_theme(self, theme: Theme) -> None:
        self.canvas.set_theme(theme)

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """The tasks that bars in sight stand for: the longest ones where several share a pixel."""
        model = self.monitor.model
        serials = list(self.canvas.bars.serials) if self.canvas.bars is not None else []
        rows = (task_row(model, serial) for serial in serials if model.log.row(serial) is not None)
        return [column.key for column in TASKS.columns], rows
