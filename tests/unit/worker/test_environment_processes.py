"""Which worker processes run the tasks of which environment."""

from __future__ import annotations

import pickle
import random
import time
from typing import Any

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import FunctionDefinition, ObjectKey, ObjectRelease, TaskOptions, Tasks
from scaler_worker.core.effects import DispatchTasks, Kill
from scaler_worker.core.environment_processes import RETIRE_AFTER_SECONDS
from tests.unit.worker.playbook import CLIENT, Stage, definition, nothing, run_of

RED, BLUE = '{"variables":{"COLOR":"red"}}', '{"variables":{"COLOR":"blue"}}'
NAMES = {RED: b"R" * 16, BLUE: b"B" * 16, "": b""}


def other(*arguments: Any) -> None:
    return None


def slow(*arguments: Any) -> None:
    time.sleep(0.003)


def run_in(environment: str, count: int = 1, *, first: int = 1, options: TaskOptions | None = None) -> TaskRun:
    """Tasks of the client of this environment."""
    serializer = NAMES[environment]
    function, slots = definition(nothing), [[pickle.dumps(0)] for _ in range(count)]
    known = function.digest, function.name, serializer, first, 1, (), options or TaskOptions(), slots
    return TaskRun(serializer or CLIENT, *known)


def give(stage: Stage, *runs: TaskRun) -> None:
    serializers = [FunctionDefinition(name, "s", b"pickle", 6, text) for text, name in NAMES.items() if name]
    stage.say(Tasks(list(runs), [definition(nothing), definition(other), definition(slow)], serializers))


def environment_of(stage: Stage, run: TaskRun) -> str:
    return stage.core.state.queue.environment_of(run)


def dispatched(stage: Stage) -> list[tuple[int, str]]:
    """Process and environment of each dispatch, in order."""
    return [
        (effect.number, environment_of(stage, run))
        for effect in stage.effects
        if isinstance(effect, DispatchTasks)
        for run in effect.tasks.runs
    ]


def killed(stage: Stage) -> list[int]:
    return [effect.number for effect in stage.effects if isinstance(effect, Kill)]


def bury(stage: Stage) -> None:
    """Processes whose end was asked for end, and those that were asked for start."""
    for number in killed(stage):
        if number in stage.processes:
            stage.die(number)
    stage.ready()


def test_a_process_runs_tasks_of_one_environment() -> None:
    stage = Stage(2)
    give(stage, run_of(1, first=1))
    stage.run_all()
    give(stage, run_in(RED))
    stage.run_all()
    give(stage, run_of(1, first=2), run_in(RED, first=2))
    stage.run_all()
    assert dispatched(stage) == [(0, ""), (1, RED), (0, ""), (1, RED)]


def test_more_processes_than_slots_exist_but_no_more_are_busy() -> None:
    stage = Stage(1)
    give(stage, run_of(1, first=1))
    give(stage, run_in(RED))
    stage.ready()
    assert dispatched(stage) == [(0, "")]
    stage.run_all()
    stage.ready()
    assert dispatched(stage) == [(0, ""), (1, RED)] and not killed(stage)
    give(stage, run_of(1, first=2))
    assert len(dispatched(stage)) == 2
    stage.run_all()
    assert dispatched(stage)[2] == (0, "")


def test_environments_take_turns() -> None:
    """The process of one is not given more while the next tasks are those of another."""
    stage = Stage(1)
    give(stage, run_of(5, first=1), run_in(RED, 5))
    stage.ready()
    for _ in range(20):
        stage.run_all()
        stage.ready()
    order = [environment for _, environment in dispatched(stage)]
    assert len(stage.bodies(Tasks)) == 0 and order.count("") >= 2 and order.index(RED) < 3
    assert stage.core.slots.is_idle


def test_a_process_with_devices_is_replaced() -> None:
    stage = Stage(1, fixed_slots=True)
    give(stage, run_of(1, first=1))
    stage.run_all()
    give(stage, run_in(RED))
    assert killed(stage) == [0]
    bury(stage)
    assert dispatched(stage)[-1] == (1, RED)
    assert stage.core.slots.processes[1].slot == 0


def test_with_devices_no_environment_waits_for_ever() -> None:
    """Each holds the only process for a second."""
    stage = Stage(1, fixed_slots=True)
    give(stage, run_in(RED, 1))
    for number in range(2, 40):
        give(stage, run_in(RED, first=number))
        if number == 2:
            give(stage, run_in(BLUE))
        stage.run_all()
        stage.pass_time(0.1)
        bury(stage)
    assert (1, BLUE) in dispatched(stage)
    assert len(killed(stage)) <= 4


def test_the_worker_of_a_slot_is_the_process_that_runs() -> None:
    stage = Stage(1)
    give(stage, run_of(1, first=1))
    stage.run_all()
    give(stage, run_in(RED))
    stage.ready()
    processes = stage.core.slots.processes
    assert (processes[1].slot, processes[1].name, processes[0].slot) == (0, "w0", None)


def test_tasks_are_stolen_only_for_their_environment() -> None:
    stage = Stage(2)
    give(stage, run_of(2, first=3, function=other))
    stage.run_all()
    give(stage, run_in(RED, 2))
    assert not [environment for _, environment in dispatched(stage) if environment]
    process, another = sorted(stage.processes)[2:]
    for number in (process, another):
        started = stage.processes[number]
        stage.core.on_worker_process_started(number, started.board, 1000 + number, stage.now)
        stage.core.on_worker_process_ready(number, stage.now)
        stage.turn()
    assert {number for number, environment in dispatched(stage) if environment == RED} == {process, another}
    stage.run_all()
    assert len(stage.results()) == 4


def test_idle_processes_end_when_no_client_needs_their_environment() -> None:
    stage = Stage(1)
    give(stage, run_in(RED))
    stage.run_all()
    stage.pass_time(RETIRE_AFTER_SECONDS / 2)
    assert not killed(stage)
    stage.say(ObjectRelease((ObjectKey(NAMES[RED], 0),)))
    stage.pass_time(1.0)
    assert killed(stage) == [0]


def test_idle_processes_end_after_a_while() -> None:
    stage = Stage(1)
    give(stage, run_in(RED))
    stage.run_all()
    stage.pass_time(RETIRE_AFTER_SECONDS + 1)
    assert killed(stage) == [0]
    bury(stage)
    give(stage, run_in(BLUE))
    assert dispatched(stage) == [(0, RED), (1, BLUE)]


def test_with_devices_an_actor_does_not_keep_its_environment_from_others() -> None:
    """Its process runs no other tasks of the environment, so an idle one is replaced."""
    stage = Stage(2, fixed_slots=True)
    give(stage, run_in(RED, options=TaskOptions(hosts_actor=True, rerun=False)))
    stage.run_all()
    for number in range(1, 15):
        give(stage, run_of(30, first=30 * number, function=slow))
        if number == 1:
            give(stage, run_in(RED, first=2))
        busy = [each for each, process in stage.processes.items() if process.pending]
        for each in busy:
            stage.run(each)
        stage.pass_time(0.1)
        bury(stage)
    assert len({number for number, environment in dispatched(stage) if environment == RED}) == 2


def test_an_actor_lives_in_the_environment_of_its_client() -> None:
    stage = Stage(1)
    give(stage, run_of(1, first=1))
    stage.run_all()
    give(stage, run_in(RED, options=TaskOptions(hosts_actor=True, rerun=False)))
    stage.ready()
    assert dispatched(stage)[-1] == (1, RED)
    assert stage.core.slots.processes[1].is_dedicated


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_ends_in_its_environment(seed: int) -> None:
    chance = random.Random(seed)
    stage = Stage(chance.randint(1, 3), fixed_slots=chance.random() < 0.4)
    given = 0
    for _ in range(60):
        for environment in NAMES:
            if chance.random() < 0.3:
                count = chance.choice([1, 1, 5, 50])
                depth = chance.choice([0, 0, 1])
                give(stage, run_in(environment, count, first=given + 1, options=TaskOptions(depth=depth)))
                given += count
        for number in list(stage.processes):
            if chance.random() < 0.5 and number in stage.processes and stage.processes[number].pending:
                stage.run(number)
        if chance.random() < 0.1:
            stage.die(chance.choice(list(stage.processes)))
        assert len([each for each in stage.core.slots.processes.values() if each.busy]) <= len(stage.core.slots.names)
        stage.pass_time(chance.choice([0.1, 0.1, 1.5]))
        if chance.random() < 0.7:
            bury(stage)
    for _ in range(50):
        bury(stage)
        stage.run_all()
        stage.pass_time(1.1)
    assert len(stage.results()) == given
    places = dispatched(stage)
    assert len({number for number, _ in places}) == len(set(places))
