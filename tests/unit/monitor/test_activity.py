"""What a stream leaves in the model: tables, log, stream, failures, graphs, histories."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.graphs import NodeState
from scaler_protocol.monitor.links import TASK, WORKER, EntityLink, cell_link
from scaler_protocol.monitor.messages import Events, EventTotals, Snapshot
from scaler_protocol.monitor.model import HISTORIES, Model, ended_count
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.records import NONE, Kind, Naming
from scaler_protocol.monitor.tables import TABLES
from tests.support.monitor_stream import EPOCH, GRAPH_NODES, SESSIONS, synthetic_messages

SECONDS, WORKERS, RATE = 5, 12, 2000


def model_of(*messages: Any) -> Model:
    model = Model(0.0)
    for message in messages or synthetic_messages(SECONDS, WORKERS, RATE):
        model.apply(message, 1.0)
    return model


def test_what_is_missing_is_known_from_the_next_snapshot() -> None:
    model = Model(0.0)
    before = next(each for each in synthetic_messages(1, 1, 1) if isinstance(each, Snapshot))
    model.apply(replace(before, events=EventTotals(90, 10)), 1.0)
    assert model.activity.missed == 0  # of these, none were promised
    model.apply(events(ended(1), first=100), 1.0)
    for _ in range(2):
        model.apply(replace(before, events=EventTotals(140, 10)), 2.0)
        assert model.activity.missed == 49
    model.apply(events(ended(2), first=150), 3.0)
    assert model.activity.missed == 49


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of()


def values(model: Model, table: str, column: str, **wanted: Any) -> list[Any]:
    rows, _ = model.rows(table, **wanted)
    return [row[TABLES[table].index(column)] for row in rows]


def events(*found: bytes, first: int = 0, epoch: int = EPOCH) -> Events:
    return Events(1000.0, first, b"".join(found), 0, len(found), epoch)


def ended(*tasks: int, **header: Any) -> bytes:
    count = len(tasks)
    return records.ended_record(tasks, [10] * count, [1] * count, [0] * count, time=10**9, session=0, **header)


def test_totals_are_the_truth_and_each_task_has_its_row(model: Model) -> None:
    assert model.snapshot is not None
    assert model.rows("tasks", limit=0)[1] == ended_count(model.snapshot.tasks) == model.log.total
    failed = [status for status in values(model, "tasks", "status") if status not in ("succeeded", "cancelled")]
    assert len(failed) == model.snapshot.tasks.failed == model.activity.failures.total
    assert sum(values(model, "failures", "count")) == len(failed)
    assert sum(values(model, "functions", "finished")) == model.log.total


@pytest.mark.parametrize("name", [name for name in TABLES if name != "alerts"])  # nothing is wrong
def test_every_table_has_rows_of_its_columns_and_every_value_can_be_written(model: Model, name: str) -> None:
    table = TABLES[name]
    rows, total = model.rows(name, limit=100)
    assert 0 < len(rows) <= total
    for row in rows:
        assert len(row) == len(table.columns)
        for column, value in zip(table.columns, row, strict=True):
            assert isinstance(format_value(column.kind, value), str)
    assert table.default_sort in [column.key for column in table.columns]
    assert all(table.index(key) >= 0 for key in table.key)


@pytest.mark.parametrize("name", list(TABLES))
def test_every_column_sorts_both_ways(model: Model, name: str) -> None:
    for column in TABLES[name].columns:
        if (name, column.key) == ("tasks", "ended"):
            continue  # the order in which they were heard of
        up = values(model, name, column.key, sort_key=column.key, descending=False)
        down = values(model, name, column.key, sort_key=column.key, descending=True)
        key = natural_key if column.kind == "text" else lambda value: value
        assert up == sorted(up, key=key)
        assert down == sorted(down, key=key, reverse=True)


def test_the_log_sorts_by_names_whatever_their_numbers() -> None:
    names = [
        records.name_record(Naming.FUNCTION, index, {"digest": "00" * 16, "name": name})
        for index, name in enumerate(["step10", "Step9", "apply", "step9"])
    ]
    model = Model(0.0)
    ends = [ended(number, function=function) for number, function in enumerate([0, 1, 2, 3, 2, 7])]
    model.apply(events(*names, *ends), 1.0)
    up = values(model, "tasks", "function", sort_key="function", descending=False)
    assert up == ["", "apply", "apply", "Step9", "step9", "step10"]
    assert values(model, "tasks", "function", sort_key="function", descending=True, limit=2) == ["step10", "step9"]


def test_a_page_of_rows_and_a_filter(model: Model) -> None:
    everything, total = model.rows("workers")
    assert model.rows("workers", offset=3, limit=4) == (everything[3:7], total)
    assert set(values(model, "workers", "host", filter_text="NODE-1")) == {"node-1"}
    assert model.rows("workers", "no such thing") == ([], 0)


def test_the_log_is_filtered_by_anything_that_has_a_name(model: Model) -> None:
    assert set(values(model, "tasks", "function", filter_text="eigh")) == {"numpy.linalg.eigh"}
    assert set(values(model, "tasks", "host", filter_text="node-1")) == {"node-1"}
    assert set(values(model, "tasks", "status", filter_text="processor died")) == {"processor died"}
    assert set(values(model, "tasks", "session", filter_text="abab")) == {"abababab"}
    assert 77 in values(model, "tasks", "task", filter_text="77")
    assert model.rows("tasks", "no such thing") == ([], 0)
    longest = values(model, "tasks", "duration", sort_key="duration", descending=True, limit=5)
    assert longest[0] == max(values(model, "tasks", "duration"))


def test_failures_are_grouped_and_tell_all(model: Model) -> None:
    causes = {(row[2], row[3]) for row in model.rows("failures")[0]}
    assert ("ValueError", "negative price") in causes
    assert ("ProcessorDiedError", "SIGSEGV") in causes
    group = next(row for row in model.rows("failures")[0] if row[2] == "ProcessorDiedError")[-1]
    assert "Segmentation fault" in model.failure_details(group)
    assert model.failure_details(10_000) == ""


def test_bars_of_all_rows_stand_for_all_tasks(model: Model) -> None:
    rows = model.stream_rows()
    assert [row.worker.name for row in rows[:3]] == ["node-0-0", "node-0-1", "node-0-2"]
    assert len(rows) == WORKERS
    bars = model.bars(model.time - SECONDS - 1, model.time + 1, 100, [row.worker_index for row in rows])
    assert sum(bars.counts) == bars.tasks == model.log.total


def test_histories(model: Model) -> None:
    for name in HISTORIES:
        times, found = model.history(name)
        assert len(times) == len(found) >= SECONDS
    assert list(model.history("workers")[1]) == [WORKERS] * (SECONDS + 1)
    assert all(abs(rate - RATE) < 100 for rate in model.history("throughput")[1])
    assert len(model.history("running", since=model.time - 1.5)[0]) == 2


def test_a_graph_and_where_its_nodes_are(model: Model) -> None:
    found = model.graph(SESSIONS[0], GRAPH_NODES)
    assert found is not None
    graph, nodes = found
    assert len(nodes) == GRAPH_NODES
    assert (11, 1) in graph.edges
    states = Counter(node.state for node in nodes)
    assert states == {NodeState.SUCCEEDED: 30, NodeState.HANDED: 10, NodeState.WAITING: 20}
    assert model.graph(SESSIONS[1], 5) is None


def test_who_came_and_left(model: Model) -> None:
    assert "agent joined" in values(model, "notices", "event")
    assert "node-0-agent on node-0" in values(model, "notices", "who")


def test_an_agent_that_has_left_is_not_called_lost() -> None:
    left = records.record(Kind.AGENT_LOST, time=10**9, agent=1, first=1)
    lost = records.record(Kind.AGENT_LOST, time=2 * 10**9, agent=2)
    model = model_of(events(left, lost))
    assert values(model, "notices", "event", descending=False) == ["agent left", "agent lost"]


# ---- streams that are not as they should be --------------------------------------------------------------------------


def test_what_was_seen_is_not_counted_twice() -> None:
    model = model_of(events(ended(1, 2), ended(3)), events(ended(3), ended(4), first=1), events(ended(4), first=2))
    assert values(model, "tasks", "task", descending=False) == [1, 2, 3, 4]
    assert model.activity.missed == 0


def test_what_is_missing_is_counted_and_the_rest_is_taken() -> None:
    gap = records.record(Kind.GAP, time=0, first=5)
    model = model_of(events(ended(1)), events(ended(9), first=7), events(gap, first=8))
    assert model.activity.missed == 6 + 5
    assert values(model, "tasks", "task") == [9, 1]


def test_a_stream_that_starts_in_the_middle_has_rows_without_names() -> None:
    model = model_of(events(ended(1, agent=3, function=8, worker=2), first=1_000_000))
    (row,), _ = model.rows("tasks")
    assert row[1:5] == (1, "", "", "succeeded")
    assert model.activity.missed == 0
    name = records.name_record(
        Naming.AGENT, 3, {"session": "", "name": "late", "host": "h", "pid": 1, "workers": ["a"]}
    )
    model.apply(events(name, first=1_000_001), 2.0)
    assert model.rows("tasks")[0][0][6:8] == ("h", "late nested 2")


def test_who_looks_late_is_told_that_the_earliest_tasks_are_not_listed() -> None:
    messages = list(synthetic_messages(SECONDS, WORKERS, RATE))
    last = messages[-1]
    assert isinstance(last, Snapshot)
    assert model_of(*messages).late_text == ""
    late = model_of(last, *[message for message in messages if isinstance(message, Events)][-10:], last)
    assert late.late_text == f"{ended_count(last.tasks):,} tasks ended in all; the earliest are not listed"
    seen_all = model_of(last, *[message for message in messages if isinstance(message, Events)], last)
    assert seen_all.late_text == "", "what came after the first counts was all that there is"


def test_names_come_through_even_when_they_were_seen() -> None:
    name = records.name_record(Naming.FUNCTION, 0, {"digest": "00", "name": "late"})
    model = model_of(events(ended(1, function=0), first=50), events(name))
    assert values(model, "tasks", "function") == ["late"]


def test_tasks_that_are_queued_again_say_so() -> None:
    again = records.ended_record([1], [10], [1], [Status.PROCESSOR_DIED | records.AGAIN], time=10**9, session=0)
    assert values(model_of(events(again)), "tasks", "status") == ["processor died, again"]


@pytest.mark.parametrize(
    "bad", [b"x", b"\x00" * 48, ended(1)[:-8], records.record(Kind.NAME, time=0, body=b"{"), b"\xff" * 96]
)
def test_bytes_that_are_no_records_are_one_sentence_and_the_stream_goes_on(bad: bytes) -> None:
    model = model_of(events(ended(1)), events(bad, first=1))
    assert model.problem is not None and model.problem.startswith("some events cannot be read")
    model.apply(events(ended(2), first=2), 1.0)
    assert model.problem is None
    assert values(model, "tasks", "task") == [2, 1]


@pytest.mark.parametrize("value", [{}, {"session": 5}, {"digest": "xyz", "name": "f"}, {"workers": 7}])
@pytest.mark.parametrize("naming", list(Naming))
def test_names_that_make_no_sense_are_no_traceback(naming: Naming, value: dict[str, Any]) -> None:
    model = model_of(events(records.name_record(naming, 0, value)))
    model.apply(events(ended(2), first=1), 1.0)
    assert values(model, "tasks", "task") == [2]


def test_unknown_kinds_of_records_are_passed_over() -> None:
    assert values(model_of(events(records.record(99, time=0), ended(1))), "tasks", "task") == [1]


def test_an_agent_that_runs_tasks_without_saying_which_worker_has_a_row() -> None:
    name = records.name_record(Naming.AGENT, 0, {"session": "", "name": "a", "host": "h", "pid": 1, "workers": []})
    model = model_of(events(name, ended(1, agent=0), ended(2, agent=0, workers=[0xFFFF]), ended(3, agent=NONE)))
    assert [(row.worker.host, row.worker.name) for row in model.stream_rows()] == [("h", "(unknown)")]
    assert [row[6] for row in model.rows("tasks")[0]] == [None, "h", "h"]
    began, over = (10**9 - 10) / 1e6, 10**9 / 1e6
    assert [len(model.stream_rows(*span)) for span in ((0, began - 1), (began, over), (over + 1, over + 9))] == [
        0,
        1,
        0,
    ]


@pytest.mark.parametrize("columns", [{}, {"workers": [0xFFFF, 0xFFFF]}])
def test_tasks_that_were_cancelled_before_they_started_have_no_row_in_the_stream(columns: dict[str, Any]) -> None:
    name = records.name_record(Naming.AGENT, 0, {"session": "", "name": "a", "host": "h", "pid": 1, "workers": ["w"]})
    statuses = [Status.CANCELLED, Status.CANCELLED]
    cancelled = records.ended_record([1, 2], [0, 0], [1, 1], statuses, time=10**9, session=0, agent=0, **columns)
    model = model_of(events(name, cancelled))
    assert [row.name for row in model.stream_rows()] == ["w"]
    assert [row[5:8] for row in model.rows("tasks")[0]] == [(None, "h", None)] * 2


@pytest.mark.parametrize(
    ("status", "duration", "worker", "shown"),
    [
        (Status.SUCCESS, 0, 0, ("0us", "h", "w")),  # less than a microsecond
        (Status.CANCELLED, 2_500_000, 0, ("2.5s", "h", "w")),
        (Status.CANCELLED, 2_500_000, NONE, ("2.5s", "h", "(unknown)")),
        (Status.CANCELLED, 0, NONE, ("-", "h", "-")),
        (Status.PROCESSOR_DIED, 0, 0, ("-", "h", "w")),  # one of several calls at a time
    ],
)
def test_what_is_not_known_of_an_execution_is_shown_as_such(
    status: Status, duration: int, worker: int, shown: tuple[str, str, str]
) -> None:
    name = records.name_record(Naming.AGENT, 0, {"session": "", "name": "a", "host": "h", "pid": 1, "workers": ["w"]})
    over = records.ended_record(
        [1], [duration], [1], [status], time=10**9, session=0, function=0, agent=0, worker=worker
    )
    model = model_of(events(name, over))
    (row,) = model.rows("tasks")[0]
    columns = TABLES["tasks"].columns[5:8]
    assert tuple(format_value(column.kind, value) for column, value in zip(columns, row[5:8], strict=True)) == shown
    assert cell_link("tasks", "worker", row) == (EntityLink(WORKER, ("h", "w")) if shown[2] == "w" else None)


def test_the_end_of_a_task_that_was_at_no_worker_is_shown_without_one() -> None:
    over = records.ended_record([1], [0], [2], [Status.EXCEPTION], time=10**9, session=0, function=0)
    model = model_of(
        events(records.name_record(Naming.SESSION, 0, {"session": SESSIONS[0].hex(), "host": "", "pid": 1}), over)
    )
    (row,) = model.rows("tasks")[0]
    assert row[5:8] == (None, None, None)
    assert [cell_link("tasks", name, row) for name in ("host", "worker")] == [None, None]
    page = page_of(model, EntityLink(TASK, (row[2], "1")))
    assert page is not None
    assert {fact.name: fact.text for fact in page.facts}["ran"] == "-"
    assert not {"host", "worker"} & {fact.name for fact in page.facts}


def test_workers_have_a_row_in_the_stream_when_the_name_of_their_agent_is_known() -> None:
    model = model_of(events(ended(1, agent=0, worker=0), ended(2, agent=0)))
    assert len(model.activity.workers) == 2 and model.stream_rows() == []
    name = records.name_record(Naming.AGENT, 0, {"session": "", "name": "a", "host": "h", "pid": 1, "workers": ["w"]})
    model.apply(events(name, first=2), 1.0)
    assert [(row.worker.host, row.name) for row in model.stream_rows()] == [("h", "w"), ("h", "(unknown)")]
    assert [row[6:8] for row in model.rows("tasks")[0]] == [("h", "(unknown)"), ("h", "w")]


def test_another_epoch_starts_again(model: Model) -> None:
    fresh = model_of()
    last = list(synthetic_messages(0.1))[-1]
    assert isinstance(last, Snapshot)
    fresh.apply(events(ended(5), epoch=99), 50.0)
    assert fresh.restarted_at == 50.0
    assert fresh.rows("tasks")[1] == 1
    assert fresh.rows("failures") == ([], 0)
    fresh.apply(replace(last, scheduler=replace(last.scheduler, epoch=99)), 51.0)
    assert fresh.restarted_at == 50.0
    assert fresh.rows("tasks")[1] == 1


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_are_never_a_traceback(seed: int) -> None:
    random, model = Random(seed), Model(0.0)
    for message in synthetic_messages(1, 12, 200):
        if isinstance(message, Events) and message.records:
            damaged = bytearray(message.records)
            for _ in range(random.randrange(1, 20)):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            message = replace(message, records=bytes(damaged[: random.randrange(len(damaged) + 1)]))
        model.apply(message, 1.0)
        model.graph(SESSIONS[0], GRAPH_NODES)
    for name in TABLES:
        model.rows(name, "a", limit=10)
    model.bars(0, 2e9, 50, [row.worker_index for row in model.stream_rows()])


# ---- size ------------------------------------------------------------------------------------------------------------


def test_a_second_of_a_thousand_workers_costs_far_less_than_a_second() -> None:
    stream = list(synthetic_messages(2, 1000, 20_000))
    model = Model(0.0)
    began = time.process_time()
    for message in stream:
        model.apply(message, 1.0)
    for name in TABLES:
        model.rows(name, limit=100)
    assert time.process_time() - began < 1.0  # about 0.06 on a slow machine
    assert len(model.worker_rows) == 1000
