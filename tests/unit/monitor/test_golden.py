"""Today's model, on what clusters of earlier releases told their monitors."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from scaler_protocol.monitor.graphs import NodeState
from scaler_protocol.monitor.model import Model, ended_count
from scaler_protocol.monitor.replay import Replay
from tests.unit.monitor.golden import FAILURES, RECORDED, SQUARES


@pytest.fixture(params=sorted(RECORDED.iterdir()), ids=lambda path: path.stem)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    shutil.copy(request.param, tmp_path)
    replay, played = Replay(tmp_path), Model(0.0)
    for message in replay.messages(replay.start, replay.end):
        played.apply(message, message.time)
        assert played.problem is None
    assert not replay.problems
    replay.close()
    return played


def test_counts_and_the_log_are_the_truth(model: Model) -> None:
    assert model.snapshot is not None
    tasks = model.snapshot.tasks
    assert (tasks.success, tasks.failed, tasks.canceled) == (SQUARES + 3, FAILURES + 1, 1)
    assert model.log.ended == ended_count(tasks)
    rows, _ = model.rows("tasks")
    calls = Counter((row[3], row[4]) for row in rows)
    assert calls == {
        ("square", "succeeded"): SQUARES + 2,
        ("add", "succeeded"): 1,
        ("divmod", "exception"): FAILURES,
        ("exit_process", "processor died, again"): 3,
        ("exit_process", "processor died"): 1,
        ("sleep_and_return", "cancelled"): 1,
    }
    assert {row[7] for row in rows if row[4] == "succeeded"} <= {"first", "second"}


def test_failures_and_their_causes(model: Model) -> None:
    causes = {(row[2], row[3]): row for row in model.rows("failures")[0]}
    assert set(causes) == {
        ("ZeroDivisionError", "integer division or modulo by zero"),
        ("ProcessorDiedError", "exit code 7"),
    }
    death = model.failure_details(causes["ProcessorDiedError", "exit code 7"][-1])
    assert "exit code: 7" in death and "pid: " in death


def test_the_graph_and_its_end(model: Model) -> None:
    (graph,) = model.activity.graphs.all()
    found = model.graph(model.activity.session_of(graph.session), graph.graph)
    assert found is not None
    assert [node.state for node in found[1]] == [NodeState.SUCCEEDED] * 3
    last = graph.graph
    assert found[0].edges == [(last, last - 2), (last, last - 1)]


def test_the_stream_has_a_row_for_each_worker(model: Model) -> None:
    rows = model.stream_rows()
    assert [row.worker.name for row in rows][:2] == ["first", "second"]
    bars = model.bars(model.time - 60, model.time + 1, 200, [row.worker_index for row in rows])
    assert sum(bars.counts) >= SQUARES


def test_histories_cover_the_recording(model: Model) -> None:
    times, rates = model.history("throughput")
    assert len(times) >= 2
    assert max(rates) > 0
    assert max(model.history("workers")[1]) == 2
