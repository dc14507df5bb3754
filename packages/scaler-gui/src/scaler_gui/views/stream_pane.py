"""The task stream as a pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scaler_gui.monitor import Monitor
from scaler_gui.theme import Theme
from scaler_gui.views.pane import Pane
from scaler_gui.views.stream_canvas import StreamCanvas
from scaler_protocol.monitor.rows import task_row
from scaler_protocol.monitor.tables import TASKS


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
        self.box.addWidget(self.canvas)
        self.setFocusProxy(self.canvas)

    def refresh(self) -> None:
        self.canvas.refresh()

    def replaced(self) -> None:
        self.canvas.window_shown.follow()
        self.canvas.refresh()

    def set_theme(self, theme: Theme) -> None:
        self.canvas.set_theme(theme)

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """The tasks that bars in sight stand for: the longest ones where several share a pixel."""
        model = self.monitor.model
        serials = list(self.canvas.bars.serials) if self.canvas.bars is not None else []
        rows = (task_row(model, serial) for serial in serials if model.log.row(serial) is not None)
        return [column.key for column in TASKS.columns], rows
