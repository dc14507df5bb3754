"""Worker processes are replaced after a number of tasks, or when they use too much memory."""

from __future__ import annotations

from scaler_protocol.effects import Log
from scaler_protocol.messages import EndProcess, Status
from scaler_worker.core.effects import Kill
from tests.unit.worker.playbook import Stage, run_of


def killed(stage: Stage) -> list[int]:
    return [effect.number for effect in stage.effects if isinstance(effect, Kill)]


def test_a_worker_process_is_replaced_after_its_last_task() -> None:
    stage = Stage(1, max_tasks_per_worker=2)
    stage.give(run_of(5, first=1))
    stage.run(0)
    assert sorted(stage.results()) == [1, 2] and killed(stage) == [0]
    stage.die(0)
    stage.run(1)
    assert sorted(stage.results()) == [1, 2, 3, 4] and killed(stage) == [0, 1]
    stage.die(1)
    stage.run(2)
    assert all(status == Status.SUCCESS for status, _ in stage.results().values()) and len(stage.results()) == 5
    assert killed(stage) == [0, 1]


def test_each_task_may_have_a_process_of_its_own() -> None:
    stage = Stage(2, max_tasks_per_worker=1)
    stage.give(run_of(4, first=1))
    stage.run_all()
    assert len(stage.results()) == 2 and sorted(killed(stage)) == [0, 1]
    stage.die(0)
    stage.die(1)
    stage.run_all()
    assert len(stage.results()) == 4


def test_a_worker_process_that_uses_too_much_memory_is_given_nothing_more() -> None:
    stage = Stage(1, recycle_memory_threshold_bytes=2**30)
    stage.give(run_of(3, first=1))
    stage.core.on_memory_measured({1000: 2**30}, stage.now)
    assert not [each for each in stage.effects if isinstance(each, Log)]
    stage.core.on_memory_measured({1000: 2**31}, stage.now)
    stage.turn()
    assert Log("INFO", "w0 uses 2048 MiB: its process is replaced when its task has ended") in stage.effects
    assert killed(stage) == [0]
    stage.die(0)
    stage.run_all()
    assert len(stage.results()) == 3 and killed(stage) == [0]


def test_an_idle_worker_process_is_replaced_at_once() -> None:
    stage = Stage(1, recycle_memory_threshold_bytes=2**30)
    stage.core.on_memory_measured({1000: 2**31}, stage.now)
    stage.core.on_memory_measured({1000: 2**31}, stage.now)
    stage.turn()
    assert killed(stage) == [0]


def test_without_limits_nothing_is_replaced() -> None:
    stage = Stage(1)
    stage.give(run_of(50, first=1))
    stage.run_all()
    stage.core.on_memory_measured({1000: 2**40}, stage.now)
    stage.turn()
    assert killed(stage) == []


def test_an_operator_has_a_worker_process_killed() -> None:
    stage = Stage(1)
    stage.give(run_of(1, first=1))
    (process,) = stage.core.slots.processes.values()
    stage.say(EndProcess("nothing", True))
    assert stage.count(Kill) == 0
    stage.say(EndProcess(process.name, True))
    assert Kill(process.number) in stage.effects


def test_an_operator_has_an_idle_worker_process_replaced() -> None:
    stage = Stage(1)
    (process,) = stage.core.slots.processes.values()
    stage.say(EndProcess(process.name, False))
    assert process.is_worn
    assert Kill(process.number) in stage.effects
