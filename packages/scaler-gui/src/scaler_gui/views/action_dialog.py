"""Asks whether to carry out an action on the cluster, does it, and says how it ended."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from scaler_gui.monitor import Monitor
from scaler_gui.operations import WindowOperations
from scaler_gui.views.report_dialog import ReportDialog
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.operation import (
    ACTION_LABELS,
    Operation,
    OperationOutcome,
    needs_confirmation,
    question_of,
)

Button = QMessageBox.StandardButton
_TARGET_LIMIT = 60


class ActionDialog(QMessageBox):
    """``accept_button`` begins the action; the answer of the scheduler replaces the question."""

    def __init__(self, operation: Operation, monitor: Monitor, parent: QWidget) -> None:
        super().__init__(parent)
        self._operation = operation
        self._monitor = monitor
        self._operations = WindowOperations(self)
        self._operations.ended.connect(self._show_outcome)
        self.setWindowTitle(ACTION_LABELS[operation.action])
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setIcon(QMessageBox.Icon.Question)
        self.setText(_words(operation))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        back = self.addButton("Back", QMessageBox.ButtonRole.RejectRole)  # "Cancel" would be an action, too
        self.accept_button = QPushButton(ACTION_LABELS[operation.action])
        self.addButton(self.accept_button, QMessageBox.ButtonRole.ActionRole)
        self.accept_button.clicked.disconnect()  # it would close the dialog
        self.accept_button.clicked.connect(self.begin)
        self.setDefaultButton(back)
        self.setEscapeButton(back)

    def begin(self) -> None:
        """Carry out the action."""
        self.accept_button.setEnabled(False)
        self.setInformativeText("One moment ...")
        monitor = self._monitor
        self._operations.begin(self._operation, monitor.place, monitor.model.snapshot)

    def _show_outcome(self, outcome: OperationOutcome) -> None:
        for button in self.buttons():
            self.removeButton(button)
        self.setStandardButtons(Button.Close)
        self.setIcon(QMessageBox.Icon.Information if outcome.is_done else QMessageBox.Icon.Warning)
        self.setText(outcome.text)
        self.setInformativeText("")
        if outcome.report:
            self.done(0)
            ReportDialog(outcome, self.parentWidget()).open()


def _words(operation: Operation) -> str:
    if needs_confirmation(operation):
        return question_of(operation)
    return f"{ACTION_LABELS[operation.action]}: {short_text(operation.target, _TARGET_LIMIT)}"
