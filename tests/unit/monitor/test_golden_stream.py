"""Streams recorded from clusters, one of each version of the stream: what they say stays what it was.

``stream-1.1``: two workers; a map of 2,000 tasks, 6 tasks that raise one of 3 errors, a task that ends its process, 3
slow ones, a graph of 3 nodes, a task that no worker can run until it is cancelled.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.messages import Events, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import AGAIN, Kind, Naming, Record
from scaler_protocol.monitor.replay import Replay

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot | Events]:
    folder = tmp_path_factory.mktemp("log")
    shutil.copy(GOLDEN / "stream-1.1.events", folder)
    replay = Replay(folder)
    messages = list(replay.messages(replay.start, replay.end))
    assert not replay.problems
    replay.close()
    return messages


@pytest.fixture(scope="module")
def found(stream: list[Snapshot | Events]) -> list[Record]:
    parts = [message.records for message in stream if isinstance(message, Events)]
    return list(records.records(b"".join(parts)))


def test_records_are_numbered_without_a_gap(stream: list[Snapshot | Events]) -> None:
    batches = [(message.first, message.count) for message in stream if isinstance(message, Events) and message.count]
    assert all(first + count == next_ for (first, count), (next_, _) in zip(batches, batches[1:], strict=False))


def test_what_happened(found: list[Record]) -> None:
    assert Counter(Kind(record.kind).name for record in found) == {
        "ENDED": 25, "HANDED": 15, "SUBMITTED": 13, "NAME": 7, "FAILED": 7, "GRAPH": 3, "AGENT_JOINED": 1,
        "CLIENT_JOINED": 1, "CLIENT_LEFT": 1, "AGENT_LOST": 1,
    }  # fmt: skip


def test_every_task_ended_once(found: list[Record]) -> None:
    rows = [
        (task, status)
        for record in found
        if record.kind == Kind.ENDED
        for task, status in zip(
            records.ended_columns(record).tasks, records.ended_columns(record).statuses, strict=True
        )
    ]
    ended = [(task, status) for task, status in rows if not status & AGAIN]
    assert len({task for task, _ in ended}) == len(ended)
    assert Counter(Status(status).name for _, status in ended) == {
        "SUCCESS": 2006, "EXCEPTION": 6, "PROCESSOR_DIED": 1, "CANCELLED": 1,
    }  # fmt: skip


def test_names(found: list[Record]) -> None:
    names = {(each.flags, each.first): records.name_of(each) for each in found if each.kind == Kind.NAME}
    functions = [name["name"] for (naming, _), name in names.items() if naming == Naming.FUNCTION]
    assert functions == ["square", "raise_value_error", "_exit", "sleep_and_return", "add"]
    (agent,) = (name for (naming, _), name in names.items() if naming == Naming.AGENT)
    assert len(agent["workers"]) == 2


def test_executions_say_where_and_when(found: list[Record]) -> None:
    at_workers = [each for each in found if each.kind == Kind.ENDED and each.worker != records.NONE]
    assert {each.worker for each in at_workers} == {0, 1}
    for record in at_workers:
        ages = records.ended_columns(record).ages
        assert ages is not None and max(ages) < 1_000_000


def test_why_tasks_waited(stream: list[Snapshot | Events]) -> None:
    waits = {wait.reason for message in stream if isinstance(message, Snapshot) for wait in message.waits}
    assert waits == {
        "Waits for results of other tasks of its graph.",
        "No connected worker has the capabilities it needs (gpu=1).",
    }


def test_totals_of_the_model_are_the_truth(stream: list[Snapshot | Events]) -> None:
    model = Model(0.0)
    for number, message in enumerate(stream):
        model.apply(message, float(number))
    assert model.snapshot is not None and model.problem is None
    tasks = model.snapshot.tasks
    assert (tasks.success, tasks.failed, tasks.canceled, tasks.unassigned, tasks.running) == (2006, 7, 1, 0, 0)
    assert model.activity.missed == 0
