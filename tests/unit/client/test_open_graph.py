"""The open graph of a session, against a scheduler's end that is driven by hand, in virtual time."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from scaler.client.calls import shape_of
from scaler.core.outcome import Outcome
from scaler_protocol.messages import Cancel, ObjectKey, ObjectRelease, Results, Status, TaskOptions, Tasks
from tests.unit.client.scheduler_side import SESSION, SchedulerSide, Sink, success, tasks_in

LARGE = (int(Status.SUCCESS_LARGE), (100_000).to_bytes(8, "little"))
FAILED = (int(Status.EXCEPTION), b"why")
CANCELLED = (int(Status.CANCELLED), b"")
MISSING = (int(Status.OBJECT_MISSING), b"")


class Dependent(Sink):
    """Remembers which input was to blame."""

    culprit: Any = None

    def blame(self, culprit: Any) -> None:
        self.culprit = culprit


@pytest.fixture
def side() -> SchedulerSide:
    connected = SchedulerSide()
    connected.connect()
    return connected


def send_node(side: SchedulerSide, *inputs: Sink, function: Any = operator.neg) -> Dependent:
    """A call whose arguments are the results of ``inputs``, or 1."""
    sink = Dependent()
    submissions = side.session.submissions
    shape = shape_of(side.book.find(function), max(1, len(inputs)), (), TaskOptions()).variant(is_node=True)
    if any(not submissions.id_of(each) for each in inputs):
        submissions.close_batch()
    slots = [ObjectKey(SESSION, submissions.id_of(each)) for each in inputs] or [success(1)[1]]
    submissions.add_node(shape, slots, 24, sink, inputs)
    return sink


def send_chain(side: SchedulerSide, length: int) -> list[Dependent]:
    sinks = [send_node(side)]
    for _ in range(length - 1):
        sinks.append(send_node(side, sinks[-1]))
    return sinks


def statuses(sinks: list[Dependent]) -> list[int | None]:
    return [sink.outcomes[-1].status if sink.outcomes else None for sink in sinks]


def cancels_in(bodies: list[Any]) -> list[int]:
    return [task for body in bodies if isinstance(body, Cancel) for column in body.columns for task in column.tasks]


def test_nodes_join_one_graph_whose_number_is_no_task(side: SchedulerSide) -> None:
    send_chain(side, 4)
    (body,) = side.exchange()
    assert isinstance(body, Tasks) and tasks_in([body]) == [1, 2, 3, 4]
    options = {run.options for run in body.runs}
    assert len(options) == 1 and all(each.grows and each.graph > 4 for each in options)


def links_in(bodies: list[Any]) -> dict[int, int]:
    """The tasks that name another one, and that one."""
    runs = [run for body in bodies if isinstance(body, Tasks) for run in body.runs]
    slots = {run.first_task + row: run.slot(row, 0) for run in runs for row in range(run.count)}
    return {task: slot.number for task, slot in slots.items() if isinstance(slot, ObjectKey)}


def test_a_chain_of_calls_of_one_function_is_one_run(side: SchedulerSide) -> None:
    send_chain(side, 4)
    (body,) = side.exchange()
    assert [(run.first_task, run.count) for run in body.runs] == [(1, 4)]
    assert links_in([body]) == {2: 1, 3: 2, 4: 3}


def test_a_node_may_name_any_node_of_the_open_batch(side: SchedulerSide) -> None:
    first = send_node(side)
    second = send_node(side, first, function=operator.pos)
    third = send_node(side, second)
    send_node(side, third, function=operator.pos)
    bodies = side.exchange() + side.acknowledge()
    assert tasks_in(bodies) == [1, 2, 3, 4]
    assert links_in(bodies) == {2: 1, 3: 2, 4: 3}


def test_a_cancelled_node_of_the_open_batch_keeps_its_id(side: SchedulerSide) -> None:
    first = send_node(side)
    second = send_node(side, first, function=operator.pos)
    assert side.cancel(first)
    first.settle(Outcome(*CANCELLED))
    bodies = side.exchange() + side.acknowledge()
    assert tasks_in(bodies) == [2] and links_in(bodies) == {2: 1}
    side.say(Results([side.results((2, *MISSING))]))
    assert statuses([second]) == [Status.CANCELLED] and second.culprit is first
    assert not side.session.has_unfinished


def test_nothing_is_left_of_a_graph_whose_only_node_was_cancelled_before_it_had_an_id(side: SchedulerSide) -> None:
    only = send_node(side)
    assert side.cancel(only)
    side.exchange()
    side.pass_time(1.0)
    side.exchange()
    assert not side.session.ranges and not side.session.submissions.graphs


def test_other_tasks_stay_outside(side: SchedulerSide) -> None:
    send_chain(side, 2)
    side.submit(operator.pos, 1)
    runs = [run for body in side.exchange() + side.acknowledge() if isinstance(body, Tasks) for run in body.runs]
    assert [run.options.graph > 0 for run in runs] == [True, False]


def test_a_function_whose_results_are_arguments_makes_nodes(side: SchedulerSide) -> None:
    side.submit(operator.inv, 1)
    side.exchange()
    side.book.find(operator.inv).is_input = True
    side.submit(operator.inv, 1)
    runs = [run for body in side.acknowledge() if isinstance(body, Tasks) for run in body.runs]
    assert [run.options.graph > 0 for run in runs] == [True]


def test_an_idle_graph_is_closed_after_a_while_and_another_one_opened(side: SchedulerSide) -> None:
    sinks = send_chain(side, 2)
    graph = sinks[0].task_range.part.group
    side.exchange()
    side.say(Results([side.results((1, *success(1)), (2, *success(2)))]))
    assert not cancels_in(side.exchange()) and not side.session.has_unfinished
    assert cancels_in(side.pass_time(0.1)) == [graph.last] and not side.session.submissions.graphs
    assert send_node(side).task_range.part.group is not graph


def test_nodes_that_have_ended_are_stated_to_a_restarted_scheduler_as_intermediates(side: SchedulerSide) -> None:
    sinks = send_chain(side, 3)
    side.exchange()
    side.say(Results([side.results((1, *success(1)))]))
    side.session.on_connected(side.now)
    side.exchange()
    side.bodies.clear()
    side.welcome(epoch=8)
    side.exchange()
    stated = [run for body in side.bodies if isinstance(body, Tasks) for run in body.runs]
    assert [(run.first_task, run.options.intermediate) for run in stated] == [(1, True), (2, False)]
    assert tasks_in(side.bodies) == [1, 2, 3]
    assert send_node(side).task_range.part.group is not sinks[0].task_range.part.group


@pytest.mark.parametrize("order", ([1, 2, 3], [3, 2, 1], [2, 1, 3]))
@pytest.mark.parametrize("status", (CANCELLED, MISSING))
def test_a_failure_is_that_of_all_that_need_it(
    side: SchedulerSide, order: list[int], status: tuple[int, bytes]
) -> None:
    sinks = send_chain(side, 3)
    side.exchange()
    rows = {1: (1, *FAILED), 2: (2, *status), 3: (3, *status)}
    side.say(Results([side.results(*(rows[task] for task in order))]))
    assert statuses(sinks) == [Status.EXCEPTION] * 3
    assert [sink.culprit for sink in sinks] == [None, sinks[0], sinks[1]]
    assert not side.session.has_unfinished


def test_a_cancel_reaches_all_that_need_it(side: SchedulerSide) -> None:
    sinks = send_chain(side, 3)
    side.exchange()
    assert side.cancel(sinks[0])
    sinks[0].settle(Outcome(*CANCELLED))
    assert cancels_in(side.exchange() + side.pass_time(0.01)) == [1]
    side.say(Results([side.results((2, *CANCELLED), (3, *CANCELLED))]))
    assert statuses(sinks) == [Status.CANCELLED] * 3 and sinks[1].culprit is sinks[0]
    assert not side.session.has_unfinished


def test_a_large_value_keeps_the_nodes_it_may_be_made_from(side: SchedulerSide) -> None:
    sinks = send_chain(side, 2)
    side.exchange()
    side.say(Results([side.results((1, *success(1)), (2, *LARGE))]))
    assert side.session.has_unfinished and 0 in sinks[0].task_range.part.values
    sinks[1].outcomes.clear()  # with the result, which nothing else holds
    bodies = side.exchange()
    assert [key.number for body in bodies if isinstance(body, ObjectRelease) for key in body.keys] == [2]
    assert not side.session.has_unfinished


def test_tasks_that_name_a_value_leave_before_its_release(side: SchedulerSide) -> None:
    first = send_node(side)
    side.exchange()
    side.say(Results([side.results((1, *LARGE))]))
    side.exchange()
    send_node(side)
    send_node(side, first)
    first.outcomes.clear()
    kinds = [type(body) for body in side.exchange()]
    assert kinds == [Tasks, ObjectRelease]


def test_a_full_graph_gets_no_more_nodes(side: SchedulerSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.core.open_graph.NODES_LIMIT", 2)
    first, second = send_node(side), send_node(side)
    side.exchange()
    third = send_node(side)
    assert first.task_range.part.group is second.task_range.part.group is not third.task_range.part.group
    side.exchange()
    side.say(Results([side.results((1, *success(1)), (2, *success(1)))]))
    assert cancels_in(side.acknowledge() + side.pass_time(0.01)) == [first.task_range.part.group.last]
