"""User code may write anything to the memory that its process shares with the agent: that costs its process alone."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log
from scaler_protocol.messages import Cancel, Status, TaskColumn, Withdraw, Withdrawn
from scaler_worker.board import BOARD_BYTES
from scaler_worker.core.effects import Kill
from tests.unit.worker.playbook import CLIENT, Stage, run_of

RUNNING, STARTED, POSITION, HEAD = 64, 72, 80, 256
CELLS, CELL_COUNT, ARENA = 4096, 16384, 4096 + 16384
SEQUENCE, DURATION, SIZE, STATUS = 0, 8, 32, 36
SEEDS = range(300)
EXTREMES = (0, 1, 7, 47, 48, 255, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def word(memory: bytearray, offset: int, value: int) -> None:
    memory[offset : offset + 8] = struct.pack("<Q", value % 2**64)


def read(memory: bytearray, offset: int) -> int:
    return int(struct.unpack_from("<Q", memory, offset)[0])


def given(count: int) -> Stage:
    """A stage whose only worker was handed ``count`` tasks at once."""
    stage = Stage(1)
    stage.core.slots.durations.add(run_of(1).function, 1, 0.0001)
    stage.give(run_of(count))
    return stage


def ran_one_of(count: int) -> tuple[Stage, bytearray]:
    """A stage whose first worker has a result on its board that nobody has read, of ``count`` tasks."""
    stage = given(count)
    stage.processes[0].run()
    return stage, stage.processes[0].memory


Damage = Callable[[bytearray], None]

DAMAGES: dict[str, Damage] = {
    "more results than there is room for": lambda memory: word(memory, HEAD, 2**40),
    "a head before the tail": lambda memory: word(memory, HEAD, -8),
    "a head within a record": lambda memory: word(memory, HEAD, read(memory, HEAD) - 8),
    "a head that is not aligned": lambda memory: word(memory, HEAD, read(memory, HEAD) + 3),
    "a record without end": lambda memory: word(memory, ARENA + SIZE, 2**32 - 1),
    "a record of a task to come": lambda memory: word(memory, ARENA + SEQUENCE, 999),
    "a record of no task": lambda memory: word(memory, ARENA + SEQUENCE, 2**64 - 1),
    "a status that does not exist": lambda memory: memory.__setitem__(ARENA + STATUS, 77),
    "a status that only agents give": lambda memory: memory.__setitem__(ARENA + STATUS, Status.WORKER_DIED),
    "a large result without its size": lambda memory: memory.__setitem__(ARENA + STATUS, Status.SUCCESS_LARGE),
    "a duration of centuries": lambda memory: word(memory, ARENA + DURATION, 2**64 - 1),
    "everything": lambda memory: memory.__setitem__(slice(0, BOARD_BYTES), b"\xff" * BOARD_BYTES),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_results_that_cannot_be_end_their_process_and_its_death_says_why(damage: str) -> None:
    stage, memory = ran_one_of(3)
    DAMAGES[damage](memory)
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    assert stage.kills == 1
    (line,) = [effect.text for effect in stage.effects if isinstance(effect, Log)]
    assert "has overwritten the memory that its worker shares with the agent" in line
    assert not [effect for effect in stage.effects if isinstance(effect, Kill) and effect.number != 0]
    stage.die(0, signal="SIGKILL")
    stage.run_all()
    assert sorted(stage.results()) == [0, 1, 2]
    told = [payload for status, payload in stage.results().values() if status == Status.PROCESSOR_DIED]
    assert told and all(b"has overwritten the memory" in payload for payload in told)


@pytest.mark.parametrize("position", [17, 2**64 - 1])
def test_a_process_that_looks_at_tasks_it_was_not_handed_is_given_none(position: int) -> None:
    stage = Stage(1)
    word(stage.processes[0].memory, POSITION, position)
    stage.give(run_of(3))
    assert stage.kills == 1 and not stage.results()
    stage.die(0, signal="SIGKILL")
    stage.run_all()
    assert {status for status, _ in stage.results().values()} == {Status.SUCCESS}


@pytest.mark.parametrize("value", [1, 2, 3, 255])
@pytest.mark.parametrize("count", [1, 3])
def test_a_process_that_leaves_out_tasks_is_ended(count: int, value: int) -> None:
    """To the process, tasks whose cells were overwritten look as if they had been taken back."""
    stage = given(count)
    process = stage.processes[0]
    process.memory[CELLS : CELLS + CELL_COUNT] = bytes([value]) * CELL_COUNT
    process.run()
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    assert stage.kills == (count > 1 or value != 1)  # a single one that looks started may be under way
    stage.die(0, signal="SIGKILL")
    stage.run_all()
    assert sorted(stage.results()) == list(range(count))


@pytest.mark.parametrize("value", [1, 2, 3, 255])
def test_a_death_is_charged_to_no_task_that_cannot_have_started(value: int) -> None:
    """Other tasks wait in the same process, perhaps of other clients."""
    stage = given(4)
    stage.processes[0].memory[CELLS : CELLS + CELL_COUNT] = bytes([value]) * CELL_COUNT
    stage.die(0, signal="SIGSEGV")
    stage.run_all()
    assert {task: status for task, (status, _) in stage.results().items()} == {
        0: Status.PROCESSOR_DIED,
        1: 0,
        2: 0,
        3: 0,
    }


def test_who_breaks_the_board_is_charged_although_its_cell_says_that_it_has_not_started() -> None:
    stage = given(3)
    word(stage.processes[0].memory, HEAD, 2**40)
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    stage.die(0, signal="SIGKILL")
    stage.run_all()
    assert {task: status for task, (status, _) in stage.results().items()} == {0: Status.PROCESSOR_DIED, 1: 0, 2: 0}


def test_a_task_that_is_marked_as_taken_back_is_not_lost_with_its_process() -> None:
    stage = given(3)
    stage.processes[0].memory[CELLS : CELLS + CELL_COUNT] = b"\2" * CELL_COUNT
    stage.run(0)
    assert not stage.results()
    stage.die(0, signal="SIGSEGV")
    assert {task: status for task, (status, _) in stage.results().items()} == {0: Status.PROCESSOR_DIED}
    stage.run_all()
    assert sorted(stage.results()) == [0, 1, 2]


def test_a_result_that_was_taken_in_is_not_taken_back_as_a_task() -> None:
    stage, memory = ran_one_of(2)
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    memory[CELLS : CELLS + CELL_COUNT] = bytes(CELL_COUNT)
    stage.say(Withdraw(99))
    assert stage.core.slots.is_idle and sorted(stage.results()) == [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_task_ends_once_whatever_is_written_there(seed: int) -> None:
    chance = random.Random(seed)
    stage = Stage(2)
    stage.core.slots.durations.add(run_of(1).function, 1, chance.choice((0.0001, 0.01)))
    total = 0
    for _ in range(6):
        count = chance.randrange(1, 60)
        stage.give(run_of(count, first=total))
        total += count
        for number in list(stage.processes):
            memory = stage.processes[number].memory
            if chance.random() < 0.3:
                stage.processes[number].run()
            scribble(memory, chance)
            stage.core.on_worker_process_news(number, stage.now)
            stage.turn()
        if chance.random() < 0.3:
            stage.say(Withdraw(chance.randrange(20)))
            stage.give(*withdrawn_again(stage))
        if chance.random() < 0.3:
            stage.say(Cancel((TaskColumn(CLIENT, tuple(range(0, total, 7))),)))
        stage.pass_time(0.3)
        for number in {each.number for each in stage.effects if isinstance(each, Kill)} & set(stage.processes):
            stage.die(number, signal="SIGKILL")
    for number in list(stage.processes):
        stage.die(number, signal="SIGKILL")
    for number in list(stage.processes):
        stage.processes[number].run()
        stage.core.on_worker_process_news(number, stage.now)
        stage.turn()
    stage.run_all()
    assert sorted(stage.results()) == list(range(total))
    assert stage.core.slots.is_idle


def withdrawn_again(stage: Stage) -> list[TaskRun]:
    """What was given back comes again."""
    found: list[TaskRun] = []
    for body in stage.bodies(Withdrawn):
        for column in body.columns:
            found.extend(run_of(1, first=task) for task in column.tasks)
    stage.sent = [envelope for envelope in stage.sent if not isinstance(envelope.body, Withdrawn)]
    return found


def scribble(memory: bytearray, chance: random.Random) -> None:
    """The worker process's own words, cells and records; what the agent writes is the agent's."""
    for _ in range(chance.randrange(0, 4)):
        what = chance.randrange(4)
        value = chance.choice((chance.choice(EXTREMES), chance.randrange(2**64), chance.randrange(4096)))
        if what == 0:
            word(memory, chance.choice((RUNNING, STARTED, POSITION, HEAD)), value)
        elif what == 1:
            memory[CELLS + chance.randrange(100)] = chance.randrange(256)
        elif what == 2:
            offset = ARENA + 8 * chance.randrange(200)
            word(memory, offset, value)
        else:
            start = chance.randrange(BOARD_BYTES)
            size = min(chance.randrange(4096), BOARD_BYTES - start)
            memory[start : start + size] = chance.randbytes(size)
