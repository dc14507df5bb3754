"""The largest objects, as snapshots name them for monitors."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    DEFAULT_OPTIONS,
    ObjectKey,
    ObjectRelease,
    ObjectStored,
    Status,
    StoreAttached,
    Tasks,
)
from scaler_protocol.monitor.messages import ObjectStatus
from scaler_scheduler.core import object_reports
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import MessageMemory, RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.stored_objects import StoredObject
from scaler_scheduler.core.task_columns import TaskColumns
from scaler_scheduler.core.totals import Totals
from tests.unit.scheduler.playbook import FUNCTION, Peer, Playbook, definition, results, tasks
from tests.unit.scheduler.test_graphs import chain, done, nodes

STORE = b"s" * 16
MEGABYTE = 10**6
LARGE = MEGABYTE.to_bytes(8, "little") + STORE


def objects_of(book: Playbook) -> tuple[ObjectStatus, ...]:
    return book.core.snapshot(book.now).objects


def reading(client: Peer, first: int, keys: list[list[ObjectKey]]) -> Tasks:
    """Tasks first, first + 1, ... with these objects as arguments."""
    run = TaskRun(client.session, FUNCTION, "f", b"", first, 1, (), DEFAULT_OPTIONS, keys)
    return Tasks([run], [definition()])


def test_what_clients_have_sent_has_a_place_and_readers() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    agent.says(StoreAttached(STORE, "tcp://10.0.0.1:7"))
    small, large = ObjectKey(client.session, 2**64 - 1), ObjectKey(client.session, 2**63 + 2**62 - 1)
    client.says(ObjectStored(small, 50_000, STORE), ObjectStored(large, MEGABYTE, STORE))
    client.says(reading(client, 1, [[small, small], [large, large], [large, large]]))
    agent.says(results(client, 1))
    first, second = objects_of(book)
    assert (first.number, first.size_bytes, first.readers, first.reader_tasks) == (large.number, MEGABYTE, 2, "2 3")
    assert (first.copies, first.hosts, first.digest) == (1, "host", b"")
    assert (second.number, second.readers, second.reader_tasks) == (small.number, 0, "")


def test_a_large_result_is_there_until_its_client_has_it() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 5, 1))
    agent.says(results(client, (5, 1, Status.SUCCESS_LARGE, LARGE)))
    (found,) = objects_of(book)
    assert (found.number, found.size_bytes, found.hosts, found.readers) == (5, MEGABYTE, "host", 0)
    client.says(ObjectRelease((ObjectKey(client.session, 5),)))
    assert objects_of(book) == ()


def test_a_large_value_of_a_graph_names_the_nodes_that_need_it() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(nodes(client, 1, [[]], 4))
    client.says(nodes(client, 2, [[1], [1]], 4))
    client.says(nodes(client, 4, [[2, 3]], 4, True))
    agent.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=LARGE))
    (found,) = objects_of(book)
    assert (found.number, found.readers, found.reader_tasks) == (1, 2, "2 3")
    assert MEGABYTE <= found.size_bytes < MEGABYTE + 1024
    agent.says(done(client, 2))
    (found,) = objects_of(book)
    assert (found.readers, found.reader_tasks) == (1, "3")


def test_small_values_are_not_named() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    for message in chain(client, 3):
        client.says(message)
    agent.says(done(client, 1))
    assert objects_of(book) == ()


def test_what_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOKED_LIMIT", "SLOTS_LIMIT", "SHOWN_LIMIT", "READERS_LIMIT"):
        monkeypatch.setattr(object_reports, name, 3)
    book = Playbook()
    client = book.client()
    book.agent(slots=1)
    keys = [ObjectKey(client.session, 2**64 - 1 - place) for place in range(10)]
    client.says(*(ObjectStored(key, 1000 + key.number % 7, STORE) for key in keys))
    client.says(reading(client, 1, [[keys[0]]] * 50))
    found = objects_of(book)
    assert len(found) == 3 and sum(each.readers for each in found) == 3


def test_where_objects_are_is_looked_up_for_those_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reports, "SHOWN_LIMIT", 3)
    looked_up: list[int] = []
    hosts_of = object_reports._hosts_of

    def noted(state: SchedulerState, stored: StoredObject) -> list[str]:
        looked_up.append(stored.size)
        return hosts_of(state, stored)

    monkeypatch.setattr(object_reports, "_hosts_of", noted)
    book = Playbook()
    client = book.client()
    client.says(*(ObjectStored(ObjectKey(client.session, 2**64 - size), size, STORE) for size in range(1, 50)))
    assert [each.size_bytes for each in objects_of(book)] == looked_up == [49, 48, 47]


def test_the_results_of_all_clients_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reports, "LOOKED_LIMIT", 3)
    book = Playbook()
    agent, clients = book.agent(slots=8), [book.client("one"), book.client("two")]
    for client in clients:
        client.says(tasks(client, 1, 2))
        agent.says(results(client, *[(task, 1, Status.SUCCESS_LARGE, LARGE) for task in (1, 2)]))
    assert len(objects_of(book)) == 3


def test_a_task_with_more_arguments_than_are_looked_at_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reports, "SLOTS_LIMIT", 3)
    book = Playbook()
    client = book.client()
    wide, narrow = ObjectKey(client.session, 2**64 - 1), ObjectKey(client.session, 2**64 - 2)
    client.says(ObjectStored(wide, MEGABYTE, STORE), ObjectStored(narrow, MEGABYTE, STORE))
    client.says(reading(client, 1, [[wide] * 4]), reading(client, 2, [[narrow] * 2]))
    assert {each.number: each.readers for each in objects_of(book)} == {wide.number: 0, narrow.number: 1}


def test_a_graph_with_more_nodes_than_are_looked_at_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reports, "NODES_LIMIT", 2 * object_reports.GRAPH_NODES + 5)
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    client.says(*chain(client, 100), nodes(client, 101, [[]], 102), nodes(client, 102, [[101]], 102, True))
    agent.says(done(client, 1, payload=LARGE, status=Status.SUCCESS_LARGE))
    agent.says(done(client, 101, payload=LARGE, status=Status.SUCCESS_LARGE))
    assert [each.number for each in objects_of(book)] == [101]


def test_a_graph_without_large_values_takes_no_room_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reports, "NODES_LIMIT", 2 * object_reports.GRAPH_NODES + 8)
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    client.says(*chain(client, 4), nodes(client, 5, [[]], 6), nodes(client, 6, [[5]], 6, True))
    agent.says(done(client, 5, payload=LARGE, status=Status.SUCCESS_LARGE))
    assert [each.number for each in objects_of(book)] == [5]


def test_runs_without_objects_hide_none_that_needs_some() -> None:
    session, function, queue = b"c" * 16, FunctionLoad(FUNCTION, "f"), QueueClass((), 0)
    columns = TaskColumns(session, Totals())

    def enter(task: int, slot: bytes | ObjectKey) -> RunRecord:
        run = TaskRun(session, FUNCTION, "f", b"", task, 1, (), DEFAULT_OPTIONS, [[slot]])
        record = RunRecord(run, function, queue, MessageMemory(1))
        assert columns.append(record, TaskState.QUEUED)
        return record

    for task in range(1, 100_002):
        enter(task, b"")
    readers = [enter(task, ObjectKey(session, 2**64 - 1)) for task in (100_002, 100_003)]
    assert columns.runs_with_uploads(10) == readers
    assert columns.runs_with_uploads(1) == readers[:1]
