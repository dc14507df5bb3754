"""The dialog that asks for an address."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox, QLabel
from pytestqt.qtbot import QtBot

from scaler_gui.models.recent import RecentAddress
from scaler_gui.views.connect_dialog import ConnectDialog

RECENT = [RecentAddress("ipc:///tmp/one"), RecentAddress("tcp://host:2", "/keys of host")]


def make(qtbot: QtBot, *recent: RecentAddress) -> ConnectDialog:
    dialog = ConnectDialog(recent)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def can_connect(dialog: ConnectDialog) -> bool:
    boxes = dialog.findChildren(QDialogButtonBox)
    return boxes[0].button(QDialogButtonBox.StandardButton.Open).isEnabled()


def texts(dialog: ConnectDialog) -> str:
    return " ".join(label.text() for label in dialog.findChildren(QLabel))


def test_the_last_address_is_there_and_enter_connects(qtbot: QtBot) -> None:
    dialog = make(qtbot, *RECENT)
    assert dialog.place == RECENT[0] and can_connect(dialog)
    QTest.keyClick(dialog.address.lineEdit(), Qt.Key.Key_Return)
    assert dialog.result() == ConnectDialog.DialogCode.Accepted


def test_an_address_brings_its_key_files(qtbot: QtBot, tmp_path: Path) -> None:
    dialog = make(qtbot, *RECENT)
    dialog.address.setCurrentIndex(1)
    assert dialog.place == RECENT[1]
    assert not can_connect(dialog) and "has no observe.key" in texts(dialog)


def test_what_is_no_address_is_said_while_it_is_typed(qtbot: QtBot) -> None:
    dialog = make(qtbot)
    assert not can_connect(dialog)
    QTest.keyClicks(dialog.address, "localhost:2345")
    assert not can_connect(dialog) and "is not an address" in texts(dialog)
    dialog.address.clearEditText()
    QTest.keyClicks(dialog.address, "tcp://localhost:2345")
    assert can_connect(dialog)


def test_escape_leaves_it(qtbot: QtBot) -> None:
    dialog = make(qtbot, *RECENT)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible() and dialog.result() == ConnectDialog.DialogCode.Rejected
