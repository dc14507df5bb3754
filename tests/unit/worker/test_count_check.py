"""Counts of an agent that are wrong are found, corrected and reported."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.messages import Status, Tasks
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.count_check import RECOUNT_SECONDS
from scaler_worker.core.nodes import Nodes
from scaler_worker.symphony.core.sent import SentTasks
from tests.unit.worker.playbook import Stage, definition, nothing, run_of
from tests.unit.worker.test_graph_nodes import add, node


def warnings(stage: Stage) -> list[str]:
    logs = [effect.text for effect in stage.effects if isinstance(effect, Log)]
    return [text for text in logs if "has been corrected" in text]


def report(stage: Stage, later_seconds: float = 0.0) -> None:
    stage.now += later_seconds
    stage.core.report(1.0, 1, 1, (), stage.now)
    stage.turn()


def test_an_agent_that_seems_to_have_tasks_is_idle_again() -> None:
    stage = Stage()
    stage.core.state.queue.count += 2
    stage.core.state.nodes.waiting += 3
    assert not stage.core.slots.is_idle
    report(stage)
    assert stage.core.slots.is_idle
    assert "3 nodes wait, 0 counted; 2 tasks queued, 0 counted" in warnings(stage)[0]


def test_a_worker_process_that_was_in_no_group_gets_tasks_again() -> None:
    stage = Stage(workers=1)
    stage.core.slots._roster.idle.clear()
    stage.core.on_message(SCHEDULER, stage.link.wrap(Tasks([run_of(2)], [definition(nothing)])), stage.now)
    stage.core.take_effects(stage.now)
    assert not stage.processes[0].pending
    report(stage)
    stage.run_all()
    assert stage.results().keys() == {0, 1} and "w0 is wrongly in or not in: idle" in warnings(stage)[0]


def test_a_node_that_was_never_woken_runs() -> None:
    nodes = Nodes()
    source, follower = node(1, function=add), node(2, 1, function=add)
    nodes.add(source, False)
    nodes.add(follower, False)
    with pytest.raises(TypeError):
        nodes.harvested([(source, 1, Status.SUCCESS, b""), (source, 1, None, b"")])  # type: ignore[list-item]
    assert nodes.wrong_counts() == ["node 2 waits, but nothing is missing"]
    wrong, ready = nodes.correct_counts()
    assert wrong == ["node 2 waits, but nothing is missing"] and names(ready) == [2]
    assert nodes.wrong_counts() == [] and nodes.waiting == 0
    nodes.check()


def names(runs: list[TaskRun]) -> list[int]:
    return [run.first_task + index for run in runs for index in range(run.count)]


def test_depths_of_tasks_in_symphony_are_counted_again() -> None:
    sent = SentTasks(2)
    sent.add(1, run_of(1), None)
    sent._live_by_depth[7] = 1
    assert sent.deepest == 7
    assert len(sent.correct_counts()) == 1 and sent.deepest == 0
    sent.check()


def test_right_counts_are_not_reported() -> None:
    stage = Stage()
    stage.give(node(1), node(2, 1), node(3, 1, 2), function=add)
    stage.give(run_of(50, first=10))
    while any(process.pending for process in stage.processes.values()):
        stage.pass_time(RECOUNT_SECONDS)
        report(stage)
        stage.run(next(number for number, each in stage.processes.items() if each.pending))
    report(stage)
    assert not warnings(stage)


def test_counts_are_not_compared_with_each_report() -> None:
    stage = Stage()
    report(stage)
    stage.core.state.queue.count = 1
    stage.core.report(1.0, 1, 1, (), stage.now + RECOUNT_SECONDS / 2)
    assert stage.core.state.queue.count == 1
    report(stage, RECOUNT_SECONDS)
    assert stage.core.state.queue.count == 0
