"""Traces in Chrome's format: every execution of the window once, on the thread of its worker."""

from __future__ import annotations

import datetime
import json
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.monitor import records
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.graphs import WatchedGraph
from scaler_protocol.monitor.log_frames import SUFFIX
from scaler_protocol.monitor.messages import Events, MonitorMessage
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.moments import moment_of
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.task_log import NO_WORKER
from scaler_protocol.monitor.trace import TraceBuilder, pieces_of
from scaler_protocol.monitor.trace_waits import LANES_LIMIT, GraphInputs, TaskWaits
from scaler_scheduler.top.trace import write_trace
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.unit.monitor.test_replay import log_of

MESSAGES = list(synthetic_messages(6, 8, 200))


def trace_of(start: float, stop: float, messages: Iterable[MonitorMessage] = MESSAGES) -> tuple[list[Any], Model]:
    builder, model = TraceBuilder(start, stop), Model(0.0)
    text = builder.head()
    for message in messages:
        model.apply(message, 0.0)
        text += "".join(builder.take(model))
    text += "".join(builder.take_running(model)) + "".join(builder.tail())
    return json.loads(text)["traceEvents"], model


def slices(events: list[Any]) -> list[Any]:
    return [event for event in events if event["ph"] == "X" and event["cat"] != "waiting"]


def test_every_execution_and_running_task_is_there_once() -> None:
    events, model = trace_of(0.0, 1e11)
    found = slices(events)
    assert len(found) == model.log.total + len(model.running) > 500
    running = [event for event in found if event["args"]["status"] == "running"]
    assert len(running) == len(model.running) > 0
    row = model.log.row(0)
    assert row is not None
    first = found[0]
    assert (first["args"]["task"], first["ts"], first["dur"]) == (row[0], row[1] - row[2], row[2])
    assert first["name"] == model.activity.function_name(row[4])


def test_threads_are_named_and_those_of_workers_belong_to_one_agent() -> None:
    events, model = trace_of(0.0, 1e11)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices(events)} == names.keys()
    assert {row.worker.name for row in model.stream_rows() if row.worker.number is not None} >= {
        name for name in names.values() if not name.startswith(("other", "unknown"))
    }
    processes: dict[int, set[int]] = defaultdict(set)
    for event in slices(events):
        processes[event["tid"]].add(event["pid"])
    assert all(len(each) == 1 for each in processes.values())


def test_only_what_overlaps_the_window_is_there() -> None:
    start, stop = START_TIME + 2.0, START_TIME + 3.0
    found = slices(trace_of(start, stop)[0])
    every = slices(trace_of(0.0, 1e11)[0])
    expected = [each for each in every if each["ts"] < stop * 1e6 and each["ts"] + each["dur"] >= start * 1e6]
    assert 0 < len(found) == len(expected) < len(every)
    assert slices(trace_of(1.0, 2.0)[0]) == []


def test_executions_of_unknown_workers_do_not_overlap() -> None:
    model, builder = Model(0.0), TraceBuilder(0.0, 1e6)
    model.activity = Activity(100)
    for ended, duration in (10, 5), (11, 2), (12, 1), (13, 9), (20, 3):
        model.log.append(1, ended, duration, 0, 0, NO_WORKER)
    text = builder.head() + "".join(builder.take(model)) + "".join(builder.tail())
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices(json.loads(text)["traceEvents"]):
        spans[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert sum(map(len, spans.values())) == 5
    for lane in spans.values():
        lane.sort()
        assert all(before[1] <= after[0] for before, after in zip(lane, lane[1:], strict=False))


def test_a_recording_becomes_a_file(tmp_path: Path) -> None:
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(MESSAGES))
    replay, target = Replay(tmp_path), tmp_path / "out.json"
    text = write_trace(replay, str(target), replay.start, replay.end)
    found = slices(json.loads(target.read_text())["traceEvents"])
    assert text.startswith(f"{len(found):,} executions") and len(found) == len(slices(trace_of(0.0, 1e11)[0]))
    write_trace(replay, str(target), replay.start + 1, replay.start + 2)
    assert 0 < len(slices(json.loads(target.read_text())["traceEvents"])) < len(found)


def test_times_may_be_of_the_clock_or_whole() -> None:
    start = datetime.datetime(2023, 11, 14, 22, 13, 20).timestamp()
    assert moment_of("22:13:30", start) == start + 10
    assert moment_of("22:14", start) == start + 40
    assert moment_of("22:00", start) == start + 86400 - 800
    assert moment_of("2023-11-14T22:13:21.5", start) == start + 1.5
    for wrong in ("", "soon", "25:00", "22:13:99"):
        with pytest.raises(ValueError):
            moment_of(wrong, start)


SECOND = 1_000_000


def waiting(*some: bytes) -> list[tuple[str, int, float, float, str]]:
    """The slices of waiting: name, task, begin, end and thread."""
    model = Model(0.0)
    names = records.name_record(records.Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1})
    model.apply(Events(100.0, 0, names + b"".join(some), 0, 1 + len(some), 1), 0.0)
    events = json.loads("".join(pieces_of(TraceBuilder(0.0, 1000.0), model)))["traceEvents"]
    threads = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    processes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    found = [each for each in events if each["ph"] == "X" and each["cat"] == "waiting"]
    assert {processes[each["pid"]] for each in found} <= {"client abababab: tasks that wait"}
    return [
        (
            each["name"], each["args"]["task"], each["ts"] / SECOND, (each["ts"] + each["dur"]) / SECOND,
            threads[each["tid"]],
        )
        for each in found
    ]  # fmt: skip


def came(first: int, count: int, time: float) -> bytes:
    return records.record(
        records.Kind.SUBMITTED, time=int(time * SECOND), session=0, first=first, count=count, function=0
    )


def over(task: int, begin: float, end: float, attempt: int = 1) -> bytes:
    return records.ended_record(
        [task], [int((end - begin) * SECOND)], [attempt], [0], time=int(end * SECOND), session=0, function=0
    )


def test_tasks_wait_for_a_worker_side_by_side() -> None:
    found = waiting(came(1, 3, 10.0), over(1, 10.0, 12.0), over(2, 12.0, 14.0), over(3, 14.0, 16.0), over(4, 1.0, 2.0))
    assert found == [
        ("waiting for a worker", 2, 10.0, 12.0, "waiting 1"), ("waiting for a worker", 3, 10.0, 14.0, "waiting 2"),
    ]  # fmt: skip
    again = waiting(
        came(1, 1, 10.0), over(1, 11.0, 12.0), came(2, 1, 13.0), over(2, 14.0, 15.0), over(2, 20.0, 21.0, 2)
    )
    assert [each[4] for each in again] == ["waiting 1", "waiting 1"]


def test_nodes_wait_for_their_inputs_first() -> None:
    edges = struct.pack("<5Q", 3, 3, 1, 3, 2)
    graph = records.record(records.Kind.GRAPH, time=0, session=0, first=1, count=3, function=0, body=edges)
    found = waiting(came(1, 3, 10.0), graph, over(1, 10.0, 12.0), over(2, 10.0, 13.0), over(3, 15.0, 16.0))
    assert [each[:4] for each in found] == [
        ("waiting for dependencies", 3, 10.0, 13.0), ("waiting for a worker", 3, 13.0, 15.0),
    ]  # fmt: skip


def test_the_ends_of_nodes_are_not_kept_for_a_graph_without_edges() -> None:
    assert GraphInputs(WatchedGraph(0, 9, 1)).has(5)
    assert not GraphInputs(WatchedGraph(0, 9, 1, cut=True)).has(5)


def test_waits_are_sought_for_tasks_of_the_window_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(TaskWaits, "of", lambda waits, model, row: asked.append(row[0]))
    model = Model(0.0)
    model.apply(Events(100.0, 0, over(1, 1.0, 2.0) + over(2, 11.0, 12.0) + over(3, 21.0, 22.0), 0, 3, 1), 0.0)
    list(pieces_of(TraceBuilder(10.0, 20.0), model))
    assert asked == [2]


def test_of_very_many_tasks_that_wait_some_are_shown() -> None:
    ends = [over(task, 20.0 + task, 21.0 + task) for task in range(1, 1000)]
    found = waiting(came(1, 1000, 10.0), *ends)
    assert len(found) == LANES_LIMIT
