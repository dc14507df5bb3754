"""When tasks came, and what their durations consist of: kept within bounds, shown on the line of the task."""

from __future__ import annotations

import json
from functools import partial

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor import links, records, task_times
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.parts import TimeParts, spans_text
from scaler_protocol.monitor.records import NONE, BadRecord, Kind, Naming
from scaler_protocol.monitor.tables import TASKS
from scaler_protocol.monitor.task_log import TaskLog
from scaler_protocol.monitor.task_times import ExecutionParts, TaskTimes
from scaler_protocol.monitor.trace import TraceBuilder, pieces_of

SECOND = 1_000_000


def events(*some: bytes) -> Events:
    return Events(time=10.0, first=0, records=b"".join(some), count=len(some), epoch=1)


def arrived(first: int, count: int, time: int) -> bytes:
    return records.record(Kind.SUBMITTED, time=time, session=0, first=first, count=count, function=0)


def ended(*tasks: int, time: int = 10 * SECOND, attempt: int = 1) -> bytes:
    durations = [2 * SECOND] * len(tasks)
    return records.ended_record(
        tasks, durations, [attempt] * len(tasks), [0] * len(tasks), time=time, session=0, function=0
    )


def session() -> bytes:
    return records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1})


def texts(*some: bytes) -> dict[int, str]:
    """What the task log says, by task."""
    model = Model(0.0)
    model.apply(events(*some), 0.0)
    rows, _ = model.rows("tasks")
    return {row[TASKS.index("task")]: row[TASKS.index("parts")] for row in rows}


def test_a_task_waits_from_its_arrival_to_its_start() -> None:
    found = texts(arrived(5, 2, 5 * SECOND), arrived(7, 1, 7 * SECOND), ended(5, 6, 7, 8))
    assert found == {5: "waiting 3s, running 2s", 6: "waiting 3s, running 2s", 7: "waiting 1s, running 2s", 8: ""}


def test_tasks_that_were_cancelled_on_a_host_do_not_say_how_long_they_waited() -> None:
    """They may have run. Those that no agent had have waited all the time."""
    cancelled = [
        records.ended_record(
            [task], [0], [1], [Status.CANCELLED], time=10 * SECOND, session=0, function=0, agent=agent, worker=NONE
        )
        for task, agent in ((5, 0), (6, NONE))
    ]
    assert texts(arrived(5, 2, 5 * SECOND), *cancelled) == {5: "", 6: "waiting 5s"}


def test_later_attempts_do_not_say_how_long_they_waited() -> None:
    assert texts(arrived(5, 1, 5 * SECOND), ended(5, attempt=2)) == {5: ""}


def test_parts_are_shown_and_what_is_left_was_running() -> None:
    parts = records.parts_record([(5, 1, SECOND // 2, 0, SECOND)], time=10 * SECOND, session=0)
    assert texts(ended(5, 6), parts) == {5: "fetching 500ms, running 500ms, storing 1s", 6: ""}


def test_parts_are_slices_of_a_trace() -> None:
    parts = records.parts_record([(5, 1, 0, SECOND // 2, SECOND)], time=10 * SECOND, session=0)
    model = Model(0.0)
    model.apply(events(arrived(5, 1, 5 * SECOND), ended(5), parts), 0.0)
    found = json.loads("".join(pieces_of(TraceBuilder(0.0, 100.0), model)))["traceEvents"]
    slices = [(each["name"], each["ts"] / SECOND, each["dur"] / SECOND) for each in found if each["ph"] == "X"]
    assert slices == [
        ("?", 8.0, 2.0), ("loading", 8.0, 0.5), ("running", 8.5, 0.5), ("storing", 9.0, 1.0),
        ("waiting for a worker", 5.0, 3.0),
    ]  # fmt: skip
    assert found[0]["args"]["waiting_seconds"] == 3.0


def test_parts_that_are_longer_than_the_whole_are_refused() -> None:
    rows = [(5, 1, SECOND, SECOND, 1), (6, 1, SECOND, 0, SECOND), (7, 1, 2**32 - 1, 2**32 - 1, 2**32 - 1)]
    parts = records.parts_record(rows, time=10 * SECOND, session=0)
    assert texts(ended(5, 6, 7), parts) == {5: "", 6: "fetching 1s, storing 1s", 7: ""}


def test_parts_of_executions_that_did_not_end_just_now_are_refused() -> None:
    part = partial(records.parts_record, time=10 * SECOND, session=0)
    first, second = part([(5, 1, SECOND, 0, 0)]), part([(5, 1, 0, SECOND, 0), (9, 1, 1, 0, 0), (6, 2, 0, SECOND, 0)])
    assert texts(first, ended(5)) == {5: ""}
    assert texts(ended(5, 6), second) == {5: "loading 1s, running 1s", 6: ""}
    assert texts(ended(5), part([(7, 1, 1, 0, 0)]), ended(6), first) == {5: "", 6: ""}


def test_parts_may_come_in_several_records() -> None:
    rows = [(task, 1, SECOND, 0, 0) for task in range(5, 9)]
    parts = [records.parts_record(rows[place : place + 2], time=10 * SECOND, session=0) for place in (0, 2)]
    assert set(texts(ended(5, 6, 7, 8), *parts).values()) == {"fetching 1s, running 1s"}


def test_the_search_for_executions_with_parts_is_bounded() -> None:
    log = TaskLog()
    for task in range(1000):
        log.append(task, 10 * SECOND, SECOND, 0, 0, 0)
    assert log.place_parts(0, [(5, 1, 1, 0, 0)]) == [(5, 1, 1, 0, 0)]
    for _ in range(100):
        log.place_parts(0, [(2000, 1, 1, 0, 0)])
    assert log.place_parts(0, [(5, 1, 1, 0, 0)]) == []


def test_durations_of_tasks_are_those_of_running() -> None:
    model = Model(0.0)
    parts = records.parts_record([(5, 1, 0, SECOND, SECOND // 2)], time=10 * SECOND, session=0)
    model.apply(events(session(), ended(5, 6, 7), parts), 0.0)
    column = TASKS.index("duration")
    rows, _ = model.rows("tasks", sort_key="duration", descending=False)
    assert [(row[TASKS.index("task")], row[column]) for row in rows] == [(5, 0.5), (7, 2.0), (6, 2.0)]
    page = page_of(model, EntityLink(links.TASK, ("abababab", "5")))
    assert page is not None and page.moments == (8.0, 10.0)
    facts = {each.name: each.text for each in page.facts}
    assert (facts["ran"], facts["where time went"]) == ("500ms", "loading 1s, running 500ms, storing 500ms")


def test_a_task_whose_priority_changes_later_has_the_new_one() -> None:
    names = [
        session(),
        records.name_record(Naming.OPTIONS, 1, {}),
        records.name_record(Naming.OPTIONS, 2, {"priority": 7}),
    ]
    came, changed = (
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=5, count=2, function=0, attempt=options)
        for options in (1, 2)
    )
    for later, priority in ([], "0"), ([changed], "7"):
        model = Model(0.0)
        model.apply(events(*names, came, arrived(7, 1, 2 * SECOND), *later), 0.0)
        page = page_of(model, EntityLink(links.TASK, ("abababab", "6")))
        assert page is not None and priority == next(each.text for each in page.facts if each.name == "priority")
        assert model.activity.times.arrived_us(0, 7) == 2 * SECOND


def test_a_cut_off_record_is_bad() -> None:
    whole = records.parts_record([(5, 1, 1, 1, 1), (6, 1, 1, 1, 1)], time=1, session=0)
    header = bytearray(whole[:48])
    header[8:12] = (48 + 24).to_bytes(4, "little")
    with pytest.raises(BadRecord):
        Activity(10).apply(events(bytes(header) + whole[48:72]))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANGES_LIMIT", "SESSIONS_LIMIT", "PARTS_LIMIT"):
        monkeypatch.setattr(task_times, name, 10)
    times = TaskTimes()
    for number in range(100):
        times.add_arrival(0, 2 * number, 1, number)
        times.add_parts(0, number, 1, ExecutionParts(1.0))
    assert times.arrived_us(0, 198) == 99 and times.arrived_us(0, 199) is None and times.arrived_us(0, 100) is None
    assert times.parts(0, 99, 1, SECOND) == ExecutionParts(1.0) and times.parts(0, 50, 1, SECOND) is None
    assert times.parts(0, 99, 1, SECOND - 2) is None
    for session in range(1, 12):
        times.add_arrival(session, 0, 1, 1)
    assert times.arrived_us(0, 198) is None and times.arrived_us(11, 0) == 1


def test_a_session_that_begins_again_forgets_its_past() -> None:
    times = TaskTimes()
    times.add_arrival(0, 100, 10, 1)
    times.add_arrival(0, 1, 10, 2)
    assert times.arrived_us(0, 105) is None and times.arrived_us(0, 5) == 2


def test_changed_options_of_tasks_that_came_long_ago_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_times, "RANGES_LIMIT", 10)
    times = TaskTimes()
    assert all([times.add_arrival(0, number, 1, number, 0, 1) for number in range(100)])
    assert not any([times.add_arrival(0, number, 1, 200, 0, 2) for number in range(100)])
    assert times.options_of(0, 99) == 2 and times.arrived_us(0, 0) is None


def test_short_parts_are_not_shown() -> None:
    assert spans_text(TimeParts(running=0.5, waiting=1e-6)) == ""
    assert spans_text(TimeParts()) == ""


def test_the_page_of_a_task_has_the_size_of_its_arguments() -> None:
    def came(first: int, count: int, size: int) -> bytes:
        return records.record(Kind.SUBMITTED, time=SECOND, session=0, first=first, count=count, function=0, worker=size)

    named = records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1, "parent": ""})
    messages = [named, came(1, 1, 2048), came(2, 500, 12), came(600, 1, NONE)]
    model = Model(0.0)
    model.apply(events(*messages), 0.0)
    expected = {"1": ["2.0 KiB"], "20": ["12 B on average, of 500 tasks that came together"], "600": []}
    for task, texts in expected.items():
        page = page_of(model, EntityLink("task", ("abababab", task)))
        assert page is not None and [fact.text for fact in page.facts if fact.name == "arguments"] == texts
    assert model.activity.times.arguments_of(0, 700) is model.activity.times.arguments_of(1, 1) is None
