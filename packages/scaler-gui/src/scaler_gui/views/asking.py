"""Asks for what an action on the cluster needs, and whether to carry it out."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QInputDialog, QWidget

from scaler_gui.monitor import Monitor
from scaler_gui.views.action_dialog import ActionDialog
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.operation import ACTION_LABELS, VALUE_LABELS, Operation, needs_confirmation

_TITLE_LIMIT = 80

WEIGHTS = (ControlAction.SET_CLIENT_WEIGHT, ControlAction.SET_GROUP_WEIGHT)
"""The actions whose number may be a fraction."""


def ask(operation: Operation, monitor: Monitor, parent: QWidget) -> None:
    """Ask for the number that an action on the cluster needs, if any, and whether to carry it out."""
    if operation.action not in VALUE_LABELS:
        confirm(operation, monitor, parent)
        return
    dialog = QInputDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setInputMode(QInputDialog.InputMode.DoubleInput)
    dialog.setDoubleRange(-1e6, 1e6)
    dialog.setDoubleDecimals(2 if operation.action in WEIGHTS else 0)
    dialog.setOkButtonText("Continue")
    dialog.setCancelButtonText("Back")  # "Cancel" is an action
    dialog.setWindowTitle(short_text(f"{ACTION_LABELS[operation.action]}: {operation.target}", _TITLE_LIMIT))
    dialog.setLabelText(VALUE_LABELS[operation.action])
    dialog.doubleValueSelected.connect(
        lambda value: confirm(Operation(operation.action, operation.target, value), monitor, parent)
    )
    dialog.open()


def confirm(operation: Operation, monitor: Monitor, parent: QWidget) -> ActionDialog:
    """Show the question whether to carry out an action on the cluster."""
    dialog = ActionDialog(operation, monitor, parent)
    dialog.open()
    if not needs_confirmation(operation):
        dialog.begin()
    return dialog
