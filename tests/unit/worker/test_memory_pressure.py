"""Which task must end when the memory of a host is exhausted."""

from __future__ import annotations

from scaler_protocol.messages import Status
from scaler_worker.board import STARTED_CELL
from scaler_worker.core.effects import Interrupt, Kill
from scaler_worker.core.memory_pressure import is_exhausted, largest_above_share, share_bytes
from tests.unit.worker.playbook import Stage, run_of
from tests.unit.worker.test_actors import give_anchor, make

LIMIT = 1000


def test_a_twentieth_of_the_memory_must_stay_free() -> None:
    assert not is_exhausted(50, LIMIT) and is_exhausted(49, LIMIT)
    assert not is_exhausted(0, 0), "it is unknown"


def test_the_largest_one_above_its_share_ends() -> None:
    assert share_bytes(LIMIT, 2) == 475
    assert largest_above_share({1: 480, 2: 500}, 475) == 2
    assert largest_above_share({1: 475, 2: 10}, 475) is None, "others use the memory"


def begin_first(stage: Stage, number: int) -> None:
    """A worker process notes its first task as running on its board."""
    memory = stage.processes[number].memory
    memory[4096] = STARTED_CELL
    memoryview(memory).cast("Q")[64 // 8] = 1


def test_one_task_ends_at_a_time() -> None:
    stage = Stage(2)
    stage.give(run_of(2, first=1))
    busy = [number for number, each in stage.core.slots.processes.items() if each.busy]
    for number in busy:
        begin_first(stage, number)
    stage.effects.clear()
    stage.core.on_host_memory_exhausted(dict.fromkeys(busy, 800), LIMIT, stage.now)
    stage.core.on_host_memory_exhausted(dict.fromkeys(busy, 800), LIMIT, stage.now)
    stage.turn()
    assert [each for each in stage.effects if isinstance(each, Interrupt)] == [Interrupt(busy[0])]


def test_an_actor_at_rest_ends_with_its_process() -> None:
    stage = Stage(1)
    give_anchor(stage)
    number = make(stage)
    stage.effects.clear()
    for _ in range(2):
        stage.core.on_host_memory_exhausted({number: 990}, LIMIT, stage.now)
    stage.turn()
    assert [each for each in stage.effects if isinstance(each, Kill)] == [Kill(number)]
    stage.die(number, signal="SIGKILL")
    status, payload = stage.results()[1]
    assert status == Status.PROCESSOR_DIED
    assert b"memory of this host is nearly exhausted" in payload


def test_an_idle_process_is_replaced() -> None:
    stage = Stage(2)
    stage.give(run_of(1, first=1))
    [idle] = [number for number, each in stage.core.slots.processes.items() if not each.busy]
    stage.core.on_host_memory_exhausted({number: 800 + number for number in stage.processes} | {idle: 990}, LIMIT, 0.0)
    stage.effects.clear()
    stage.turn()
    stage.die(idle, signal="SIGKILL")
    stage.run_all()
    assert stage.results()[1][0] == Status.SUCCESS
    assert len(stage.processes) == 2 and idle not in stage.processes
