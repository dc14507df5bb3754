"""Graphs on one host: nodes wait, follow each other to a worker process, and keep their values."""

from __future__ import annotations

import pickle

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    AgentAttach,
    Cancel,
    ObjectChunk,
    ObjectKey,
    ObjectMissing,
    ObjectRequest,
    Results,
    Status,
    TaskColumn,
    TaskOptions,
    Withdraw,
    Withdrawn,
)
from scaler_worker.core.effects import DispatchTasks, DropObjects
from tests.unit.worker.playbook import CLIENT, Stage, definition

LAST = 999


def add(*numbers: int) -> int:
    return sum(numbers) + 1


def fail(*numbers: int) -> int:
    raise ValueError("no")


def large(*numbers: int) -> bytes:
    return bytes(100_000)


def length(*values: bytes) -> int:
    return sum(map(len, values))


def key(task: int) -> ObjectKey:
    return ObjectKey(CLIENT, task)


def node(task: int, *inputs: int, function=add, target: bool = False, attempt: int = 1, **options) -> TaskRun:
    known = definition(function)
    options = TaskOptions(graph=LAST, intermediate=not target, **options)
    slots = [key(each) for each in inputs]
    return TaskRun(CLIENT, known.digest, known.name, b"", task, attempt, (), options, [slots])


def chain(first: int, count: int) -> list[TaskRun]:
    known = definition(add)
    middle = [[key(task - 1)] for task in range(first + 1, first + count)]
    options = TaskOptions(graph=LAST, intermediate=True)
    return [
        node(first),
        TaskRun(CLIENT, known.digest, known.name, b"", first + 1, 1, (), options, middle),
    ]


def warm(stage: Stage, *functions) -> None:
    """Let the agent learn that these functions are short."""
    for number, function in enumerate(functions):
        stage.give(node(900 + number, function=function), function=function)
        stage.run_all()
        stage.say(Cancel((TaskColumn(CLIENT, (900 + number,), (1,)),)))
    stage.sent.clear()
    stage.effects.clear()


def given_back(stage: Stage) -> list[int]:
    return [task for body in stage.bodies(Withdrawn) for column in body.columns for task in column.tasks]


def statuses(stage: Stage) -> dict[int, int]:
    return {task: status for task, (status, _) in stage.results().items()}


def free(stage: Stage, *tasks: int, attempt: int = 1) -> None:
    stage.say(Cancel((TaskColumn(CLIENT, tasks, (attempt,) * len(tasks)),)))


def test_an_intermediate_is_reported_without_its_value_and_kept() -> None:
    stage = Stage()
    stage.give(node(1), function=add)
    stage.run_all()
    assert stage.results() == {1: (Status.SUCCESS, b"")}
    stage.say(ObjectRequest(key(1)))
    (chunk,) = stage.bodies(ObjectChunk)
    assert pickle.loads(chunk.data) == 1
    free(stage, 1)
    assert not stage.core.state.nodes
    stage.say(ObjectRequest(key(1)))
    assert stage.bodies(ObjectMissing)


def test_a_target_is_reported_with_its_value_and_kept() -> None:
    stage = Stage()
    stage.give(node(1, target=True), function=add)
    stage.run_all()
    assert pickle.loads(stage.results()[1][1]) == 1
    assert stage.core.state.nodes


def test_a_chain_is_one_dispatch() -> None:
    stage = Stage()
    warm(stage, add)
    stage.give(*chain(1, 50), node(51, 50, target=True), function=add)
    assert stage.count(DispatchTasks) == 1
    stage.run_all()
    assert pickle.loads(stage.results()[51][1]) == 51
    assert statuses(stage) == dict.fromkeys(range(1, 52), Status.SUCCESS)


def test_inputs_on_two_worker_processes_are_waited_for() -> None:
    stage = Stage(workers=2)
    stage.give(node(1), node(2), node(3, 1, 2, 1, target=True), function=add)
    busy = [number for number, each in stage.processes.items() if each.pending]
    assert len(busy) == 2
    stage.run(busy[0])
    assert 3 not in stage.results()
    stage.run_all()
    assert pickle.loads(stage.results()[3][1]) == 4


@pytest.mark.parametrize(("count", "seconds", "is_shared"), [(200, 5e-6, False), (30, 50e-6, True)])
def test_nodes_are_shared_if_they_take_longer_than_moving_them(count: int, seconds: float, is_shared: bool) -> None:
    stage = Stage(workers=2)
    stage.core.slots.durations.add(definition(add).digest, 1, seconds)
    known = definition(add)
    nodes = TaskRun(CLIENT, known.digest, known.name, b"", 1, 1, (), TaskOptions(graph=LAST), [[]] * count)
    stage.give(nodes, function=add)
    assert all(process.pending for process in stage.processes.values()) is is_shared
    stage.run_all()
    assert statuses(stage) == dict.fromkeys(range(1, count + 1), Status.SUCCESS)


def test_large_values_stay_in_memory_of_the_host() -> None:
    stage = Stage()
    stage.give(node(1, function=large), function=large)
    stage.run_all()
    stage.give(node(2, 1, 1, function=length, target=True), function=length)
    stage.run_all()
    assert pickle.loads(stage.results()[2][1]) == 200_000
    free(stage, 1, 2)
    assert not stage.store.objects


def test_a_value_of_another_host_is_fetched_and_freed() -> None:
    stage = Stage()
    stage.give(node(2, 1, target=True), function=add)
    assert stage.bodies(ObjectRequest) == [ObjectRequest(key(1))]
    data = pickle.dumps(5)
    stage.say(ObjectChunk(key(1), len(data), 0, data))
    stage.run_all()
    assert pickle.loads(stage.results()[2][1]) == 6
    free(stage, 1, attempt=0)
    free(stage, 2)
    assert not stage.core.state.nodes and not stage.store.objects


def test_a_value_that_is_nowhere_sends_its_dependants_back() -> None:
    stage = Stage()
    stage.give(node(2, 1), node(3, 2, target=True), function=add)
    stage.say(ObjectMissing(key(1), "nowhere"))
    assert sorted(given_back(stage)) == [2, 3]
    assert not stage.core.state.nodes


@pytest.mark.parametrize("workers", [1, 2])
def test_what_needs_a_failed_node_goes_back(workers: int) -> None:
    stage = Stage(workers=workers)
    warm(stage, add, fail)
    stage.give(node(1, function=fail), function=fail)
    stage.give(node(2, 1), node(3, 2), node(4, 3, target=True), function=add)
    stage.run_all()
    assert statuses(stage) == {1: Status.EXCEPTION}
    assert sorted(given_back(stage)) == [2, 3, 4]
    assert not stage.core.state.nodes and stage.core.slots.is_idle


def test_a_worker_process_dies_in_the_middle_of_a_chain() -> None:
    stage = Stage(workers=1)
    warm(stage, add)
    stage.give(*chain(1, 10), function=add)
    (number,) = [number for number, each in stage.processes.items() if each.pending]
    stage.die(number, signal="SIGKILL")
    stage.run_all()
    assert statuses(stage) == dict.fromkeys(range(1, 11), Status.SUCCESS)


def test_cancelled_before_they_run() -> None:
    stage = Stage()
    stage.give(node(1), node(2, 1), node(3, 2, target=True), function=add)
    stage.say(Cancel((TaskColumn(CLIENT, (1, 2, 3), (1, 1, 1)),)))
    stage.run_all()
    ended = {task for task, status in statuses(stage).items() if status == Status.CANCELLED}
    assert ended | set(given_back(stage)) == {1, 2, 3}
    assert not stage.core.state.nodes and stage.core.slots.is_idle


def test_withdrawn_nodes_take_along_what_waits_for_them() -> None:
    stage = Stage(workers=1)
    stage.give(*[node(task) for task in range(1, 6)], node(6, 5, target=True), function=add)
    stage.say(Withdraw(2))
    assert 5 in given_back(stage) and 6 in given_back(stage)
    stage.run_all()
    assert set(statuses(stage)) | set(given_back(stage)) == set(range(1, 7))


def test_a_new_scheduler_hears_of_values_and_of_what_waits() -> None:
    stage = Stage()
    stage.give(node(1), function=add)
    stage.run_all()
    stage.give(node(3, 1, 2), function=add)
    stage.sent.clear()
    stage.connect(epoch=2)
    (attach,) = stage.bodies(AgentAttach)
    assert [column.tasks for column in attach.holds] == [(3,)]
    rows = [row[:4] for body in stage.bodies(Results) for run in body.runs for row in run.rows()]
    assert (1, 1, Status.SUCCESS, b"") in [(*row[:3], bytes(row[3])) for row in rows]


def test_a_new_attempt_replaces_what_is_left_of_an_old_one() -> None:
    stage = Stage()
    stage.give(node(1, function=large), function=large)
    stage.run_all()
    stage.give(node(1, attempt=2), function=add)
    stage.run_all()
    assert not stage.store.objects
    free(stage, 1, attempt=1)
    assert stage.core.state.nodes
    free(stage, 1, attempt=2)
    assert not stage.core.state.nodes


@pytest.mark.parametrize("how", ["freed", "made again", "store lost"])
def test_a_worker_process_keeps_its_values_no_longer_than_the_host_s_store(how: str) -> None:
    stage = Stage(1)
    stage.processes[0].keep_large = lambda named, sequence, payload: (bytes(24), None)  # type: ignore[method-assign]
    stage.give(node(1, function=large), function=large)
    stage.run_all()
    if how == "freed":
        free(stage, 1)
    elif how == "made again":
        stage.give(node(1, attempt=2, function=large), function=large)
    else:
        stage.core.on_store_lost(stage.now)
        stage.turn()
    assert [(each.number, each.keys) for each in stage.effects if isinstance(each, DropObjects)] == [(0, [key(1)])]


def test_a_node_that_waits_already_and_comes_again_replaces_the_first() -> None:
    """Only a scheduler that errs says so. What waited for the first one leaves, and the counts stay right."""
    stage = Stage()
    stage.give(node(2, 1), node(3, 2), function=add)
    stage.give(node(2), function=add)
    stage.core.check()
    assert given_back(stage) == [3]
    stage.run_all()
    assert statuses(stage) == {2: Status.SUCCESS}


def test_a_whole_chain_that_waits_comes_again() -> None:
    stage = Stage()
    for _ in range(2):
        stage.give(*(node(number + 1, number) for number in (1, 2, 3)), function=add)
        stage.core.check()


def test_a_node_that_comes_again_while_it_runs_counts_as_ended_once() -> None:
    """With an input that it lacked not at first: it waits, and its value is there all the same."""
    stage = Stage()
    stage.give(node(2), function=add)
    stage.give(node(2, 1), function=add)
    stage.run_all()
    stage.core.check()
    assert statuses(stage) == {2: Status.SUCCESS}
    assert stage.core.state.nodes.waiting == 0
