"""When tasks came, and what their durations consist of: kept within bounds, shown on the line of the task."""

from __future__ import annotations

import json

import pytest

from scaler_protocol.monitor import records, task_times
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.parts import TimeParts, spans_text
from scaler_protocol.monitor.records import BadRecord, Kind
from scaler_protocol.monitor.tables import TASKS
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


def texts(*some: bytes) -> dict[int, str]:
    """What the task log says, by task."""
    model = Model(0.0)
    model.apply(events(*some), 0.0)
    rows, _ = model.rows("tasks")
    return {row[TASKS.index("task")]: row[TASKS.index("parts")] for row in rows}


def test_a_task_waits_from_its_arrival_to_its_start() -> None:
    found = texts(arrived(5, 2, 5 * SECOND), arrived(7, 1, 7 * SECOND), ended(5, 6, 7, 8))
    assert found == {5: "waiting 3s, running 2s", 6: "waiting 3s, running 2s", 7: "waiting 1s, running 2s", 8: ""}


def test_later_attempts_do_not_say_how_long_they_waited() -> None:
    assert texts(arrived(5, 1, 5 * SECOND), ended(5, attempt=2)) == {5: ""}


def test_parts_are_shown_and_what_is_left_was_running() -> None:
    parts = records.parts_record([(5, 1, SECOND // 2, 0, SECOND)], time=10 * SECOND, session=0)
    assert texts(parts, ended(5, 6)) == {5: "fetching 500ms, running 500ms, storing 1s", 6: ""}


def test_parts_are_slices_of_a_trace() -> None:
    parts = records.parts_record([(5, 1, 0, SECOND // 2, SECOND)], time=10 * SECOND, session=0)
    model = Model(0.0)
    model.apply(events(arrived(5, 1, 5 * SECOND), parts, ended(5)), 0.0)
    found = json.loads("".join(pieces_of(TraceBuilder(0.0, 100.0), model)))["traceEvents"]
    slices = [(each["name"], each["ts"] / SECOND, each["dur"] / SECOND) for each in found if each["ph"] == "X"]
    assert slices == [("?", 8.0, 2.0), ("loading", 8.0, 0.5), ("running", 8.5, 0.5), ("storing", 9.0, 1.0)]
    assert found[0]["args"]["waiting_seconds"] == 3.0


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
    assert times.parts(0, 99, 1) == ExecutionParts(1.0) and times.parts(0, 50, 1) is None
    for session in range(1, 12):
        times.add_arrival(session, 0, 1, 1)
    assert times.arrived_us(0, 198) is None and times.arrived_us(11, 0) == 1


def test_a_session_that_begins_again_forgets_its_past() -> None:
    times = TaskTimes()
    times.add_arrival(0, 100, 10, 1)
    times.add_arrival(0, 1, 10, 2)
    assert times.arrived_us(0, 105) is None and times.arrived_us(0, 5) == 2


def test_short_parts_are_not_shown() -> None:
    assert spans_text(TimeParts(running=0.5, waiting=1e-6)) == ""
    assert spans_text(TimeParts()) == ""
