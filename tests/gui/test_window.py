"""The window, by keyboard as its users have it, with a made-up cluster."""

from __future__ import annotations

import csv
import datetime
import os
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QInputDialog, QLineEdit, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from scaler_gui.main_window import MainWindow
from scaler_gui.models.graph_picture import STATES
from scaler_gui.models.recent import RecentAddress
from scaler_gui.monitor import Monitor
from scaler_gui.views.action_dialog import ActionDialog
from scaler_gui.views.asking import confirm
from scaler_gui.views.details_pane import DetailsPane
from scaler_gui.views.failures_pane import FailuresPane
from scaler_gui.views.graphs_pane import GraphsPane
from scaler_gui.views.overview import OverviewPane
from scaler_gui.views.pane import LEAST_WIDTH_PIXELS
from scaler_gui.views.panes import CORNERS
from scaler_gui.views.report_dialog import ReportDialog
from scaler_gui.views.stream_pane import StreamPane
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import LookAction, Operation, OperationOutcome
from scaler_protocol.monitor.tables import TABLES, WAITS
from scaler_protocol.profile import ProfileTree
from scaler_protocol.profile_report import text_of
from tests.gui.conftest import feed, make_window
from tests.support.monitor_stream import EPOCH, synthetic_messages
from tests.support.monitoring import monitor_address_with_keys

Key = Qt.Key
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def press(window: MainWindow, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Into whatever has the keyboard."""
    target = QApplication.focusWidget() or window
    QTest.keyClick(target, key, modifier)


def table(window: MainWindow, name: str) -> TablePane:
    pane = window.docks.panes[name]
    assert isinstance(pane, TablePane)
    return pane


def stream(window: MainWindow) -> StreamPane:
    pane = window.docks.panes["stream"]
    assert isinstance(pane, StreamPane)
    return pane


def focused_pane(window: MainWindow) -> str:
    widget: QWidget | None = QApplication.focusWidget()
    while widget is not None and widget.objectName() not in window.docks.panes:
        widget = widget.parentWidget()
    return widget.objectName() if widget is not None else ""


# ---- panes and keys --------------------------------------------------------------------------------------------------


def test_every_table_of_the_model_has_a_pane_and_each_pane_a_place(window: MainWindow) -> None:
    assert set(window.docks.panes) >= set(TABLES)
    assert {name for names in CORNERS.values() for name in names} == set(window.docks.panes)


def test_keys_lead_to_panes(busy_window: MainWindow) -> None:
    names = list(busy_window.docks.panes)
    for number, key in enumerate("1234567890"):
        QTest.keyClick(busy_window, Qt.Key(ord(key)), CONTROL)
        assert focused_pane(busy_window) == names[number], f"Ctrl+{key}"
        assert busy_window.docks.is_seen(names[number])


def test_f6_goes_through_all_panes_and_back(busy_window: MainWindow) -> None:
    names = list(busy_window.docks.panes)
    busy_window.docks.go_to(names[0])
    seen = []
    for _ in names:
        press(busy_window, Key.Key_F6)
        seen.append(focused_pane(busy_window))
    assert seen == [*names[1:], names[0]]
    press(busy_window, Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert focused_pane(busy_window) == names[-1]


def test_tab_leaves_every_part(busy_window: MainWindow) -> None:
    """Nothing holds the keyboard for ever."""
    busy_window.docks.go_to("failures")
    parts = []
    for _ in range(6):
        press(busy_window, Key.Key_Tab)
        parts.append(QApplication.focusWidget())
    assert len(set(parts)) >= 4


def test_help_lists_every_key(window: MainWindow) -> None:
    groups = dict(window.key_groups())
    everywhere = dict(groups["Everywhere"])
    for key in ("Ctrl+O", "Ctrl+1", "F1", "F6", "Ctrl+F", "Ctrl+P", "Ctrl+S"):
        assert key in everywhere
    assert "Ctrl+Space" in dict(groups["Recordings"])
    assert {"Task stream", "Overview", "Graphs", "Workers"} <= set(groups)


def test_f1_shows_the_keys(window: MainWindow, qtbot: QtBot) -> None:
    from PySide6.QtCore import QTimer

    seen: list[str] = []

    def look() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QDialog)
        seen.append(dialog.findChildren(QWidget)[0].window().windowTitle())
        QTest.keyClick(dialog, Key.Key_Escape)

    QTimer.singleShot(50, look)
    QTest.keyClick(window, Key.Key_F1)
    assert seen == ["Keys"]


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_a_filter_is_typed_kept_and_dropped(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.docks.go_to("workers")
    pane = table(busy_window, "workers")
    press(busy_window, Key.Key_Slash)
    assert isinstance(QApplication.focusWidget(), QLineEdit)
    QTest.keyClicks(pane.filter, "node-1")
    press(busy_window, Key.Key_Return)
    assert 0 < pane.table.rowCount() < 12 and QApplication.focusWidget() is pane.view
    QTest.keyClick(pane.view, Key.Key_F, CONTROL)
    press(busy_window, Key.Key_Escape)
    assert pane.table.rowCount() == 12 and pane.filter.text() == ""


def test_a_key_sorts_and_turns_the_order(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("functions")
    pane = table(busy_window, "functions")
    pane.view.setCurrentIndex(pane.table.index(0, pane.table.spec.index("finished")))
    press(busy_window, Key.Key_S)
    finished = [pane.table.value(row, "finished") for row in range(pane.table.rowCount())]
    assert finished == sorted(finished, reverse=True)
    press(busy_window, Key.Key_S)
    assert [pane.table.value(row, "finished") for row in range(pane.table.rowCount())] == finished[::-1]


def test_the_selected_row_stays_selected_where_ever_it_goes(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("workers")
    pane = table(busy_window, "workers")
    pane.view.selectRow(3)
    before = pane.table.key_of(3)
    pane.view.sort_by(pane.table.spec.index("pid"))
    assert pane.view.selected_row is not None
    assert pane.table.key_of(pane.view.currentIndex().row()) == before
    assert len(pane.view.selectionModel().selectedRows()) == 1


def test_rows_are_copied_as_text(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("workers")
    pane = table(busy_window, "workers")
    pane.view.selectAll()
    press(busy_window, Key.Key_C, CONTROL)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and {line.count("\t") for line in lines} == {len(TABLES["workers"].columns) - 1}


def test_a_failure_is_read_with_keys_alone(busy_window: MainWindow) -> None:
    QTest.keyClick(busy_window, Key.Key_6, CONTROL)
    pane = busy_window.docks.panes["failures"]
    assert isinstance(pane, FailuresPane)
    texts = set()
    for _ in range(pane.table.rowCount()):
        texts.add(pane.details.toPlainText())
        press(busy_window, Key.Key_Down)
    assert len(texts) == pane.table.rowCount() >= 3
    assert any("Fatal Python error" in text for text in texts), "death certificates"


def test_the_reason_why_tasks_wait_is_shown_whole(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("waits")
    pane = busy_window.docks.panes["waits"]
    assert isinstance(pane, DetailsPane)
    pane.refresh()
    reasons = [str(row[WAITS.index("reason")]) for row in pane.table.all_rows()]
    assert pane.details.toPlainText() == reasons[0]
    pane.view.selectRow(1)
    assert pane.details.toPlainText() == reasons[1] != reasons[0]


def test_the_task_log_shows_every_task(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("tasks")
    pane = table(busy_window, "tasks")
    assert pane.table.total == busy_window.monitor.model.log.total > 4000
    last = pane.table.rowCount() - 1
    assert pane.table.row(last) is not None


# ---- task stream and graphs ------------------------------------------------------------------------------------------


def test_the_stream_is_moved_with_keys(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.docks.go_to("stream")
    shown = stream(busy_window).canvas.window_shown
    assert shown.follows
    span = shown.span_seconds
    press(busy_window, Key.Key_Plus)
    assert shown.span_seconds == span / 2 and shown.follows
    press(busy_window, Key.Key_Left, SHIFT)
    assert not shown.follows
    press(busy_window, Key.Key_End)
    assert shown.follows
    press(busy_window, Key.Key_F)
    assert shown.span_seconds > 9.0
    height = shown.row_height
    press(busy_window, Key.Key_BracketRight)
    assert shown.row_height > height


def test_keys_go_from_task_to_task(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.docks.go_to("stream")
    canvas = stream(busy_window).canvas
    canvas.window_shown.show(busy_window.monitor.now - 0.5, busy_window.monitor.now)
    assert canvas.cursor_text() == ""
    press(busy_window, Key.Key_Left)
    newest, worker = canvas.cursor_text(), canvas.chosen.worker
    assert newest.splitlines()[1].startswith("task ")
    starts = [canvas.chosen.start]
    for _ in range(40):  # out of the span that was in sight at first
        press(busy_window, Key.Key_Left)
        starts.append(canvas.chosen.start)
    assert starts == sorted(starts, reverse=True) and starts[-1] < busy_window.monitor.now - 0.6
    assert canvas.chosen.worker == worker and canvas.cursor_text() and not canvas.window_shown.follows
    press(busy_window, Key.Key_Right)
    assert canvas.chosen.start == starts[-2]
    press(busy_window, Key.Key_Up)
    assert canvas.chosen.worker != worker and abs(canvas.chosen.start - starts[-2]) < 0.5
    assert canvas.accessibleDescription() == canvas.cursor_text()
    press(busy_window, Key.Key_Down)
    assert canvas.chosen.worker == worker
    task = canvas.cursor_text().splitlines()[1].split()[1]
    press(busy_window, Key.Key_Plus)
    assert canvas.cursor_text().splitlines()[1].split()[1] == task
    press(busy_window, Key.Key_Return)
    pane = table(busy_window, "tasks")
    assert pane.filter.text() == task
    busy_window.docks.go_to("stream")
    press(busy_window, Key.Key_Escape)
    assert canvas.cursor_text() == "" and canvas.window_shown.follows


def test_the_stream_zooms_at_the_wheel(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.docks.go_to("stream")
    canvas = stream(busy_window).canvas
    place = QPointF(canvas.rect().center())
    before = canvas.window_shown.span_seconds
    wheel = QWheelEvent(
        place, canvas.mapToGlobal(place), QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(canvas, wheel)
    assert canvas.window_shown.span_seconds < before and not canvas.window_shown.follows


def test_a_bar_has_a_tip_and_leads_to_the_log(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.docks.go_to("stream")
    canvas = stream(busy_window).canvas
    canvas.window_shown.show(busy_window.monitor.now - 0.2, busy_window.monitor.now)
    canvas.refresh()
    canvas.repaint()
    found = next(QPoint(x, 40) for x in range(130, canvas.width() - 30, 3) if "task " in canvas.text_at(QPoint(x, 40)))
    task = canvas.text_at(found).splitlines()[1].split()[1]
    QTest.mouseDClick(canvas, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, found)
    pane = table(busy_window, "tasks")
    assert pane.filter.text() == task
    qtbot.waitUntil(lambda: 0 < pane.table.total < 10)
    assert str(pane.table.value(0, "task")) == task


def test_a_running_graph_is_drawn(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("graphs")
    pane = busy_window.docks.panes["graphs"]
    assert isinstance(pane, GraphsPane)
    image = pane.canvas.grab().toImage()
    theme = busy_window.theme
    colours = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(0, image.height() - 30, 3)}
    assert {theme.good, theme.accent} <= colours, "nodes that are done, and nodes at work"


# ---- overview --------------------------------------------------------------------------------------------------------


def test_charts_are_moved_with_keys(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("overview")
    pane = busy_window.docks.panes["overview"]
    assert isinstance(pane, OverviewPane)
    start, end = pane.span
    press(busy_window, Key.Key_Plus)
    assert pane.span[1] - pane.span[0] < end - start
    press(busy_window, Key.Key_Left)
    assert pane.span[1] < end
    press(busy_window, Key.Key_Escape)
    assert pane.span[1] == pytest.approx(busy_window.monitor.now, abs=2.0)


# ---- exports ---------------------------------------------------------------------------------------------------------


def test_every_pane_is_saved_as_a_picture_and_a_table(busy_window: MainWindow, tmp_path: Path) -> None:
    for name, pane in busy_window.docks.panes.items():
        busy_window.docks.go_to(name)
        pane.export(str(tmp_path / f"{name}.png"))
        assert not QImage(str(tmp_path / f"{name}.png")).isNull()
        pane.export(str(tmp_path / f"{name}.csv"))
        with open(tmp_path / f"{name}.csv", newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1 or name in ("notices", "objects", "traffic", "alerts", "output"), name
        assert {len(row) for row in rows} == {len(rows[0])}


def test_a_table_is_saved_whole(busy_window: MainWindow, tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    busy_window.docks.panes["tasks"].export(str(path))
    assert len(path.read_text().splitlines()) == busy_window.monitor.model.log.total + 1


@pytest.mark.parametrize("name", ["view.txt", "no/such/folder/view.csv", "no/such/folder/view.png"])
def test_what_cannot_be_saved_is_said(busy_window: MainWindow, tmp_path: Path, name: str) -> None:
    with pytest.raises((ValueError, OSError)):
        busy_window.docks.panes["workers"].export(str(tmp_path / name))


# ---- looks, and what is remembered -----------------------------------------------------------------------------------


def test_light_and_dark(window: MainWindow) -> None:
    window.set_theme("light")
    light = window.grab().toImage().pixelColor(300, 300).lightness()
    QTest.keyClick(window, Key.Key_D, CONTROL)
    assert window.theme.is_dark
    assert window.grab().toImage().pixelColor(300, 300).lightness() < 100 < light


def test_layout_looks_and_addresses_are_remembered(
    window: MainWindow, qtbot: QtBot, settings_path: str, tmp_path: Path
) -> None:
    window.set_theme("dark")
    window.docks.docks["messages"].close()
    window.connect_to(RecentAddress(f"ipc://{tmp_path}/monitor", ""))
    window.close()
    again = make_window(qtbot, Monitor(), settings_path)
    assert again.theme.is_dark
    assert again.docks.docks["messages"].isHidden() and not again.docks.docks["workers"].isHidden()
    again._fill_recent()
    assert [action.text() for action in again._recent_menu.actions()] == [f"ipc://{tmp_path}/monitor"]
    again.docks.arrange()
    assert not again.docks.docks["messages"].isHidden()
    again.close()


# ---- trouble ---------------------------------------------------------------------------------------------------------


def test_an_address_where_nobody_is(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window.connect_to(RecentAddress(f"ipc://{tmp_path}/nobody"))
    qtbot.waitUntil(window.banner.isVisible, timeout=10_000)
    assert window.banner.text().startswith(f"Nothing heard from ipc://{tmp_path}/nobody")


def test_a_place_that_is_no_address(window: MainWindow) -> None:
    window.connect_to(RecentAddress("nonsense"))
    assert window.banner.isVisible() and "is not an address" in window.banner.text()


def test_keys_that_are_not_there(window: MainWindow, tmp_path: Path) -> None:
    window.connect_to(RecentAddress("tcp://127.0.0.1:1", str(tmp_path)))
    assert window.banner.isVisible() and f"{tmp_path}/observe.key: it is missing" in window.banner.text()


def test_a_restarted_scheduler_is_said_and_counted_anew(busy_window: MainWindow) -> None:
    from dataclasses import replace

    for message in synthetic_messages(2.0, 4, 50):
        if hasattr(message, "scheduler"):
            message = replace(message, scheduler=replace(message.scheduler, epoch=EPOCH + 1))
        else:
            message = replace(message, epoch=EPOCH + 1)
        busy_window.monitor.take(message)
    assert "has restarted" in busy_window.banner.text()
    assert busy_window.monitor.model.log.total < 200


def test_what_arrives_and_is_no_stream(busy_window: MainWindow) -> None:
    busy_window.monitor.refuse("the stream at this address is not a Scaler monitor stream")
    assert busy_window.banner.text() == "The stream at this address is not a Scaler monitor stream."


def test_failures_are_told_when_wanted(window: MainWindow, qtbot: QtBot) -> None:
    from dataclasses import replace

    messages = list(synthetic_messages(3.0, 4, 400))
    for message in messages:
        window.monitor.take(message)
    last = messages[-1]
    assert hasattr(last, "tasks")
    more = replace(last, tasks=replace(last.tasks, failed=last.tasks.failed + 5))
    window.monitor.take(more)
    assert window._notifier.last == "", "nobody asked for it"
    QTest.keyClick(window, Key.Key_N, CONTROL)
    more = replace(more, tasks=replace(more.tasks, failed=more.tasks.failed + 2), time=more.time + 60)
    window.monitor.take(more)
    assert window._notifier.last.startswith("2 tasks failed")


def test_a_desktop_without_a_tray_is_told_by_its_command(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, told = tmp_path / "notify-send", tmp_path / "told"
    command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}.new && mv {told}.new {told}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    window._notifier.tell("Scaler", "-2 tasks failed")
    qtbot.waitUntil(told.exists)
    assert told.read_text().splitlines()[-3:] == ["--", "Scaler", "-2 tasks failed"]


def test_a_thousand_workers_and_panes_that_nobody_sees(window: MainWindow, qtbot: QtBot) -> None:
    import time

    feed(window.monitor, seconds=2, workers=1000, tasks_per_second=5000)
    began = time.perf_counter()
    window.docks.refresh()
    assert time.perf_counter() - began < 1.0
    assert table(window, "workers").table.rowCount() == 1000


def test_a_scheduler_with_keys_is_said(window: MainWindow, qtbot: QtBot) -> None:
    with monitor_address_with_keys() as address:
        window.monitor.connect_to(RecentAddress(address))
        qtbot.waitUntil(lambda: "set SCALER_KEYS" in window.monitor.status.trouble, timeout=10_000)
        window.monitor.close()


# ---- actions ---------------------------------------------------------------------------------------------------------


def test_rows_of_workers_functions_and_clients_offer_actions(busy_window: MainWindow) -> None:
    offered = {"workers": 7, "objects": 3, "functions": 3, "clients": 4, "running": 6, "tasks": 0}
    for name, count in offered.items():
        pane = table(busy_window, name)
        pane.refresh()
        assert pane.view.operations() == []
        pane.view.selectRow(0)
        assert len(pane.view.operations()) == count, name


def test_an_action_is_confirmed_and_its_outcome_shown(busy_window: MainWindow, qtbot: QtBot) -> None:
    pane = table(busy_window, "functions")
    dialog = confirm(Operation(ControlAction.CANCEL_FUNCTION, "price"), pane.monitor, pane)
    assert dialog.text() == "Cancel all tasks of function price? Running ones are interrupted."
    dialog.accept_button.click()
    qtbot.waitUntil(lambda: dialog.text().startswith("Cannot reach the scheduler"), timeout=20_000)
    assert dialog.buttons() == [dialog.button(ActionDialog.StandardButton.Close)]
    dialog.close()


def test_an_action_that_is_not_confirmed_does_nothing(busy_window: MainWindow) -> None:
    dialog = confirm(Operation(ControlAction.DRAIN, "vm"), busy_window.monitor, busy_window)
    QTest.keyClick(dialog, Key.Key_Escape)
    assert not dialog.isVisible()


def test_there_are_no_actions_on_recordings(window: MainWindow, qtbot: QtBot) -> None:
    dialog = confirm(Operation(ControlAction.PAUSE, "vm"), window.monitor, window)
    dialog.accept_button.click()
    assert dialog.text() == "Cannot act on a recording."
    dialog.close()


def test_a_number_that_an_action_needs_is_asked_for_first(busy_window: MainWindow, qtbot: QtBot) -> None:
    pane = table(busy_window, "clients")
    pane.ask(Operation(ControlAction.SET_GROUP_LIMIT, "ci"))
    (entry,) = pane.findChildren(QInputDialog)
    assert entry.labelText() == "workers (0 = any number)"
    entry.setDoubleValue(3)
    entry.accept()
    (dialog,) = pane.findChildren(ActionDialog)
    assert dialog.text() == "Let group ci use at most 3 workers?"
    dialog.close()


def test_a_profile_is_shown_as_a_flame_graph_and_a_table(busy_window: MainWindow, qtbot: QtBot) -> None:
    tree = ProfileTree()
    tree.add(("w", "aa", "price", "exp (m.py:7)"), 3000)
    tree.add(("w", "aa", "price", "log (m.py:9)"), 1000)
    dialog = ReportDialog(OperationOutcome(True, "Profile of price, 5 s", text_of(tree), tree), busy_window)
    dialog.show()
    assert "exp (m.py:7)" in dialog.text.toPlainText()
    flame = dialog.flame
    assert flame is not None
    shares = {bar.call["name"]: bar.rectangle.width() / flame.width() for bar in flame.bars()}
    assert shares == {"all": 1, "price": 1, "exp (m.py:7)": 0.75, "log (m.py:9)": 0.25}
    exp = next(bar for bar in flame.bars() if bar.call["name"].startswith("exp"))
    QTest.mouseClick(flame, Qt.MouseButton.LeftButton, pos=exp.rectangle.center().toPoint())
    assert {bar.call["name"] for bar in flame.bars()} == {"all", "price", "exp (m.py:7)"}
    assert flame.tip(exp.call) == "exp (m.py:7)\n3ms, 75.0%"
    QTest.keyClick(flame, Key.Key_Escape)
    assert len(flame.bars()) == 4
    dialog.close()


def test_a_stack_is_asked_for_at_once(busy_window: MainWindow, qtbot: QtBot) -> None:
    dialog = confirm(Operation(LookAction.STACK, "vm-0"), busy_window.monitor, busy_window)
    assert not dialog.accept_button.isEnabled()
    qtbot.waitUntil(lambda: dialog.text().startswith("Cannot reach the scheduler"), timeout=20_000)
    dialog.close()


def test_a_time_of_the_past_is_shown(busy_window: MainWindow, qtbot: QtBot) -> None:
    model = busy_window.monitor.model
    moment = model.time - 5
    busy_window.go_to_moment(datetime.datetime.fromtimestamp(moment).isoformat())
    shown = stream(busy_window).canvas.window_shown
    assert not shown.follows and shown.start < moment < shown.end
    start, end = busy_window.docks.panes["overview"].span  # type: ignore[attr-defined]
    assert start < moment < end
    assert busy_window.docks.current_pane.name == "stream"
    busy_window.go_to_moment("1999-01-01T00:00")
    (box,) = busy_window.findChildren(QMessageBox)
    assert box.text().startswith("Cannot go to 1999-01-01T00:00")
    box.close()


def test_the_key_for_a_time_asks_for_it(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.ask_for_moment()
    (dialog,) = busy_window.findChildren(QInputDialog)
    dialog.setTextValue(datetime.datetime.fromtimestamp(busy_window.monitor.model.time - 5).isoformat())
    dialog.accept()
    assert not stream(busy_window).canvas.window_shown.follows


@pytest.mark.parametrize(
    ("action", "decimals"), [(ControlAction.SET_GROUP_LIMIT, 0), (ControlAction.SET_GROUP_WEIGHT, 2)]
)
def test_numbers_have_the_decimals_that_they_may_have_and_no_button_is_named_like_an_action(
    busy_window: MainWindow, action: ControlAction, decimals: int
) -> None:
    pane = table(busy_window, "clients")
    pane.ask(Operation(action, "ci"))
    (entry,) = pane.findChildren(QInputDialog)
    assert entry.doubleDecimals() == decimals
    assert {button.text() for button in entry.findChildren(QPushButton)} == {"Continue", "Back"}
    entry.close()


# ---- small windows -------------------------------------------------------------------------------------------------


def widths(window: MainWindow) -> tuple[int, int]:
    """Of the panes on the left, and on the right."""
    left, right = (window.docks.docks[CORNERS[corner][0]].width() for corner in ("top left", "top right"))
    return left, right


def test_a_window_that_was_small_has_room_on_both_sides_again(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.resize(1440, 900)
    qtbot.waitUntil(lambda: widths(busy_window)[0] == pytest.approx(0.56 * 1440, abs=10))
    busy_window.resize(1, 1)
    qtbot.waitUntil(lambda: busy_window.width() < 900)
    qtbot.waitUntil(lambda: min(widths(busy_window)) >= LEAST_WIDTH_PIXELS)
    busy_window.resize(1440, 900)
    qtbot.waitUntil(lambda: widths(busy_window)[0] == pytest.approx(0.56 * 1440, abs=10))


def test_widths_that_were_dragged_stay_when_the_window_changes(busy_window: MainWindow, qtbot: QtBot) -> None:
    docks = busy_window.docks
    busy_window.resize(1440, 900)
    qtbot.waitUntil(lambda: widths(busy_window)[0] == pytest.approx(0.56 * 1440, abs=10))
    docks.resizeDocks([docks.docks["overview"], docks.docks["workers"]], [720, 720], Qt.Orientation.Horizontal)
    qtbot.waitUntil(lambda: widths(busy_window)[0] == pytest.approx(720, abs=10))
    QTest.mouseRelease(docks, Qt.MouseButton.LeftButton)
    busy_window.resize(1200, 900)
    qtbot.waitUntil(lambda: widths(busy_window)[0] == pytest.approx(600, abs=10))


def test_a_long_sentence_at_the_top_covers_no_view(busy_window: MainWindow, qtbot: QtBot) -> None:
    busy_window.resize(1, 1)
    qtbot.waitUntil(lambda: busy_window.width() < 900)
    busy_window.banner.say("A task waits: no connected worker has the capabilities that it needs. " * 4)
    qtbot.waitUntil(
        lambda: busy_window.banner.height() >= busy_window.banner.heightForWidth(busy_window.banner.width())
    )
    docks = busy_window.docks
    top, bottom = docks.docks["overview"], docks.docks[CORNERS["bottom left"][0]]
    qtbot.waitUntil(lambda: docks.height() >= docks.minimumSizeHint().height())
    qtbot.waitUntil(lambda: top.geometry().bottom() < bottom.geometry().top())
    pane = docks.panes["overview"]
    qtbot.waitUntil(lambda: pane.height() >= pane.minimumSizeHint().height())


def test_the_legend_of_a_graph_has_as_many_lines_as_it_needs(busy_window: MainWindow) -> None:
    busy_window.docks.go_to("graphs")
    pane = busy_window.docks.panes["graphs"]
    assert isinstance(pane, GraphsPane)
    canvas, total = pane.canvas, len(pane.states)
    for width in (260, 330, 900):
        canvas.resize(width, 300)
        widths = [15 + canvas.fontMetrics().horizontalAdvance(f"{total:,} {name}") for name in STATES]
        assert all(x + wide <= width for (x, _), wide in zip(canvas.legend_places, widths, strict=True))
        assert len(set(canvas.legend_places)) == len(STATES)
    assert {row for _, row in canvas.legend_places} == {0}
