"""Failures by cause, and below them all that is known of the selected one."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QPlainTextEdit, QSplitter

from scaler_gui.monitor import Monitor
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor.tables import FAILURES


class FailuresPane(TablePane):
    def __init__(self, monitor: Monitor) -> None:
        super().__init__(monitor, FAILURES, shows_events=True)
        self.details = QPlainTextEdit()
        self.details.setReadOnly(True)
        self.details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.details.setPlaceholderText("Select a failure to see its traceback or death certificates.")
        self.details.setAccessibleName("Details of the failure")
        self.details.setTabChangesFocus(True)
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self.view)
        splitter.addWidget(self.details)
        splitter.setSizes([300, 200])
        self.box.addWidget(splitter, 1)
        self.view.row_selected.connect(self._show_details)

    def _show_details(self, row: tuple[Any, ...] | None) -> None:
        text = "" if row is None else self.monitor.failure_details(row[FAILURES.index("group")])
        if text != self.details.toPlainText():
            self.details.setPlainText(text)
