"""The output of tasks: the newest lines at the bottom, which are followed while the view is scrolled down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor, QFontDatabase, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPlainTextEdit

from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_gui.views.pane import Pane
from scaler_protocol.monitor.format import format_time
from scaler_protocol.monitor.output_log import STDERR, STREAM_NAMES, PrintedBy, PrintedLine

LINES_SHOWN = 2000
EXPORTED_LINES = 50_000
_TYPING_PAUSE_MILLISECONDS = 120


class OutputPane(Pane):
    name, title, shows_events = "output", "Output", True
    keys: Sequence[tuple[str, str]] = (
        ("/ or Ctrl+F", "show only lines with a text, a function or a worker; Esc drops it"),
        ("End", "follow the newest lines"),
    )

    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._theme = LIGHT
        self._shown: tuple[str, int, int] | None = None
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter output")
        self.filter.setAccessibleName("Filter output")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(280)
        self.count = QLabel()
        self.count.setProperty("role", "muted")
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName("Output of tasks")
        self.text.setTabChangesFocus(True)
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_PAUSE_MILLISECONDS)
        self._typing.timeout.connect(self.refresh)
        self.filter.textChanged.connect(lambda _: self._typing.start())
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 6, 8, 6)
        bar.addWidget(self.filter, 2)
        bar.addSpacing(10)
        bar.addWidget(self.count, 3)
        self.box.addLayout(bar)
        self.box.addWidget(self.text, 1)
        self.setFocusProxy(self.text)
        self._show_placeholder()

    def refresh(self) -> None:
        output = self.monitor.model.activity.output
        mark = self.filter.text(), output.total, id(output)
        if mark == self._shown:
            return
        self._shown = mark
        lines, total = output.newest(PrintedBy(text=self.filter.text()), 0, LINES_SHOWN)
        self.count.setText(f"{total:,} {'match' if self.filter.text() else 'lines'}")
        self._show_placeholder()
        self._show(lines)

    def replaced(self) -> None:
        self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self._theme, self._shown = theme, None
        self.refresh()

    def focus_filter(self) -> None:
        self.filter.setFocus()
        self.filter.selectAll()

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        lines, _ = self.monitor.model.activity.output.newest(PrintedBy(text=self.filter.text()), 0, EXPORTED_LINES)
        header = ["time", "client", "task", "attempt", "function", "worker", "stream", "text"]
        return header, [_row(line) for line in lines]

    def _show_placeholder(self) -> None:
        filtered = "No line contains this text." if self.filter.text() else "No task has printed anything yet."
        self.text.setPlaceholderText(filtered)

    def _show(self, lines: Sequence[PrintedLine]) -> None:
        bar = self.text.verticalScrollBar()
        follows, place = bar.value() >= bar.maximum() - 1, bar.value()
        self.text.clear()
        cursor = QTextCursor(self.text.document())
        cursor.beginEditBlock()
        for number, line in enumerate(lines):
            self._insert(cursor, line, number > 0)
        cursor.endEditBlock()
        bar.setValue(bar.maximum() if follows else place)

    def _insert(self, cursor: QTextCursor, line: PrintedLine, is_further: bool) -> None:
        muted, plain = QTextCharFormat(), QTextCharFormat()
        muted.setForeground(QColor(self._theme.muted))
        if line.stream == STDERR:
            plain.setForeground(QColor(self._theme.bad))
        newline = "\n" if is_further else ""
        cursor.insertText(f"{newline}{format_time(line.time)[:8]} {line.prefix} ", muted)
        cursor.insertText(line.text, plain)


def _row(line: PrintedLine) -> Sequence[Any]:
    client, stream = line.session.hex()[:8], STREAM_NAMES.get(line.stream, "")
    return (
        format_time(line.time), client, line.task, line.attempt, line.function, line.worker, stream, line.text,
    )  # fmt: skip
