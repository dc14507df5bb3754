"""What waits, what is in Symphony, and what becomes of it."""

from __future__ import annotations

import pickle
import random

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    AgentAttach,
    Cancel,
    FunctionDefinition,
    HeartbeatEcho,
    Hello,
    ObjectChunk,
    ObjectKey,
    ObjectRequest,
    Output,
    Results,
    ResultsReleased,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdraw,
    Withdrawn,
)
from scaler_worker.core.effects import Exit
from scaler_worker.symphony.core.effects import OpenSession
from scaler_worker.symphony.core.grid import LOSSES_LIMIT
from tests.unit.symphony.playbook import GridStage, nested
from tests.unit.worker.playbook import CLIENT, definition, nothing, run_of


def cancel(*tasks: int) -> Cancel:
    return Cancel((TaskColumn(CLIENT, tasks),))


# ---- the bound -----------------------------------------------------------------------------------------------------


def test_at_most_base_concurrency_are_there() -> None:
    stage = GridStage(2)
    stage.give(run_of(5))
    assert stage.tasks_there == [0, 1]
    stage.answer(0)
    assert stage.tasks_there == [1, 2]
    assert stage.results() == {0: (Status.SUCCESS, b"r")}


def test_a_deeper_task_passes() -> None:
    stage = GridStage(2)
    stage.give(run_of(3))
    stage.give(run_of(2, first=10, options=nested(1)))
    assert stage.tasks_there == [0, 1, 10]
    stage.give(run_of(1, first=20, options=nested(2)))
    assert stage.tasks_there == [0, 1, 10, 20]
    stage.answer(20)
    assert stage.tasks_there == [0, 1, 10], "11 is no deeper than 10, which runs"
    stage.answer(10)
    assert stage.tasks_there == [0, 1, 11]
    stage.answer(0)
    assert stage.tasks_there == [1, 11], "two are there: 2 waits for one of them"
    stage.answer(11)
    assert stage.tasks_there == [1, 2]


def test_a_shallow_task_never_passes() -> None:
    stage = GridStage(1)
    stage.give(run_of(3, options=nested(2)))
    stage.give(run_of(3, first=10))
    stage.give(run_of(3, first=20, options=nested(1)))
    assert stage.tasks_there == [0]


def test_the_depth_of_a_cancelled_task_does_not_count() -> None:
    """It may run for long, but nobody waits for it, and others wait for deeper tasks."""
    stage = GridStage(1)
    stage.give(run_of(1))
    stage.give(run_of(1, first=10, options=nested(1)))
    stage.say(cancel(10))
    stage.give(run_of(1, first=11, options=nested(1)), run_of(1, first=1))
    assert stage.tasks_there == [0, 10, 11]
    stage.say(cancel(0))
    assert stage.tasks_there == [0, 10, 11], "its slot is taken until Symphony answers"


# ---- answers -------------------------------------------------------------------------------------------------------


def test_figures_and_output_arrive() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    stage.answer(0, duration_us=5, cpu_time_us=3, memory_peak=7, stdout=b"out", stderr=b"err")
    row = next(iter(stage.bodies(Results)[0].runs[0].rows()))
    assert row[4:] == (5, 3, 7)
    assert stage.bodies(Output) == [Output(CLIENT, 0, 1, b"out"), Output(CLIENT, 0, 2, b"err")]


def test_a_second_answer_is_dropped() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    number = stage.number_of(0)
    stage.answer_number(number, b"first")
    stage.answer_number(number, b"second")
    stage.core.on_failure(number, "too late", stage.now)
    stage.turn()
    assert stage.results() == {0: (Status.SUCCESS, b"first")} and len(stage.bodies(Results)) == 1


def test_a_large_result_stays_until_it_is_asked_for() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    stage.answer(0, b"x" * 100_000)
    assert stage.results() == {0: (Status.SUCCESS_LARGE, (100_000).to_bytes(8, "little"))}
    stage.say(ObjectRequest(ObjectKey(CLIENT, 0)))
    assert b"".join(chunk.data for chunk in stage.bodies(ObjectChunk)) == b"x" * 100_000


def test_a_failure_names_the_task() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    stage.core.on_failure(stage.number_of(0), "Symphony could not run {task}.", stage.now)
    stage.turn()
    assert stage.results() == {} and stage.tasks_there == [0]
    stage.pass_time(0.7)
    assert stage.tasks_there == []
    assert stage.results() == {0: (Status.WORKER_DIED, b"Symphony could not run nothing.")}


def test_a_failure_with_its_exception() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    stage.core.on_failure(stage.number_of(0), "Symphony could not run {task}.", stage.now, b"report")
    stage.turn()
    stage.pass_time(0.7)
    assert stage.tasks_there == [] and stage.results() == {0: (Status.EXCEPTION, b"report")}


def test_a_failure_that_announces_the_end_of_the_session_does_not_count() -> None:
    stage = GridStage()
    stage.give(run_of(2))
    for task in (0, 1):
        stage.core.on_failure(stage.number_of(task), "{task} was ended with its session", stage.now)
    stage.say(cancel(1))
    stage.end_session()
    stage.pass_time(0.3)
    stage.open_session()
    stage.answer(0)
    stage.pass_time(1.0)
    assert stage.results() == {0: (Status.SUCCESS, b"r"), 1: (Status.CANCELLED, b"")}


def test_a_cancelled_task_that_fails_frees_its_slot() -> None:
    stage = GridStage(1)
    stage.give(run_of(2))
    number = stage.number_of(0)
    stage.say(cancel(0))
    stage.core.on_failure(number, "failed", stage.now)
    stage.pass_time(0.7)
    assert stage.tasks_there == [1] and stage.results() == {0: (Status.CANCELLED, b"")}


def test_results_say_which_slot_when_somebody_watches() -> None:
    stage = GridStage(2)
    stage.say(HeartbeatEcho(0.0, True))
    stage.give(run_of(2))
    stage.give(run_of(1, first=10, options=nested(1)))
    assert stage.core.grid.sent.busy_slots() == [True, True]
    for task in (1, 10, 0):
        stage.answer(task)
    places = {run.task(0): run.worker for results in stage.bodies(Results) for run in results.runs}
    assert places == {0: 0, 1: 1, 10: 65535}


# ---- arguments -----------------------------------------------------------------------------------------------------


def test_references_are_part_of_the_input() -> None:
    stage = GridStage()
    key = ObjectKey(CLIENT, 2**64 - 1)
    stage.give(run_of(1, slots=[key]))
    assert stage.bodies(ObjectRequest) == [ObjectRequest(key)] and not stage.inputs
    stage.say(ObjectChunk(key, 7, 0, b"con"))
    stage.say(ObjectChunk(key, 7, 3, b"tent"))
    assert [bytes(slot) for slot in stage.inputs[0].call.slots] == [b"content"]


def test_a_function_that_never_came() -> None:
    stage = GridStage()
    stage.say(Tasks([run_of(1)]))
    assert stage.results()[0][0] == Status.OBJECT_MISSING


def test_an_environment_is_refused() -> None:
    stage = GridStage()
    function, name = definition(nothing), b"E" * 16
    run = TaskRun(CLIENT, function.digest, function.name, name, 0, 1, (), TaskOptions(), [[pickle.dumps(0)]])
    environment = FunctionDefinition(name, "s", b"pickle", 6, '{"variables":{"A":"1"}}')
    stage.say(Tasks([run], [function], [environment]))
    assert stage.results()[0] == (Status.NO_WORKER, b"Cannot use an environment: the task was placed in Symphony.")


def test_graph_nodes_get_the_values_they_need() -> None:
    stage = GridStage(2)
    options = TaskOptions(graph=2, intermediate=True)
    stage.give(run_of(1, options=options))
    stage.give(run_of(1, first=1, slots=[ObjectKey(CLIENT, 0)], options=TaskOptions(graph=2)))
    assert stage.tasks_there == [0]
    stage.answer(0, pickle.dumps(5))
    assert stage.results()[0] == (Status.SUCCESS, b"") and stage.tasks_there == [1]
    assert stage.inputs[1].call.slots == (pickle.dumps(5),)
    stage.end_session()
    stage.pass_time(0.2)
    stage.open_session()
    assert stage.tasks_there == [1] and stage.inputs[2].call.slots == (pickle.dumps(5),)
    stage.answer(1, b"end")
    assert stage.results()[1] == (Status.SUCCESS, b"end")


def test_a_graph_node_that_fails_takes_those_that_wait_for_it_along() -> None:
    stage = GridStage(2)
    stage.give(run_of(1, options=TaskOptions(graph=2, intermediate=True)))
    stage.give(run_of(1, first=1, slots=[ObjectKey(CLIENT, 0)], options=TaskOptions(graph=2)))
    stage.answer(0, b"failure", Status.EXCEPTION)
    assert stage.results() == {0: (Status.EXCEPTION, b"failure")}
    assert [each.columns for each in stage.bodies(Withdrawn)] == [(TaskColumn(CLIENT, (1,), (1,)),)]


# ---- sessions ------------------------------------------------------------------------------------------------------


def test_a_dead_session_costs_nothing() -> None:
    stage = GridStage(2)
    stage.give(run_of(3))
    dead = [stage.number_of(task) for task in (0, 1)]
    stage.end_session()
    assert stage.tasks_there == []
    stage.pass_time(0.3)
    stage.open_session()
    assert stage.tasks_there == [0, 1]
    for number in dead:
        stage.answer_number(number, b"late")
    assert stage.results() == {}
    stage.answer(0)
    stage.answer(1)
    assert stage.tasks_there == [2] and len(stage.results()) == 2


def test_sessions_are_tried_again_less_and_less_often() -> None:
    stage = GridStage(session=False)
    tries = []
    for _ in range(1000):
        if len(stage.of(OpenSession)) > len(tries):
            tries.append(stage.now)
            stage.end_session("no session")
        stage.pass_time(0.1)
    pauses = [round(second - first, 1) for first, second in zip(tries, tries[1:], strict=False)]
    assert pauses[:5] == sorted(pauses[:5]) and max(pauses) <= 10.3 and pauses[-1] >= 10.0
    stage.pass_time(10.0)
    stage.open_session()
    stage.welcome()
    stage.give(run_of(1))
    stage.answer(0)
    before = len(stage.of(OpenSession))
    stage.end_session()
    stage.pass_time(0.3)
    assert len(stage.of(OpenSession)) == before + 1, "one that answered is followed soon"


def test_news_of_an_old_session_are_dropped() -> None:
    stage = GridStage()
    stage.give(run_of(1))
    old = stage.core.grid.session.number
    stage.end_session()
    stage.pass_time(0.3)
    stage.open_session()
    stage.core.on_session_failed(old, "once more", stage.now)
    stage.core.on_session_opened(old, stage.now)
    stage.turn()
    assert stage.tasks_there == [0]


def test_rerun_false_and_too_many_deaths() -> None:
    stage = GridStage(2)
    stage.give(run_of(1, options=TaskOptions(rerun=False)))
    stage.give(run_of(1, first=1))
    for number in range(LOSSES_LIMIT):
        assert 1 in stage.tasks_there
        stage.end_session()
        stage.pass_time(0.3)
        stage.open_session()
        stage.give(run_of(1, first=10 + number))
        stage.answer(10 + number)
    assert stage.results()[0][0] == stage.results()[1][0] == Status.WORKER_DIED
    assert b"must not run again" in stage.results()[0][1] and b"ended 20 times" in stage.results()[1][1]
    assert stage.tasks_there == []


def test_a_refused_input_is_tried_again_and_then_given_up() -> None:
    stage = GridStage(1)
    stage.give(run_of(1))
    stage.core.on_refused(stage.number_of(0), "full", stage.now)
    stage.turn()
    assert stage.tasks_there == []
    stage.pass_time(0.3)
    assert stage.tasks_there == [0]
    stage.core.on_taken(stage.number_of(0), stage.now)
    stage.answer(0)
    stage.give(run_of(1, first=1))
    for _ in range(10):
        if 1 in stage.tasks_there:
            stage.core.on_refused(stage.number_of(1), "full", stage.now)
        stage.pass_time(0.3)
        if stage.of(OpenSession)[-1].session == stage.core.grid.session.number and not stage.core.grid.session.is_open:
            stage.open_session()
    assert stage.results()[1] == (Status.WORKER_DIED, b"Symphony does not take the input of nothing: full")


def test_symphony_is_away_for_good() -> None:
    stage = GridStage(death_timeout_seconds=5.0)
    stage.end_session()
    stage.pass_time(4.9)
    assert not stage.of(Exit)
    stage.pass_time(0.3)
    assert stage.of(Exit) == [Exit(1, "Symphony is out of reach for 5 seconds")]


def test_while_symphony_is_away_others_get_the_tasks() -> None:
    stage = GridStage(2)
    stage.give(run_of(5))
    stage.end_session()
    stage.pass_time(4.5)
    assert not stage.bodies(Withdrawn)
    stage.pass_time(1.0)
    assert all(body.leaving for body in stage.bodies(Withdrawn))
    back = [task for body in stage.bodies(Withdrawn) for column in body.columns for task in column.tasks]
    assert sorted(back) == [0, 1, 2, 3, 4]
    stage.give(run_of(1, first=7))
    assert stage.bodies(Withdrawn)[-1].columns == (TaskColumn(CLIENT, (7,), (1,)),)
    hellos = len(stage.bodies(Hello))
    stage.pass_time(10.0)
    stage.open_session()
    assert len(stage.bodies(Hello)) == hellos + 1 and stage.bodies(Hello)[-1].epoch == 0
    stage.welcome()
    stage.give(run_of(2, first=10))
    assert stage.tasks_there == [10, 11] and stage.bodies(AgentAttach)[-1].holds == ()


def test_a_new_scheduler_learns_that_symphony_is_away() -> None:
    stage = GridStage(2)
    stage.end_session()
    stage.pass_time(6.0)
    stage.sent.clear()
    stage.connect(epoch=2)
    assert stage.bodies(AgentAttach) and stage.bodies(Withdrawn) == [Withdrawn((), leaving=True)]


# ---- ending tasks --------------------------------------------------------------------------------------------------


def test_cancelled_tasks_end_at_once() -> None:
    stage = GridStage(1)
    stage.give(run_of(3))
    stage.say(cancel(0, 2))
    assert stage.results() == {0: (Status.CANCELLED, b""), 2: (Status.CANCELLED, b"")}
    assert stage.tasks_there == [0]
    stage.answer(0, b"dropped")
    assert stage.tasks_there == [1]
    assert stage.results()[0] == (Status.CANCELLED, b"")


def test_a_cancelled_task_is_not_sent_to_the_next_session() -> None:
    stage = GridStage(2)
    stage.give(run_of(2))
    stage.say(cancel(0))
    stage.end_session()
    stage.pass_time(0.3)
    stage.open_session()
    assert stage.tasks_there == [1]


def test_a_cancel_of_another_attempt() -> None:
    stage = GridStage(2)
    stage.give(run_of(1, attempt=2))
    stage.say(Cancel((TaskColumn(CLIENT, (0,), (1,)),)))
    assert stage.results() == {}
    stage.say(Cancel((TaskColumn(CLIENT, (0,), (2,)),)))
    assert stage.results() == {0: (Status.CANCELLED, b"")}


def test_a_time_limit() -> None:
    stage = GridStage(1)
    stage.give(run_of(1, options=TaskOptions(timeout_seconds=1.0)))
    stage.pass_time(0.9)
    assert stage.results() == {}
    stage.pass_time(0.3)
    assert stage.results() == {0: (Status.TIMED_OUT, b"nothing took more than its 1 seconds.")}
    assert stage.tasks_there == [0]
    stage.answer(0)
    assert stage.tasks_there == [] and len(stage.results()) == 1


def test_withdraw_takes_what_waits_only() -> None:
    stage = GridStage(2)
    stage.give(run_of(5))
    stage.say(Withdraw(10))
    assert stage.bodies(Withdrawn) == [Withdrawn((TaskColumn(CLIENT, (2, 3, 4), (1, 1, 1)),))]
    assert stage.tasks_there == [0, 1]


# ---- the scheduler -------------------------------------------------------------------------------------------------


def test_nothing_starts_when_the_scheduler_is_not_heard() -> None:
    stage = GridStage(1)
    stage.give(run_of(2))
    stage.pass_time(1.5, heard=False)
    stage.answer(0)
    assert stage.tasks_there == []
    stage.pass_time(0.2)
    assert stage.tasks_there == [1]


def test_a_new_scheduler_is_told_what_is_here() -> None:
    stage = GridStage(1)
    stage.give(run_of(3))
    stage.say(cancel(0))
    stage.answer(0)
    stage.say(ResultsReleased((1,)))
    stage.sent.clear()
    stage.connect(epoch=2)
    attach = stage.bodies(AgentAttach)[-1]
    assert sorted(task for column in attach.holds for task in column.tasks) == [1, 2]
    assert attach.worker_names == ("w0",)


def test_stop_waits_for_what_runs() -> None:
    stage = GridStage(2, grace_seconds=5.0)
    stage.give(run_of(3))
    stage.core.on_stop(stage.now)
    stage.turn()
    assert stage.bodies(Withdrawn)[-1].columns == (TaskColumn(CLIENT, (2,), (1,)),)
    stage.pass_time(1.0)
    assert not stage.of(Exit)
    stage.say(cancel(0))
    stage.answer(1)
    stage.pass_time(1.0)
    assert stage.of(Exit) == [Exit(0, "stopped")]


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_events(seed: int) -> None:
    """Whatever happens, each task ends once, the bound holds and nothing stays (``check`` runs after each step)."""
    chance = random.Random(seed)
    slots = chance.randint(1, 4)
    stage = GridStage(slots)
    given: list[int] = []
    numbers: list[int] = []
    for _ in range(400):
        what = chance.random()
        if what < 0.25:
            count, depth = chance.randint(1, 4), chance.choice([0, 0, 0, 1, 2])
            options = TaskOptions(depth=depth, rerun=chance.random() < 0.8)
            stage.give(run_of(count, first=len(given), options=options))
            given.extend(range(len(given), len(given) + count))
        elif what < 0.65 and stage.core.grid.sent.by_number:
            stage.answer_number(chance.choice(list(stage.core.grid.sent.by_number)))
        elif what < 0.7 and given:
            stage.say(cancel(*chance.sample(given, min(3, len(given)))))
        elif what < 0.75 and numbers:
            stage.answer_number(chance.choice(numbers))
        elif what < 0.8 and stage.core.grid.sent.by_number:
            stage.core.on_refused(chance.choice(list(stage.core.grid.sent.by_number)), "full", stage.now)
            stage.turn()
        elif what < 0.84:
            stage.end_session()
        else:
            stage.pass_time(chance.choice([0.1, 0.5]))
        session = stage.core.grid.session
        if not session.is_open and stage.of(OpenSession)[-1].session == session.number:
            stage.open_session() if chance.random() < 0.7 else stage.end_session("no")
        if len(stage.bodies(Hello)) > len(stage.welcomed):
            stage.welcome()
        stage.release()
        numbers = [each.number for each in stage.inputs[-50:]]
        depths = [sent.depth for sent in stage.core.grid.sent.by_number.values()]
        assert depths.count(0) <= slots
    _let_all_end(stage)
    rows = [row for results in stage.bodies(Results) for run in results.runs for row in run.rows()]
    assert sorted([*(row[0] for row in rows), *_given_back(stage)]) == given


def _given_back(stage: GridStage) -> list[int]:
    return [task for body in stage.bodies(Withdrawn) for column in body.columns for task in column.tasks]


def _let_all_end(stage: GridStage) -> None:
    for _ in range(5000):
        session = stage.core.grid.session
        if not session.is_open and stage.of(OpenSession)[-1].session == session.number:
            stage.open_session()
        if stage.core.grid.sent.by_number:
            stage.answer_number(next(iter(stage.core.grid.sent.by_number)))
        elif stage.core.grid.is_idle:
            return
        else:
            stage.pass_time(0.5)
    raise AssertionError("it does not end")
