"""The packages of environments, as the agent's core sees them."""

from __future__ import annotations

import pickle

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    AgentAttach,
    Blocked,
    Cancel,
    FunctionDefinition,
    ObjectKey,
    ObjectRelease,
    ObjectRequest,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdrawn,
)
from scaler_protocol.shipping.environments import Environment
from scaler_worker.core.effects import InstallPackages, ReleasePackages
from tests.unit.worker.playbook import CLIENT, Stage, definition, nothing, run_of

PACKAGES = ("brush", "painter==1.0")
RED = Environment(PACKAGES, {"COLOR": "red"}).to_text()
BLUE = Environment(PACKAGES, {"COLOR": "blue"}).to_text()
NAMES = {RED: b"R" * 16, BLUE: b"B" * 16, "{": b"X" * 16}


def give(stage: Stage, environment: str, count: int = 1, *, first: int = 1, options: TaskOptions | None = None) -> None:
    function, name = definition(nothing), NAMES[environment]
    slots = [[pickle.dumps(0)] for _ in range(count)]
    run = TaskRun(name, function.digest, function.name, name, first, 1, (), options or TaskOptions(), slots)
    stage.say(Tasks([run], [function], [FunctionDefinition(name, "s", b"pickle", 6, environment)]))


def asked(stage: Stage) -> list[InstallPackages | ReleasePackages]:
    return [effect for effect in stage.effects if isinstance(effect, (InstallPackages, ReleasePackages))]


def install(stage: Stage) -> None:
    stage.core.on_packages_installed(PACKAGES, stage.now)
    stage.turn()


def fail(stage: Stage) -> None:
    stage.core.on_packages_failed(PACKAGES, "Cannot install brush: it is bristly.", stage.now)
    stage.turn()


def test_tasks_wait_for_packages_and_others_do_not() -> None:
    stage = Stage(2)
    give(stage, RED, 2)
    give(stage, BLUE, 1, first=3)
    stage.give(run_of(1, first=10))
    stage.run_all()
    assert asked(stage) == [InstallPackages(PACKAGES)] and list(stage.results()) == [10]
    install(stage)
    for _ in range(4):
        stage.ready()
        stage.run_all()
    assert sorted(stage.results()) == [1, 2, 3, 10]
    give(stage, RED, 1, first=4)
    stage.run_all()
    assert 4 in stage.results() and len(asked(stage)) == 1


def test_a_failure_ends_what_waits_and_is_tried_again() -> None:
    stage = Stage(1)
    give(stage, RED, 2)
    fail(stage)
    assert stage.results() == dict.fromkeys((1, 2), (Status.NO_WORKER, b"Cannot install brush: it is bristly."))
    give(stage, RED, 1, first=3)
    install(stage)
    stage.run_all()
    assert stage.results()[3][0] == Status.SUCCESS
    assert asked(stage) == [InstallPackages(PACKAGES)] * 2


def test_the_scheduler_learns_that_waiting_tasks_use_no_slot() -> None:
    stage = Stage(2)
    give(stage, RED, 3)
    assert stage.bodies(Blocked) == [Blocked(3, 0, True)]
    install(stage)
    assert stage.bodies(Blocked)[-1] == Blocked(0, 0, False)


def test_waiting_tasks_can_be_cancelled() -> None:
    stage = Stage(1)
    give(stage, RED, 2)
    stage.say(Cancel((TaskColumn(NAMES[RED], (1,)),)))
    assert stage.results()[1][0] == Status.CANCELLED
    install(stage)
    stage.run_all()
    assert stage.results()[2][0] == Status.SUCCESS


def test_an_agent_that_leaves_gives_back_what_waits() -> None:
    stage = Stage(1)
    give(stage, RED, 2)
    stage.core.on_stop(stage.now)
    stage.turn()
    assert [column.tasks for body in stage.bodies(Withdrawn) for column in body.columns] == [(1, 2)]


def test_packages_are_released_with_their_last_client() -> None:
    stage = Stage(1)
    give(stage, RED)
    give(stage, BLUE, first=2)
    install(stage)
    for _ in range(3):
        stage.ready()
        stage.run_all()
    stage.say(ObjectRelease((ObjectKey(NAMES[RED], 0),)))
    assert len(asked(stage)) == 1
    stage.say(ObjectRelease((ObjectKey(NAMES[BLUE], 0),)))
    assert asked(stage)[1:] == [ReleasePackages(PACKAGES)]
    give(stage, RED, first=3)
    assert asked(stage)[2:] == [InstallPackages(PACKAGES)]


def test_a_restarted_scheduler_is_told_what_waits_and_not_asked_for_packages() -> None:
    stage = Stage(1)
    give(stage, RED, 2)
    stage.core.on_peer_lost(b"", stage.now)
    stage.connect(epoch=2)
    [column] = stage.bodies(AgentAttach)[-1].holds
    assert column.tasks == (1, 2) and not stage.bodies(ObjectRequest)
    assert asked(stage) == [InstallPackages(PACKAGES)] * 2
    assert stage.bodies(Blocked)[-1] == Blocked(2, 0, True)


def test_an_actor_waits_for_packages() -> None:
    stage = Stage(1)
    give(stage, RED, options=TaskOptions(hosts_actor=True, rerun=False))
    assert not stage.core.slots.processes[0].is_dedicated
    install(stage)
    assert stage.core.slots.processes[0].is_dedicated


def test_an_effect_that_fails_ends_what_waits() -> None:
    stage = Stage(1)
    give(stage, RED)
    stage.core.on_not_carried_out(InstallPackages(PACKAGES), stage.now)
    stage.turn()
    assert stage.results()[1][0] == Status.NO_WORKER


def test_an_environment_that_cannot_be_read_fails_its_tasks_alone() -> None:
    stage = Stage(1)
    give(stage, "{")
    stage.give(run_of(1, first=10, session=CLIENT))
    stage.run_all()
    results = stage.results()
    assert results[1][0] == Status.NO_WORKER and b"environment" in results[1][1]
    assert results[10][0] == Status.SUCCESS
