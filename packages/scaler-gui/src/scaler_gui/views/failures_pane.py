"""Failures by cause, and below them all that is known of one."""

from __future__ import annotations

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QPlainTextEdit

from scaler_gui.monitor import Monitor
from scaler_gui.views.details_pane import DetailsPane
from scaler_protocol.monitor.tables import FAILURES


class FailuresPane(DetailsPane):
    def __init__(self, monitor: Monitor) -> None:
        group = FAILURES.index("group")
        super().__init__(monitor, FAILURES, lambda row: monitor.failure_details(row[group]), shows_events=True)
        self.details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.details.setPlaceholderText("Tracebacks and death certificates appear here.")
        self.details.setAccessibleName("Details of the failure")
        self.splitter.setSizes([300, 200])
