"""What only an agent has when it leaves, and agents that keep what another one had."""

from __future__ import annotations

import pickle

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    Cancel,
    Drain,
    Goodbye,
    KeepValues,
    Leaving,
    MayLeave,
    ObjectChunk,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Status,
    TaskColumn,
    TaskOptions,
    Welcome,
)
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import Exit
from tests.unit.worker.playbook import CLIENT, Stage, definition, run_of
from tests.unit.worker.test_agent_core import running

KEY = ObjectKey(CLIENT, 1)
VALUE = pickle.dumps(5)


def large(number: int) -> bytes:
    return b"x" * 200_000


def double(value: int) -> int:
    return 2 * value


def with_result(**settings: float) -> Stage:
    stage = Stage(1, **settings)
    stage.give(run_of(1, first=1, function=large), function=large)
    stage.run_all()
    assert stage.results()[1][0] == Status.SUCCESS_LARGE
    return stage


def leave(stage: Stage) -> None:
    stage.core.on_stop(stage.now)
    stage.turn()


def test_an_agent_with_a_result_waits_until_others_have_it() -> None:
    stage = with_result()
    leave(stage)
    stage.pass_time(1.0)
    assert stage.bodies(Leaving) == [Leaving()] and not stage.bodies(Goodbye)
    stage.say(MayLeave())
    assert stage.bodies(Goodbye)


def test_an_agent_without_values_leaves_at_once() -> None:
    stage = Stage(1)
    leave(stage)
    assert stage.bodies(Goodbye) and not stage.bodies(Leaving)


def test_it_waits_no_longer_than_the_grace_time() -> None:
    stage = with_result(grace_seconds=2.0)
    leave(stage)
    stage.pass_time(1.8)
    assert not stage.bodies(Goodbye)
    stage.pass_time(0.5)
    assert stage.bodies(Goodbye)


def test_it_does_not_wait_for_a_scheduler_that_moves_nothing() -> None:
    stage = Stage(1, welcome=False)
    stage.core.on_connected(b"", stage.now)
    stage.turn()
    stage.say_raw(Welcome(b"S" * 16, 1, 0, False, minor=3, number=1))
    stage.give(run_of(1, first=1, function=large), function=large)
    stage.run_all()
    leave(stage)
    assert stage.bodies(Goodbye) and not stage.bodies(Leaving)


def test_a_permission_that_was_not_asked_for_does_not_count() -> None:
    stage = with_result()
    stage.say(MayLeave())
    leave(stage)
    assert stage.bodies(Leaving) and not stage.bodies(Goodbye)


# ---- without a connection --------------------------------------------------------------------------------------------


def test_a_running_task_ends_although_the_connection_is_lost() -> None:
    stage = Stage(1)
    stage.give(run_of(1, first=1))

    def task() -> None:
        stage.say(Drain())
        stage.core.on_peer_lost(SCHEDULER, stage.now)
        stage.pass_time(5.0, heard=False)
        assert not stage.count(Exit)

    running(stage, 0, task)
    stage.pass_time(1.0, heard=False)
    assert not stage.count(Exit), "the scheduler does not have the result"
    stage.connect(resumed=True)
    assert stage.results()[1][0] == Status.SUCCESS and stage.bodies(Goodbye)


def test_a_scheduler_that_has_restarted_is_told_again_that_the_agent_leaves() -> None:
    stage = with_result()
    stage.say(Drain())
    assert len(stage.bodies(Leaving)) == 1
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    stage.connect(epoch=2)
    assert len(stage.bodies(Leaving)) == 2 and not stage.bodies(Goodbye)
    stage.say(MayLeave())
    assert stage.bodies(Goodbye)


def test_values_wait_for_the_next_connection() -> None:
    stage = with_result()
    stage.say(Drain())
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    stage.pass_time(5.0, heard=False)
    assert not stage.count(Exit)
    stage.connect(resumed=True)
    stage.say(MayLeave())
    assert stage.bodies(Goodbye)


def test_an_agent_that_leaves_ends_when_its_scheduler_does_not_come_back() -> None:
    stage = with_result(death_timeout_seconds=20.0)
    stage.say(Drain())
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    stage.pass_time(19.0, heard=False)
    assert not stage.count(Exit)
    stage.pass_time(2.0, heard=False)
    [ended] = [effect for effect in stage.effects if isinstance(effect, Exit)]
    assert ended.code == 1 and "no connection to the scheduler" in ended.text


def test_without_a_connection_it_waits_no_longer_than_the_grace_time() -> None:
    stage = with_result(grace_seconds=2.0)
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    leave(stage)
    stage.pass_time(1.8, heard=False)
    assert not stage.count(Exit)
    stage.pass_time(0.5, heard=False)
    assert stage.count(Exit) == 1


def test_an_agent_with_nothing_ends_at_once_without_a_connection() -> None:
    stage = Stage(1)
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    stage.say(Drain())  # is not heard
    leave(stage)
    stage.turn()
    assert stage.count(Exit) == 1


# ---- values of others ------------------------------------------------------------------------------------------------


def test_a_value_of_another_agent_is_fetched_served_and_released() -> None:
    stage = Stage(1)
    stage.say(KeepValues((KEY,)))
    assert stage.bodies(ObjectRequest) == [ObjectRequest(KEY)]
    stage.say(ObjectChunk(KEY, len(VALUE), 0, VALUE))
    assert [body.key for body in stage.bodies(ObjectStored)] == [KEY]
    stage.say(ObjectRequest(KEY))
    assert stage.bodies(ObjectChunk) == [ObjectChunk(KEY, len(VALUE), 0, VALUE)]
    stage.say(ObjectRelease((KEY,)))
    assert not stage.core.state.nodes and not stage.store.objects and stage.core.state.objects.is_empty


def test_a_kept_value_is_an_input_of_later_nodes() -> None:
    stage = Stage(1)
    stage.say(KeepValues((KEY,)))
    stage.say(ObjectChunk(KEY, len(VALUE), 0, VALUE))
    known = definition(double)
    options = TaskOptions(graph=2)
    stage.give(TaskRun(CLIENT, known.digest, known.name, b"", 2, 1, (), options, [[KEY]]), function=double)
    stage.run_all()
    assert pickle.loads(stage.results()[2][1]) == 10
    stage.say(Cancel((TaskColumn(CLIENT, (1, 2), (0, 1)),)))
    assert not stage.core.state.nodes and not stage.store.objects


def test_a_value_that_is_here_already_is_not_fetched() -> None:
    stage = Stage(1)
    stage.say(KeepValues((KEY,)))
    stage.say(ObjectChunk(KEY, len(VALUE), 0, VALUE))
    stage.say(KeepValues((KEY,)))
    assert len(stage.bodies(ObjectRequest)) == 1 and len(stage.bodies(ObjectStored)) == 2


def test_a_value_that_does_not_come_is_forgotten() -> None:
    for body in (ObjectMissing(KEY, "gone"), ObjectRelease((KEY,)), Cancel((TaskColumn(CLIENT, (1,), (0,)),))):
        stage = Stage(1)
        stage.say(KeepValues((KEY,)))
        stage.say(body)
        stage.say(ObjectChunk(KEY, len(VALUE), 0, VALUE))
        assert not stage.core.state.nodes and stage.core.state.objects.is_empty and not stage.bodies(ObjectStored)


def test_an_agent_that_leaves_keeps_nothing_for_others() -> None:
    stage = with_result()
    leave(stage)
    stage.say(KeepValues((ObjectKey(CLIENT, 2),)))
    assert not stage.bodies(ObjectRequest)


def test_what_a_client_has_sent_is_not_kept_as_a_value() -> None:
    """A wrong order: with it, the Cancel would drop the argument, and the task that waits for it."""
    argument = ObjectKey(CLIENT, 2**64 - 1)
    stage = Stage(1)
    stage.say(KeepValues((argument,)))
    assert not stage.core.state.nodes and not stage.bodies(ObjectRequest)
    stage.give(run_of(1, first=1, function=double, slots=[argument]), function=double)
    stage.say(Cancel((TaskColumn(CLIENT, (argument.number,), (0,)),)))
    stage.say(ObjectChunk(argument, len(VALUE), 0, VALUE))
    stage.run_all()
    assert pickle.loads(stage.results()[1][1]) == 10
