"""A pane with one table: filter, rows, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QColor, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSizePolicy

from scaler_gui.models.table import TableModel
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_gui.views.asking import ask
from scaler_gui.views.pane import Pane
from scaler_gui.views.table_view import TableWidget
from scaler_protocol.monitor.operation import Operation
from scaler_protocol.monitor.running import STUCK
from scaler_protocol.monitor.tables import Row, TableSpec

_TYPING_PAUSE_MILLISECONDS = 120
_WARNINGS = {"suspect", "paused", "draining", "away", "warning"}
_ALARMS = {"lost", "error", "critical"}
_EMPTY = {
    "workers": "No workers are connected. Start some: scaler_cluster ADDRESS",
    "processors": "No workers are connected. Start some: scaler_cluster ADDRESS",
    "agents": "No hosts are connected.",
    "hosts": "No hosts are connected.",
    "clients": "No clients are connected.",
    "functions": "No function has been called yet.",
    "running": "No task has run for a second or longer.",
    "actors": "No client has made an actor.",
    "progress": "All tasks have ended.",
    "failures": "No task has failed while this window watched.",
    "waits": "No task waits.",
    "tasks": "No task has ended while this window watched.",
    "graphs": "No graph is running.",
    "objects": "No host has an object store yet.",
    "largest": "No large object is kept.",
    "traffic": "No host has received anything from another one.",
    "alerts": "Nothing is wrong.",
    "logs": "Nothing has been logged yet.",
    "notices": "No agent or client has joined or left while this window watched.",
}


class TablePane(Pane):
    keys: Sequence[tuple[str, str]] = (
        ("/ or Ctrl+F", "filter rows; Esc drops the filter, Enter goes to the rows"),
        ("s", "sort by the column under the cursor; again turns the order"),
        ("Enter, double click", "all that is known of the row"),
        ("Ctrl+C", "copy the selected rows"),
        ("Menu", "columns, copies, and actions on workers, functions and clients"),
    )

    def __init__(self, monitor: Monitor, spec: TableSpec, title: str = "", shows_events: bool = False) -> None:
        self.name, self.title, self.shows_events = spec.name, title or spec.title, shows_events
        super().__init__(monitor)
        self._theme = LIGHT
        self.table = TableModel(spec, monitor, self._style, self)
        self.view = TableWidget(self.table)
        self.view.acted.connect(self.ask)
        self.view.empty_text = _EMPTY.get(spec.name, f"No {self.title.lower()} yet.")
        self.filter = QLineEdit()
        self._count = QLabel()
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_PAUSE_MILLISECONDS)
        self._typing.timeout.connect(self._apply_filter)
        self.box.addLayout(self._bar(spec))
        self.box.addWidget(self.view, 1)
        self.setFocusProxy(self.view)
        self.view.installEventFilter(self)
        self.filter.installEventFilter(self)

    def refresh(self) -> None:
        self.view.refresh()
        self._show_count()

    def replaced(self) -> None:
        self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.view.viewport().update()

    def focus(self) -> None:
        self.view.setFocus()
        if not self.view.selectionModel().hasSelection() and self.table.rowCount():
            self.view.selectRow(max(0, self.view.currentIndex().row()))

    def focus_filter(self) -> None:
        self.filter.setFocus()
        self.filter.selectAll()

    def ask(self, operation: Operation) -> None:
        """Ask for the number that an action on the cluster needs, if any, and whether to carry it out."""
        ask(operation, self.monitor, self)

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return [column.key for column in self.table.spec.columns], self.table.all_rows()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if watched is self.view and event.text() == "/":
                self.focus_filter()
                return True
            if watched is self.filter and event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_Return, Qt.Key.Key_Down):
                self._leave_filter(event.key() == Qt.Key.Key_Escape)
                return True
        return super().eventFilter(watched, event)

    def _bar(self, spec: TableSpec) -> QHBoxLayout:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 6)
        self.filter.setPlaceholderText(f"Filter {self.title.lower()}")
        self.filter.setAccessibleName(f"Filter {self.title.lower()}")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(280)
        self.filter.textChanged.connect(lambda _: self._typing.start())
        self._count.setProperty("role", "muted")
        self._count.setToolTip(spec.help)
        self._count.setWordWrap(True)
        self._count.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        bar.addWidget(self.filter, 2)
        bar.addSpacing(10)
        bar.addWidget(self._count, 3)
        return bar

    def _leave_filter(self, drop: bool) -> None:
        if drop:
            self.filter.clear()
        self._typing.stop()
        self._apply_filter()
        self.focus()

    def _apply_filter(self) -> None:
        self.table.set_filter(self.filter.text())
        nothing = _EMPTY.get(self.name, f"No {self.title.lower()} yet.")
        self.view.empty_text = f"No row contains “{self.filter.text()[:60]}”." if self.filter.text() else nothing
        self.view.scrollToTop()
        self._show_count()

    def _show_count(self) -> None:
        total = f"{self.table.total:,}"
        late = self.monitor.model.late_text if self.name == "tasks" else ""
        shown = f"{total} here; {late}" if late else f"{total} in all"
        self._count.setText(f"{total} match" if self.table.filter_text else shown)

    def _style(self, row: Row, key: str, role: int) -> Any:
        """Words that mean trouble have its colour."""
        if role != Qt.ItemDataRole.ForegroundRole or key not in ("state", "status", "failed", "level"):
            return None
        value = row[self.table.spec.index(key)]
        words = set(str(value).split("; "))  # the agents of one host may have several states
        if words & _ALARMS or (key == "failed" and value) or (key == "status" and "fail" in str(value).lower()):
            return QColor(self._theme.bad)
        if words & _WARNINGS or (key == "state" and str(value).startswith(STUCK)):
            return QColor(self._theme.warning)
        return QColor(self._theme.muted) if "cancel" in str(value).lower() else None
