"""An agent with actors: dedicated worker processes, their calls, and their ends."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from scaler_protocol.ids import digest
from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import (
    PRIVATE_UPLOAD_NUMBER,
    ActorsReady,
    AgentAttach,
    Blocked,
    Cancel,
    Drain,
    FunctionDefinition,
    HeartbeatEcho,
    ObjectChunk,
    ObjectKey,
    ObjectMissing,
    ObjectRequest,
    Results,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_protocol.objects.layout import plan
from scaler_worker.core.effects import Kill, Suspend
from scaler_worker.worker_process.output import Shield
from tests.support.waiting import wait_until
from tests.unit.worker.playbook import CLIENT, Stage, nothing, run_of

ANCHOR = TaskOptions(hosts_actor=True, rerun=False)
CALL = TaskOptions(actor=1, rerun=False)
UPLOAD = ObjectKey(CLIENT, 1 << 63)
RESULT = ObjectKey(CLIENT, 3)
OTHER = b"O" * 16


class Adder:
    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, number: Any) -> int:
        self.value += number if isinstance(number, int) else 1000
        return self.value


class Unmade:
    def __init__(self, value: int) -> None:
        raise KeyError(value)


def large_number(number: int) -> bytes:
    return bytes(100_000)


def named(name: str) -> FunctionDefinition:
    data = pickle.dumps(name)
    return FunctionDefinition(digest(data), name, data, len(data))


METHOD = named("Adder.add")


def calls(count: int, first: int = 2, slots: list[Any] | None = None, actor: int = 1, session: bytes = CLIENT) -> Tasks:
    """Each adds its number, or that of its slot."""
    owner = CLIENT if session != CLIENT else b""
    options = TaskOptions(actor=actor, actor_session=owner, rerun=False)
    run = run_of(count, first=first, options=options, slots=slots, session=session)
    again = type(run)(session, METHOD.digest, METHOD.name, b"", first, 1, (), run.options, run_slots(run))
    return Tasks([again], [METHOD])


def run_slots(run: Any) -> list[list[Any]]:
    return [run.slots(index) for index in range(run.count)]


def make(stage: Stage) -> int:
    [number] = [number for number, process in stage.processes.items() if process.pending]
    stage.run(number)
    return number


def give_anchor(stage: Stage, first: int = 1, count: int = 1, cls: type = Adder, options: TaskOptions = ANCHOR) -> None:
    stage.give(run_of(count, first=first, options=options, function=cls), function=cls)


@pytest.fixture
def actor() -> tuple[Stage, int]:
    stage = Stage(1)
    give_anchor(stage)
    number = make(stage)
    assert stage.bodies(ActorsReady) == [ActorsReady((TaskColumn(CLIENT, (1,), (1,)),))]
    assert stage.results() == {}
    return stage, number


def values(stage: Stage) -> dict[int, Any]:
    return {task: pickle.loads(payload) for task, (status, payload) in stage.results().items() if status == 0}


def test_calls_reach_the_process_in_order(actor):
    stage, number = actor
    stage.say(calls(3))
    stage.say(calls(2, first=5))
    stage.run(number)
    assert values(stage) == {2: 3, 3: 6, 4: 10, 5: 15, 6: 21}


def test_the_process_takes_no_other_tasks_and_keeps_its_slot(actor):
    stage, number = actor
    stage.give(run_of(3, first=50))
    assert not stage.processes[number].pending
    assert stage.core.slots.queued == 3
    stage.say(Withdraw(10))
    assert stage.bodies(Withdrawn)[-1].columns[0].tasks == (50, 51, 52)
    assert not stage.core.slots.is_idle


def test_each_actor_of_a_run_has_its_own_process_and_the_others_wait():
    stage = Stage(2)
    give_anchor(stage, count=3)
    assert [len(process.pending) for process in stage.processes.values()] == [1, 1]
    stage.run_all()
    assert sorted(column.tasks for body in stage.bodies(ActorsReady) for column in body.columns) == [(1,), (2,)]
    stage.say(Withdraw(10))
    assert stage.bodies(Withdrawn)[-1].columns == (TaskColumn(CLIENT, (3,), (1,)),)


def test_a_constructor_that_raises_ends_the_anchor_and_frees_the_process():
    stage = Stage(1)
    give_anchor(stage, cls=Unmade)
    number = make(stage)
    assert stage.results()[1][0] == Status.EXCEPTION
    assert not stage.bodies(ActorsReady)
    stage.give(run_of(1, first=9))
    stage.run(number)
    assert values(stage) == {9: None}


def test_calls_of_an_actor_that_is_not_here_fail(actor):
    stage, number = actor
    stage.say(calls(2, first=5, actor=77))
    assert {task: status for task, (status, _) in stage.results().items()} == dict.fromkeys((5, 6), Status.WORKER_DIED)


def test_a_call_that_waits_for_an_object_holds_back_the_others(actor):
    stage, number = actor
    stage.say(calls(1))
    stage.say(calls(1, first=3, slots=[UPLOAD]))
    stage.say(calls(1, first=4))
    stage.run(number)
    assert values(stage) == {2: 3}
    assert not stage.processes[number].pending
    stage.say(ObjectMissing(UPLOAD, "gone"))
    stage.run(number)
    assert values(stage) == {2: 3, 4: 7}
    assert stage.results()[3][0] == Status.OBJECT_MISSING


def arrive(stage: Stage, key: ObjectKey, value: Any) -> None:
    data = plan(pickle.dumps(value)).to_bytes()
    stage.say(ObjectChunk(key, len(data), 0, data))


def lose_input(stage: Stage) -> None:
    """Call 5 needs a result that is being made again, and call 6 comes behind it."""
    stage.say(calls(1, first=5, slots=[RESULT]))
    stage.say(calls(1, first=6))
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    assert stage.bodies(ObjectRequest) == [ObjectRequest(RESULT), ObjectRequest(RESULT, waits=True)]


def test_a_call_waits_for_a_result_that_is_made_again_and_holds_back_later_ones(actor):
    stage, number = actor
    lose_input(stage)
    stage.run(number)
    assert stage.results() == {}
    arrive(stage, RESULT, 5)
    stage.run(number)
    assert values(stage) == {5: 6, 6: 12}


def test_calls_of_others_do_not_wait_for_it(actor):
    """The task that makes it may need them."""
    stage, number = actor
    lose_input(stage)
    stage.say(calls(2, first=1, session=OTHER))
    stage.run(number)
    assert values(stage) == {1: 2, 2: 4}
    arrive(stage, RESULT, 5)
    stage.run(number)
    assert values(stage) == {1: 2, 2: 4, 5: 9, 6: 15}


def test_a_call_whose_input_is_not_made_again_fails_and_the_next_ones_run(actor):
    stage, number = actor
    lose_input(stage)
    stage.say(ObjectMissing(RESULT, "gone for ever"))
    stage.run(number)
    assert values(stage) == {6: 7}
    assert stage.results()[5] == (Status.OBJECT_MISSING, b"gone for ever")


def test_a_call_waits_again_when_its_input_is_lost_again(actor):
    stage, number = actor
    lose_input(stage)
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT, waits=True)
    assert stage.results() == {}


def test_a_call_that_waits_for_a_lost_input_is_cancelled(actor):
    stage, number = actor
    lose_input(stage)
    stage.say(Cancel((TaskColumn(CLIENT, (5,), (1,)),)))
    stage.run(number)
    assert values(stage) == {6: 7}
    assert stage.results()[5][0] == Status.CANCELLED


def test_no_call_waits_for_a_result_of_a_later_task(actor):
    stage, number = actor
    later = ObjectKey(CLIENT, 9)
    stage.say(calls(1, first=5, slots=[later]))
    stage.say(ObjectMissing(later, "gone", is_made_again=True))
    assert stage.results()[5][0] == Status.OBJECT_MISSING


def test_other_tasks_do_not_wait_here_for_what_calls_wait_for(actor):
    """They have slots, which the task that makes it may need."""
    stage, number = actor
    lose_input(stage)
    stage.give(run_of(1, first=7, slots=[RESULT]))
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT)
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    assert {task: status for task, (status, _) in stage.results().items()} == {7: Status.OBJECT_MISSING}
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT, waits=True)


def test_a_restarted_scheduler_is_asked_again_for_what_calls_wait_for(actor):
    stage, number = actor
    lose_input(stage)
    stage.connect(epoch=2)
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT)
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT, waits=True)


def test_a_call_goes_on_when_its_lost_input_is_made_here():
    stage = Stage(2)
    give_anchor(stage)
    number = make(stage)
    lose_input(stage)
    stage.give(run_of(1, first=3, attempt=2, function=large_number), function=large_number)
    stage.run_all()
    stage.run_all()
    assert stage.results()[3][0] == Status.SUCCESS_LARGE
    assert {task for task, (status, _) in stage.results().items() if status == Status.SUCCESS} == {5, 6}
    assert not stage.processes[number].pending


def test_calls_that_have_not_started_wait_when_the_store_of_the_host_is_lost(actor):
    """They are with the process already, because their input was here."""
    stage, number = actor
    stage.say(calls(1, first=4))
    stage.say(calls(1, first=5, slots=[RESULT]))
    stage.core.on_stored(RESULT, stage.now)
    stage.say(calls(1, first=6))
    stage.say(calls(1, first=1, session=OTHER))
    stage.core.on_store_lost(stage.now)
    stage.turn()
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT)
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    stage.run(number)
    assert values(stage) == {4: 5, 1: 6}
    arrive(stage, RESULT, 5)
    stage.run(number)
    assert values(stage) == {4: 5, 1: 6, 5: 11, 6: 17}


def give_calls_with_stored_input(stage: Stage, number: int) -> None:
    """The store of the host dies before the process reads the result that call 5 needs, which the agent does not know
    yet."""
    stage.say(calls(1, first=5, slots=[RESULT]))
    stage.core.on_stored(RESULT, stage.now)
    stage.say(calls(1, first=6))
    stage.say(calls(1, first=1, session=OTHER))

    def notice() -> None:
        stage.core.on_store_lost(stage.now)
        stage.turn()

    stage.processes[number].while_waiting = notice


def run_until_done(stage: Stage, number: int, done: set[int]) -> None:
    """Let the process run what it has, until these calls have ended."""
    stage.processes[number].run()

    def are_done() -> bool:
        stage.core.on_worker_process_news(number, stage.now)
        stage.turn()
        return set(stage.results()) == done

    wait_until(are_done)


@pytest.mark.parametrize("count", [1, 2])
def test_a_call_waits_that_finds_its_input_lost_before_the_agent_does(count):
    """It is taken back, and so are later calls of its caller."""
    stage = Stage(1)
    give_anchor(stage, options=replace(ANCHOR, max_concurrency=count))
    number = make(stage)
    give_calls_with_stored_input(stage, number)
    run_until_done(stage, number, {1})
    assert stage.bodies(ObjectRequest)[-1] == ObjectRequest(RESULT)
    stage.say(ObjectMissing(RESULT, "gone", is_made_again=True))
    arrive(stage, RESULT, 5)
    run_until_done(stage, number, {1, 5, 6})
    assert count > 1 or values(stage) == {1: 2, 5: 7, 6: 13}


@pytest.mark.parametrize("count", [1, 2])
def test_a_call_fails_whose_input_is_missing_while_the_agent_knows_of_no_loss(count):
    """Its bytes on the disk were changed, for example."""
    stage = Stage(1)
    give_anchor(stage, options=replace(ANCHOR, max_concurrency=count))
    number = make(stage)
    give_calls_with_stored_input(stage, number)
    stage.processes[number].while_waiting = None
    stage.processes[number].runner.patience_ns = 0
    run_until_done(stage, number, {1, 5, 6})
    assert set(values(stage)) == {1, 6}
    assert stage.results()[5][0] == Status.OBJECT_MISSING


def test_calls_share_an_input(actor):
    stage, number = actor
    stage.store.objects[RESULT] = bytearray(plan(pickle.dumps(5)).to_bytes())
    stage.say(calls(2, first=5, slots=[RESULT, RESULT]))
    stage.core.on_stored(RESULT, stage.now)
    stage.turn()
    stage.run(number)
    assert values(stage) == {5: 6, 6: 11}


def test_an_actor_of_an_agent_that_is_drained_goes_on_with_calls_that_wait_for_objects(actor):
    stage, number = actor
    private = ObjectKey(CLIENT, PRIVATE_UPLOAD_NUMBER)
    stage.say(calls(1, first=2, slots=[private]))
    stage.say(Drain())
    stage.say(calls(1, first=3, slots=[private]))
    stage.pass_time(1.0)
    assert not {2, 3} & set(stage.results())
    arrive(stage, private, 5)
    stage.run(number)
    assert {task: status for task, (status, _) in stage.results().items()} == dict.fromkeys((2, 3), Status.SUCCESS)


def test_more_calls_than_a_board_has_room_for(actor):
    stage, number = actor
    stage.say(calls(20_000, slots=[1] * 20_000))
    while stage.processes[number].pending:
        stage.run(number)
    assert values(stage)[20_001] == 20_001


def test_a_death_fails_what_the_process_had_and_what_waited_for_it(actor):
    stage, number = actor
    stage.say(calls(2))
    stage.say(calls(1, first=4, slots=[UPLOAD]))
    stage.say(calls(1, first=5))
    stage.die(number, signal="SIGKILL")
    results = stage.results()
    assert {task: status for task, (status, _) in results.items()} == dict.fromkeys(range(1, 6), Status.PROCESSOR_DIED)
    assert all(b"SIGKILL" in payload for _, payload in results.values())
    stage.say(calls(1, first=6))
    assert stage.results()[6][0] == Status.WORKER_DIED
    stage.give(run_of(1, first=9))
    stage.run_all()
    assert 9 in values(stage)


def test_a_process_that_dies_before_the_constructor_has_started_is_replaced():
    stage = Stage(1)
    give_anchor(stage)
    stage.die(0, signal="SIGKILL")
    assert stage.results() == {}
    make(stage)
    assert stage.bodies(ActorsReady)


def test_a_cancelled_actor_ends_with_its_process(actor):
    stage, number = actor
    stage.say(calls(2))
    stage.say(Cancel((TaskColumn(CLIENT, (1,), (1,)),)))
    assert stage.results() == {1: (Status.CANCELLED, b"")}
    assert stage.kills == 1
    stage.die(number, signal="SIGKILL")
    assert {task: status for task, (status, _) in stage.results().items()} == {
        1: Status.CANCELLED, 2: Status.PROCESSOR_DIED, 3: Status.PROCESSOR_DIED,
    }  # fmt: skip


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("cause", ["cancel", "death"])
def test_the_end_of_an_actor_says_where_it_was_and_how_long_it_lived(watched, cause):
    stage = Stage(2)
    stage.say_raw(HeartbeatEcho(stage.now, watched))
    give_anchor(stage)
    number = make(stage)
    made_at = stage.processes[number].board.started
    stage.now += 3.5
    if cause == "cancel":
        stage.say(Cancel((TaskColumn(CLIENT, (1,), (1,)),)))
    else:
        stage.die(number, signal="SIGKILL")
    [run] = [run for body in stage.bodies(Results) for run in body.runs]
    place = stage.core.slots.names.index(f"w{number}") if watched else NO_WORKER
    assert (run.task(0), run.worker) == (1, place)
    [(_, _, status, _, duration_us, *_)] = run.rows()
    assert status == (Status.CANCELLED if cause == "cancel" else Status.PROCESSOR_DIED)
    assert duration_us == pytest.approx(1e6 * (stage.now - made_at), abs=2)


def test_an_actor_that_waits_is_cancelled():
    stage = Stage(1)
    stage.give(run_of(1, first=9))
    give_anchor(stage)
    stage.say(Cancel((TaskColumn(CLIENT, (1,), (1,)),)))
    assert stage.results() == {1: (Status.CANCELLED, b"")}
    stage.run_all()
    assert not stage.bodies(ActorsReady) and stage.core.slots.is_idle


@pytest.mark.parametrize("unstarted", [False, True])
def test_a_process_whose_constructor_is_cancelled_before_it_starts_runs_other_tasks(unstarted: bool):
    stage = Stage(1)
    give_anchor(stage)
    stage.say(Cancel((TaskColumn(CLIENT, (1,), (1,)),), unstarted))
    assert stage.results() == {1: (Status.CANCELLED, b"")}
    assert stage.core.slots.is_idle and not stage.core.state.actors
    stage.give(run_of(1, first=9))
    stage.run(0)
    assert stage.results()[9][0] == Status.SUCCESS


def test_a_cancel_while_the_constructor_returns_ends_the_actor():
    stage = Stage(1)
    give_anchor(stage)
    process = stage.processes[0]
    process.run()
    stage.say(Cancel((TaskColumn(CLIENT, (1,), (1,)),)))
    stage.core.on_worker_process_news(0, stage.now)
    stage.turn()
    assert stage.results() == {1: (Status.CANCELLED, b"")}
    assert stage.kills == 1 and not stage.bodies(ActorsReady)


def test_calls_that_wait_are_cancelled(actor):
    stage, number = actor
    stage.say(calls(1, first=2, slots=[UPLOAD]))
    stage.say(calls(3, first=3))
    stage.say(Cancel((TaskColumn(CLIENT, (2, 4), (1, 1)),)))
    assert {task: status for task, (status, _) in stage.results().items()} == dict.fromkeys((2, 4), Status.CANCELLED)
    stage.run(number)
    assert values(stage) == {3: 4, 5: 9}


def test_a_scheduler_that_has_restarted_is_told_of_actors_and_calls(actor):
    stage, number = actor
    stage.say(calls(2))
    stage.connect(epoch=2)
    attach, ready = stage.bodies(AgentAttach)[-1], stage.bodies(ActorsReady)[-1]
    assert sorted(task for column in attach.holds for task in column.tasks) == [1, 2, 3]
    assert ready == ActorsReady((TaskColumn(CLIENT, (1,), (1,)),))
    stage.run(number)
    assert values(stage) == {2: 3, 3: 6}


def test_an_agent_that_leaves_keeps_actors_until_its_limit_and_gives_back_those_that_wait(actor):
    stage, number = actor
    give_anchor(stage, first=40)
    stage.core.on_stop(stage.now)
    stage.turn()
    assert [column.tasks for body in stage.bodies(Withdrawn) for column in body.columns] == [(40,)]
    stage.say(calls(1))
    stage.run(number)
    assert values(stage) == {2: 3}


def test_monitors_see_an_actor_at_rest(actor):
    stage, number = actor
    stage.core.slots.processes[number].actor.started_at = stage.now
    assert stage.core.slots.running_tasks.report({}, stage.now) == ()
    [row] = stage.core.slots.running_tasks.report({}, stage.now + 5)
    assert (row.task, row.attempt, row.worker, row.blocked) == (1, 1, 0, False)


def test_nothing_is_left_of_an_ended_actor(actor):
    stage, number = actor
    stage.say(calls(1))
    stage.die(number)
    actors = stage.core.state.actors
    assert not actors and not actors.due
    stage.give(run_of(1, first=9, function=nothing))


def test_an_actor_does_not_overtake_tasks_that_came_before_it():
    stage = Stage(1)
    stage.give(run_of(2, first=10))
    give_anchor(stage)
    stage.give(run_of(1, first=20))
    stage.run_all()
    assert set(values(stage)) == {10, 11}
    assert stage.bodies(ActorsReady)
    assert stage.core.slots.queued == 1


# ---- several calls at a time -----------------------------------------------------------------------------------------


class Doors:
    """A call waits for the door of its number."""

    made: ClassVar[dict[int, threading.Event]] = {}

    def __init__(self, value: int) -> None:
        self.made.clear()
        self.made.update({number: threading.Event() for number in range(2, 10)})

    def add(self, number: int) -> int:
        while not self.made[number].wait(0.001):
            pass
        return number


@pytest.fixture
def several() -> Iterator[tuple[Stage, int]]:
    """An actor of which two calls run at a time, and which has three."""
    stage = Stage(1)
    options = replace(ANCHOR, max_concurrency=2)
    stage.give(run_of(1, first=1, options=options, function=Doors), function=Doors)
    number = make(stage)
    stage.say(calls(3))
    running = threading.Thread(target=stage.processes[number].run)
    running.start()
    board = stage.processes[number].board
    wait_until(lambda: board.is_started(1) and board.is_started(2))
    yield stage, number
    for door in Doors.made.values():
        door.set()
    running.join()


def take_results(stage: Stage, number: int, *doors: int) -> set[int]:
    """The calls that have ended, when those behind these doors have."""
    for door in doors:
        Doors.made[door].set()
    wait_until(lambda: stage.processes[number].board.has_results())
    stage.core.on_worker_process_news(number, stage.now)
    stage.turn()
    return set(stage.results())


def test_calls_end_in_any_order(several):
    stage, number = several
    assert not stage.processes[number].board.is_started(3), "two run at a time"
    assert take_results(stage, number, 3) == {3}
    assert take_results(stage, number, 4) == {3, 4}
    assert take_results(stage, number, 2) == {2, 3, 4}
    assert values(stage) == {2: 2, 3: 3, 4: 4}


def test_a_cancel_of_one_of_several_calls_kills_nothing(several):
    stage, number = several
    stage.say(Cancel((TaskColumn(CLIENT, (3,), (1,)),)))
    assert stage.interrupts == 1
    stage.pass_time(5.0)
    assert stage.count(Kill) == 0, "the other call goes on"
    assert not stage.processes[number].runner.interrupt_calls()
    assert take_results(stage, number) == {3}
    assert stage.results()[3][0] == Status.CANCELLED
    assert take_results(stage, number, 2) == {2, 3}


def test_a_call_is_not_interrupted_while_modules_are_put_in_place(several):
    stage, number = several
    stage.say(Cancel((TaskColumn(CLIENT, (3,), (1,)),)))
    process = stage.processes[number]
    process.shielded = {thread.ident for thread in threading.enumerate()}
    assert process.runner.interrupt_calls(), "it is tried again"
    assert not process.board.has_results()
    process.shielded = set()
    assert not process.runner.interrupt_calls()
    assert take_results(stage, number) == {3}
    assert stage.results()[3][0] == Status.CANCELLED


def test_a_shield_covers_its_own_thread_alone():
    shield, other = Shield(), threading.Event()
    thread = threading.Thread(target=other.wait)
    thread.start()
    with shield:
        assert shield.covers(threading.get_ident()) and not shield.covers(thread.ident)
    assert not shield.covers(threading.get_ident())
    other.set()
    thread.join()


def test_a_call_that_runs_for_too_long_is_ended():
    stage = Stage(1, task_timeout_seconds=2.0)
    options = replace(ANCHOR, max_concurrency=2)
    stage.give(run_of(1, first=1, options=options, function=Doors), function=Doors)
    number = make(stage)
    stage.say(calls(2))
    stage.processes[number].run()
    wait_until(lambda: stage.processes[number].board.is_started(2))
    stage.pass_time(1.5)
    assert stage.interrupts == 0
    Doors.made[2].set()
    assert take_results(stage, number) == {2}
    stage.pass_time(1.0)
    assert stage.interrupts == 1
    stage.processes[number].runner.interrupt_calls()
    assert take_results(stage, number) == {2, 3}
    assert stage.results()[3][0] == Status.TIMED_OUT


def test_a_death_fails_all_calls_under_way(several):
    stage, number = several
    stage.die(number, signal="SIGKILL")
    assert {task: status for task, (status, _) in stage.results().items()} == dict.fromkeys(
        range(1, 5), Status.PROCESSOR_DIED
    )


def test_a_slot_is_lent_while_any_of_several_calls_waits(several):
    stage, number = several
    session = b"n" * 16
    stage.core.on_nested_opened(session, TaskColumn(CLIENT, (3,), (1,)), stage.now)
    stage.core.on_nested_blocked(session, stage.now)
    stage.turn()
    process = stage.core.slots.processes[number]
    assert process.blocked
    assert take_results(stage, number, 2) == {2}
    assert process.blocked, "another call was counted as the one that waits"
    stage.pass_time(1.0)
    assert stage.count(Suspend) == 0, "the other calls go on"
    assert stage.bodies(Blocked)[-1] == Blocked(1, 0, lent_by_actors=1)
    stage.core.on_nested_unblocked(session, stage.now)
    stage.turn()
    assert not process.blocked
    assert stage.bodies(Blocked)[-1] == Blocked(0, 0)
