"""Shows a stack as text, or a profile as a flame graph and a text."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QScrollArea, QTabWidget, QVBoxLayout, QWidget

from scaler_gui.views.flame_view import FlameView
from scaler_protocol.monitor.operation import OperationOutcome
from scaler_protocol.profile_report import nested

_SIZE = (1000, 620)


class ReportDialog(QDialog):
    def __init__(self, outcome: OperationOutcome, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(outcome.text)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*_SIZE)
        box = QVBoxLayout(self)
        self.text = QPlainTextEdit(outcome.report)
        self.text.setReadOnly(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.flame: FlameView | None = None
        if outcome.profile is not None and outcome.profile.total_us:
            box.addWidget(self._tabs(FlameView(nested(outcome.profile))))
        else:
            box.addWidget(self.text)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        box.addWidget(buttons)

    def _tabs(self, flame: FlameView) -> QTabWidget:
        self.flame = flame
        scrolled = QScrollArea()
        scrolled.setWidgetResizable(True)
        scrolled.setWidget(flame)
        tabs = QTabWidget()
        tabs.addTab(scrolled, "Flame graph")
        tabs.addTab(self.text, "Table")
        return tabs
