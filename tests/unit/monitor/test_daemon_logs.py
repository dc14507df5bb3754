"""The logs of scheduler and agents on the screens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from scaler_protocol.log_lines import LINES_LIMIT
from scaler_protocol.messages import LogLine
from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor import rows as table_rows
from scaler_protocol.monitor.daemon_logs import LOGS_LIMIT, DaemonLogs, level_name
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.links import SCHEDULER_LINK, EntityLink, row_link
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import NONE, BadRecord, Kind, Naming
from scaler_protocol.monitor.tables import TABLES, Row, TableSpec
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from tests.support.monitoring import snapshot as make_snapshot

AGENT = {"session": "ab" * 16, "name": "vm-7", "host": "vm", "pid": 7, "workers": ["vm-7-0"]}


def events(*found: bytes, first: int = 0) -> bytes:
    return feed.encode(Events(1.0, first, b"".join(found), 0, len(found), 7))


def logged(number: int, text: str, agent: int = NONE, level: int = 20) -> bytes:
    return records.log_record(LogLine(number, 1.0 + number, level, text), agent)


def shown(*messages: bytes) -> list[dict[str, Any]]:
    return rows_of(model_of(*messages))


def rows_of(model: Model) -> list[dict[str, Any]]:
    keys = [column.key for column in TABLES["logs"].columns]
    return [dict(zip(keys, row, strict=True)) for row in model.rows("logs")[0]]


def model_of(*messages: bytes) -> Model:
    model = Model(0.0)
    for message in messages:
        model.apply(feed.decode(message).message, 1.0)
    return model


def named() -> bytes:
    return records.name_record(Naming.AGENT, 0, AGENT)


def test_the_newest_line_is_first() -> None:
    rows = shown(events(named(), logged(0, "old"), logged(0, "of an agent", 0, 30), logged(3, "new")))
    assert [(row["text"], row["log"], row["host"], row["level"]) for row in rows] == [
        ("new", "scheduler", "", "info"),
        ("old", "scheduler", "", "info"),
        ("of an agent", "vm-7", "vm", "warning"),
    ]


def test_lines_of_one_moment_stay_in_order() -> None:
    trace = [records.log_record(LogLine(number, 5.0, 40, f"{number}")) for number in range(12)]
    assert [row["text"] for row in shown(events(*trace))] == [str(number) for number in range(12)]


def test_a_line_that_comes_twice_is_shown_once() -> None:
    """The history and the stream overlap."""
    history = feed.encode(Events(1.0, 5, logged(1, "one") + logged(2, "two"), 0, 0, 7))
    rows = shown(history, events(logged(2, "two"), logged(3, "three"), first=5), history)
    assert [row["text"] for row in rows] == ["three", "two", "one"]


def test_the_pages_of_host_and_scheduler_have_their_lines() -> None:
    snapshot = make_snapshot()
    model = model_of(
        feed.encode(snapshot), events(named(), logged(0, "of the agent", 0), logged(0, "of the scheduler"))
    )
    sections = {each.title: each for each in page_of(model, EntityLink("host", ("vm",))).sections}  # type: ignore[union-attr]
    assert "of the agent" in [row[4] for row in sections["Log"].rows]
    page = page_of(model, SCHEDULER_LINK)
    assert page is not None and page.facts[0].text == snapshot.scheduler.address
    assert [row[4] for row in page.sections[0].rows] == ["of the scheduler"]
    assert page_of(model, EntityLink("scheduler", ("other",))) is None


def test_a_line_leads_to_where_it_comes_from() -> None:
    rows = model_of(events(named(), logged(1, "one"), logged(0, "two", 0))).rows("logs")[0]
    assert [row_link("logs", row) for row in rows] == [SCHEDULER_LINK, EntityLink("host", ("vm",))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2Jcleared", "?[2Jcleared"),
        ("one\ntwo", "one?two"),
        ("\u202eesrever", "?esrever"),
        ("x" * 5000, 999 * "x" + "…"),
    ],
)
def test_hostile_text_is_harmless(text: str, expected: str) -> None:
    assert [row["text"] for row in shown(events(logged(0, text)))] == [expected]


def test_bytes_that_are_no_text_are_replaced() -> None:
    (row,) = shown(events(records.record(Kind.LOG, time=1, body=b"\xff\xfe")))
    assert row["text"] == 2 * "\N{REPLACEMENT CHARACTER}" and row["level"] == "debug"


def test_a_line_that_is_too_long_for_any_log_is_refused() -> None:
    (record,) = records.records(records.record(Kind.LOG, time=1, body=bytes(10_000)))
    with pytest.raises(BadRecord):
        records.log_line_of(record)


def test_a_monitor_keeps_a_bounded_number_of_logs() -> None:
    logs = DaemonLogs()
    for agent in range(LOGS_LIMIT + 10):
        logs.add(agent, LogLine(0, 1.0, 20, "line"))
    assert logs_in(logs) == [str(agent) for agent in range(10, LOGS_LIMIT + 10)]
    for number in range(2 * LINES_LIMIT):
        logs.add(LOGS_LIMIT, LogLine(number, 1.0, 20, "line"))
    assert logs_in(logs).count(str(LOGS_LIMIT)) == LINES_LIMIT


def logs_in(logs: DaemonLogs) -> list[str]:
    place = TABLES["logs"].index("log")
    return [row[place] for log in logs.by_place(lambda agent: (str(agent), "vm")) for row in log.rows]


def test_rows_follow_new_lines_and_new_names() -> None:
    model = model_of(events(logged(0, "of an unknown agent", 0)))
    assert [row["log"] for row in rows_of(model)] == ["?"]
    model.apply(feed.decode(events(named(), first=1)).message, 2.0)
    assert [row["log"] for row in rows_of(model)] == ["vm-7"]
    model.apply(feed.decode(events(logged(1, "later", 0), first=2)).message, 3.0)
    assert [row["text"] for row in rows_of(model)] == ["later", "of an unknown agent"]


@pytest.mark.parametrize("key", ["time", "level", "log", "text", "number"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_part_of_the_rows_is_the_same_as_the_part_of_all(key: str, descending: bool) -> None:
    found = [logged(number, f"line {number % 4}", agent) for agent in (0, NONE) for number in range(12)]
    model = model_of(events(named(), *found))
    rows, total = model.rows("logs", "", key, descending)
    for offset in range(total + 1):
        for limit in range(total + 2):
            assert model.rows("logs", "", key, descending, offset, limit) == (rows[offset : offset + limit], total)


@pytest.mark.parametrize("descending", [False, True])
def test_equal_values_stand_in_the_order_of_hosts_logs_and_lines(descending: bool) -> None:
    agents = [{**AGENT, "session": f"{number:032x}", "name": f"vm-{number}"} for number in (10, 9)]
    names = [records.name_record(Naming.AGENT, number, each) for number, each in enumerate(agents)]
    found = [logged(number, "a", agent) for number in range(2) for agent in (0, 1)]
    model = model_of(events(*names, *found, logged(2, "b", 0)))
    rows = [(row[2], row[4], row[5]) for row in model.rows("logs", "", "text", descending)[0]]
    equal = [("vm-9", "a", 0), ("vm-9", "a", 1), ("vm-10", "a", 0), ("vm-10", "a", 1)]
    assert rows == ([("vm-10", "b", 2), *equal] if descending else [*equal, ("vm-10", "b", 2)])


def test_only_the_rows_of_logs_that_have_changed_are_filtered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def counting(table: TableSpec, rows: Iterable[Row], text: str) -> list[Row]:
        found = list(rows)
        looked_at.append(len(found))
        return filtered(table, found, text)

    filtered = table_rows._filtered
    monkeypatch.setattr(table_rows, "_filtered", counting)
    model = model_of(events(named(), *(logged(number, "a line", agent) for agent in (0, NONE) for number in range(20))))
    for _ in range(3):
        assert model.rows("logs", "a line", limit=5)[1] == 40
    assert sum(looked_at) == 40
    looked_at.clear()
    model.apply(feed.decode(events(logged(20, "a line", 0), first=41)).message, 2.0)
    assert model.rows("logs", "a line", limit=5)[1] == 41 and looked_at == [21]
    assert model.rows("logs", "vm-7", limit=5)[1] == 21


@pytest.mark.parametrize(
    ("level", "name"), [(0, "debug"), (10, "debug"), (20, "info"), (35, "warning"), (40, "error"), (255, "critical")]
)
def test_levels_have_words(level: int, name: str) -> None:
    assert level_name(level) == name


def test_the_whole_line_stands_below_the_table_of_a_small_terminal() -> None:
    text = " ".join(f"word{number}" for number in range(30))
    model = Model(0.0)
    for message in (feed.encode(make_snapshot()), events(named(), logged(0, text), logged(1, "short"))):
        model.apply(feed.decode(message).message, 1.0)
    screen = draw(model, View(page="logs").pressed("down", 10), 80, 24, 1.0, "tcp://127.0.0.1:2345")
    shown_text = " ".join(" ".join(map(text_of, screen.lines)).split())
    assert text in shown_text


def test_a_host_on_which_only_a_manager_runs_has_a_page_with_its_lines() -> None:
    model = model_of(events(named(), logged(0, "of a manager", 0)))
    page = page_of(model, EntityLink("host", ("vm",)))
    assert page is not None and [section.title for section in page.sections] == ["Log"]
