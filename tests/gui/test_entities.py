"""Pages of single things in the desktop monitor, columns that fit, and the words of empty tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QUrl
from pytestqt.qtbot import QtBot

from scaler_gui.models.entity_text import address_of, entity_html, link_of
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT
from scaler_gui.views.entity_window import EntityWindow
from scaler_gui.views.stream_pane import StreamPane
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.messages import LogLine
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.output_log import STDERR
from scaler_protocol.monitor.records import NONE
from scaler_protocol.monitor.tables import LOGS, TASKS, WORKERS
from tests.support.monitor_stream import synthetic_messages
from tests.support.monitoring import agent_status, snapshot


@pytest.fixture
def monitor(qtbot: QtBot) -> Monitor:
    made = Monitor()
    for message in synthetic_messages(4, 12, 200):
        made.take(message)
    return made


def test_links_lead_from_page_to_page_and_back(monitor: Monitor, qtbot: QtBot) -> None:
    window = EntityWindow(monitor)
    qtbot.addWidget(window)
    window.visit(EntityLink("worker", ("node-0", "node-0-3")))
    assert "Worker node-0-3" in window.text.toPlainText()
    assert not window.back.isEnabled()
    window.text.anchorClicked.emit(QUrl(address_of(EntityLink("host", ("node-0",)))))
    assert window.windowTitle() == "Host node-0" and "memory of the host" in window.text.toPlainText()
    window.back.click()
    assert "Worker node-0-3" in window.text.toPlainText()


def test_a_page_offers_the_actions_on_its_thing(monitor: Monitor, qtbot: QtBot) -> None:
    window = EntityWindow(monitor)
    qtbot.addWidget(window)
    window.visit(EntityLink("worker", ("node-0", "node-0-3")))
    assert "Kill process ..." in [each.text() for each in window.actions_button.menu().actions()]
    window.visit(EntityLink("scheduler", ("scheduler",)))
    assert not window.actions_button.isEnabled()


def test_names_are_text_whatever_they_contain(monitor: Monitor) -> None:
    hostile = "<img src=x onerror=alert(1)>'\"&"
    link = EntityLink("function", (hostile,))
    assert link_of(address_of(link)) == link
    assert "<img" not in entity_html(monitor.model, link, LIGHT)
    assert link_of("https://example.org") is None


def test_a_table_leaves_out_columns_for_which_it_has_no_room(monitor: Monitor, qtbot: QtBot) -> None:
    pane = TablePane(monitor, TASKS)
    qtbot.addWidget(pane)
    pane.resize(600, 400)
    pane.show()
    pane.refresh()
    shown = [column.key for number, column in enumerate(TASKS.columns) if not pane.view.isColumnHidden(number)]
    assert "parts" not in shown and {"ended", "task", "function", "status"} <= set(shown)
    assert pane.view.horizontalHeader().length() <= pane.view.viewport().width()
    pane.resize(2000, 400)
    with_values = [number for number, value in enumerate(pane.view.table.row(0) or ()) if value not in ("", 0)]
    qtbot.waitUntil(lambda: not any(pane.view.isColumnHidden(number) for number in with_values))


def test_a_column_without_values_takes_no_room_until_it_has_one(qtbot: QtBot) -> None:
    monitor, agent = Monitor(), agent_status()
    pane = TablePane(monitor, WORKERS)
    qtbot.addWidget(pane)
    pane.resize(2000, 400)
    pane.show()
    for capabilities in ("", "gpu=1"):
        monitor.model.apply(snapshot((replace(agent, capabilities=capabilities),)), 0.0)
        pane.refresh()
        assert pane.view.isColumnHidden(WORKERS.index("capabilities")) == (not capabilities)
        assert not pane.view.isColumnHidden(WORKERS.index("itl"))


def test_a_column_whose_first_value_comes_late_is_shown(qtbot: QtBot) -> None:
    monitor = Monitor()
    agents = [replace(agent_status(n), host=f"host-{n:02}", capabilities="" if n else "gpu=1") for n in range(60)]
    monitor.model.apply(snapshot(tuple(agents)), 0.0)
    pane = TablePane(monitor, WORKERS)
    qtbot.addWidget(pane)
    pane.resize(2000, 400)
    pane.show()
    pane.refresh()
    place = WORKERS.index("capabilities")
    first = next(number for number in range(pane.table.rowCount()) if pane.table.row(number)[place])  # type: ignore[index]
    assert first > 40 and not pane.view.isColumnHidden(place)


def test_a_narrow_table_cuts_long_texts_and_follows_the_window(qtbot: QtBot) -> None:
    monitor = Monitor()
    monitor.model.activity.logs.add(
        NONE, LogLine(0, 1.0, 20, "a line that is much longer than the window is wide " * 9)
    )
    pane = TablePane(monitor, LOGS)
    qtbot.addWidget(pane)
    pane.show()
    for width in (560, 400, 1500, 450):
        pane.resize(width, 300)
        pane.refresh()
        shown = [column.key for number, column in enumerate(LOGS.columns) if not pane.view.isColumnHidden(number)]
        assert {"time", "text"} <= set(shown)
        assert pane.view.horizontalHeader().length() <= pane.view.viewport().width()


def test_widths_that_the_user_has_chosen_stay(monitor: Monitor, qtbot: QtBot) -> None:
    pane = TablePane(monitor, TASKS)
    qtbot.addWidget(pane)
    pane.show()
    pane.refresh()
    pane.view.horizontalHeader().resizeSection(0, 333)
    pane.resize(400, 300)
    pane.refresh()
    assert pane.view.columnWidth(0) == 333


def test_an_empty_table_says_why(qtbot: QtBot) -> None:
    pane = TablePane(Monitor(), WORKERS)
    qtbot.addWidget(pane)
    pane.show()
    assert pane.view.empty_text.startswith("No workers are connected.")
    pane.filter.setText("nobody")
    qtbot.waitUntil(lambda: pane.view.empty_text == "No row contains “nobody”.")


def test_a_double_click_opens_a_row(monitor: Monitor, qtbot: QtBot) -> None:
    pane = TablePane(monitor, WORKERS)
    qtbot.addWidget(pane)
    pane.refresh()
    opened: list[object] = []
    pane.view.opened.connect(opened.append)
    pane.view.doubleClicked.emit(pane.table.index(0, 0))
    assert opened == [pane.table.row(0)]


def test_the_stream_offers_to_follow_while_it_stands_still(monitor: Monitor, qtbot: QtBot) -> None:
    pane = StreamPane(monitor)
    qtbot.addWidget(pane)
    pane.resize(800, 400)
    pane.show()
    pane.refresh()
    assert not pane.follow.isVisible()
    pane.canvas.window_shown.pan(-0.5)
    pane.canvas.look()
    assert pane.follow.isVisible()
    pane.follow.click()
    assert pane.canvas.window_shown.follows and not pane.follow.isVisible()


def test_the_page_of_a_task_has_its_output(monitor: Monitor) -> None:
    activity = monitor.model.activity
    row = monitor.model.rows("tasks")[0][0]
    [session] = {each.session for each in activity.sessions.values() if each.session.hex()[:8] == row[2]}
    for number in range(150):
        activity.output.add(1e9, session, row[1], 1, "f", row[7], STDERR, 0, b"<b>step %d</b>\n" % number)
    activity.output.add(1e9, session, row[1] + 1, 1, "f", row[7], STDERR, 0, b"of another task\n")
    html = entity_html(monitor.model, EntityLink("task", (row[2], str(row[1]))), LIGHT)
    assert "Output (150 lines, the newest 100 shown)" in html
    assert "&lt;b&gt;step 149&lt;/b&gt;" in html and "step 49" not in html and "another" not in html
    assert "of another task" in entity_html(monitor.model, EntityLink("worker", (row[6], row[7])), LIGHT)
