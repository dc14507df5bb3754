"""The pane with the output of tasks."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from scaler_gui.main_window import MainWindow
from scaler_gui.views.output_pane import OutputPane


def test_lines_are_followed_filtered_and_exported(qtbot: QtBot, window: MainWindow) -> None:
    pane = window.docks.panes["output"]
    assert isinstance(pane, OutputPane)
    output = pane.monitor.model.activity.output
    for number in range(300):
        output.add(1e9, b"s" * 16, 7, 1, "price", "vm-0", 1 + number % 2, 0, b"<b>step</b> %d\n" % number)
    window.docks.go_to("output")
    pane.refresh()
    assert pane.text.toPlainText().endswith("vm-0 [price 7] <b>step</b> 299")
    bar = pane.text.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bar.setValue(0)
    output.add(1e9, b"s" * 16, 7, 1, "price", "vm-0", 1, 0, b"later\n")
    pane.refresh()
    assert bar.value() == 0 and pane.count.text() == "301 lines"
    pane.focus_filter()
    QTest.keyClicks(pane.filter, "step</b> 29")
    qtbot.waitUntil(lambda: pane.count.text() == "11 match")
    header, rows = pane.csv()
    assert list(header)[-1] == "text" and len(list(rows)) == 11
    QTest.keyClick(pane.filter, Qt.Key.Key_Escape)
