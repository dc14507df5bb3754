"""Graphs in the client session, against a scheduler's end that is driven by hand, in virtual time."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from typing import Any

import pytest

from scaler.core.graphs import GraphGroup, fill
from scaler.core.outcome import CANCELLED, DISCONNECTED
from scaler.core.runs import Shape
from scaler_protocol.messages import (
    Cancel,
    ObjectKey,
    ObjectRelease,
    ObjectRequest,
    Results,
    Status,
    TaskOptions,
    Tasks,
)
from tests.unit.client.scheduler_side import SESSION, SchedulerSide, Sink, success, tasks_in

LARGE = (int(Status.SUCCESS_LARGE), (100_000).to_bytes(8, "little"))
FAILED = (int(Status.EXCEPTION), b"why")


def send_chain(side: SchedulerSide, length: int, targets: set[int]) -> tuple[GraphGroup, dict[int, Sink]]:
    """Task n of the graph needs task n - 1; ``targets`` by their place."""
    session = side.session
    first = session.submissions.next_task()
    group = GraphGroup(first, first + length - 1)
    wanted = TaskOptions(graph=group.last)
    function = side.book.find(operator.neg)
    shapes = {True: Shape(function, 1, (), wanted)}
    shapes[False] = Shape(function, 1, (), dataclasses.replace(wanted, intermediate=True))
    sinks: dict[int, Sink] = {}
    for wanted_now, places in itertools.groupby(range(length), lambda place: place in targets):
        entry = session.submissions.open_graph_range(shapes[wanted_now], group)
        assert entry.builder is not None
        members = list(places)
        for place in members:
            entry.builder.append([ObjectKey(SESSION, first + place - 1) if place else b"1"])
        own = {place: Sink() for place in members if wanted_now}
        fill(entry, list(own.values()), [place < length - 1 for place in own])
        sinks.update(own)
    assert session.submissions.add_graph(group)
    session.check()
    return group, sinks


def outcome_of(sink: Sink) -> int | None:
    assert len(sink.outcomes) <= 1
    return sink.outcomes[0].status if sink.outcomes else None


def test_a_graph_leaves_in_one_message(side: SchedulerSide) -> None:
    group, _ = send_chain(side, 5, {4})
    bodies = side.exchange()
    assert len(bodies) == 1 and tasks_in(bodies) == [1, 2, 3, 4, 5]
    assert isinstance(bodies[0], Tasks)
    runs = bodies[0].runs
    assert [run.options.intermediate for run in runs] == [True, False]
    assert {run.options.graph for run in runs} == {group.last}
    assert runs[0].slot(2, 0) == ObjectKey(SESSION, 2) and runs[1].slot(0, 0) == ObjectKey(SESSION, 4)


def test_a_graph_must_have_the_next_ids(side: SchedulerSide) -> None:
    first = side.session.submissions.next_task()
    side.submit(operator.neg, 1)
    assert not side.session.submissions.add_graph(GraphGroup(first, first + 3))
    side.session.check()


def test_open_tasks_leave_before_the_graph(side: SchedulerSide) -> None:
    side.submit(operator.neg, 1)
    side.exchange()
    side.submit(operator.neg, 2)
    group, _ = send_chain(side, 3, {2})
    assert group.first == 3
    side.acknowledge()
    assert tasks_in(side.bodies) == [1, 2, 3, 4, 5]


def test_all_ends_with_the_last_target(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 5, {1, 4})
    side.exchange()
    side.say(Results([side.results((2, *success(1)))]))
    assert outcome_of(sinks[1]) == Status.SUCCESS and side.session.has_unfinished
    assert not side.session.endings.cancel(sinks[1].task_range, sinks[1].task_index)
    side.say(Results([side.results((5, *success(2)))]))
    assert outcome_of(sinks[4]) == Status.SUCCESS and not side.session.has_unfinished
    assert side.exchange() == [] or tasks_in(side.bodies) == [1, 2, 3, 4, 5]


def test_results_twice_and_results_of_intermediates_change_nothing(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 5, {1, 4})
    side.exchange()
    for _ in range(2):
        side.say(Results([side.results((2, *success(1)), (3, *success(1)))]))
    assert outcome_of(sinks[1]) == Status.SUCCESS
    side.say(Results([side.results((5, *success(2)))]))
    side.say(Results([side.results((5, *success(3)), (1, *FAILED))]))
    assert not side.session.has_unfinished


def test_a_failure_ends_the_graph_and_cancels_the_rest(side: SchedulerSide) -> None:
    group, sinks = send_chain(side, 6, {1, 3, 5})
    side.exchange()
    side.say(Results([side.results((2, *success(1)))]))
    side.say(Results([side.results((3, *FAILED))]))
    assert [outcome_of(sinks[place]) for place in (1, 3, 5)] == [Status.SUCCESS, Status.EXCEPTION, Status.EXCEPTION]
    assert not side.session.has_unfinished and not group.ranges
    cancels = [body for body in side.exchange() + side.pass_time(0.01) if isinstance(body, Cancel)]
    assert [column.tasks for body in cancels for column in body.columns] == [(1, 4, 5, 6)]


def test_the_first_failure_counts(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 3, {2})
    side.exchange()
    cancelled = int(Status.CANCELLED)
    side.say(Results([side.results((1, *FAILED), (2, cancelled, b""), (3, cancelled, b""))]))
    assert outcome_of(sinks[2]) == Status.EXCEPTION


def test_cancel(side: SchedulerSide) -> None:
    group, sinks = send_chain(side, 4, {2, 3})
    side.exchange()
    assert side.session.endings.cancel_graph(group)
    assert outcome_of(sinks[2]) == outcome_of(sinks[3]) == Status.CANCELLED
    assert not side.session.endings.cancel_graph(group) and not side.session.has_unfinished
    side.say(Results([side.results((4, *success(1)))]))
    assert len(sinks[3].outcomes) == 1


def test_what_was_cancelled_before_it_left_never_leaves() -> None:
    side = SchedulerSide()
    group, sinks = send_chain(side, 4, {3})
    assert side.session.endings.cancel_graph(group)
    side.connect()
    assert side.exchange() == [] and outcome_of(sinks[3]) == Status.CANCELLED


def test_a_restarted_scheduler_is_told_of_all_it_may_need(side: SchedulerSide) -> None:
    send_chain(side, 5, {1, 2, 4})
    side.exchange()
    side.say(Results([side.results((2, *success(1)))]))
    side.connect(epoch=8)
    assert tasks_in(side.exchange()) == [1, 2, 3, 4, 5]  # 2 has ended, but 3 needs it
    side.say(Results([side.results((2, *success(1)), (3, *success(1)), (5, *success(1)))]))
    assert not side.session.has_unfinished
    side.connect(epoch=9)
    assert side.exchange() == []


def test_an_ended_target_that_nothing_needs_is_not_stated_again(side: SchedulerSide) -> None:
    session = side.session
    group = GraphGroup(1, 3)
    shape = Shape(side.book.find(operator.neg), 1, (), TaskOptions(graph=3))
    entry = session.submissions.open_graph_range(shape, group)
    assert entry.builder is not None
    for _ in range(3):
        entry.builder.append([b"1"])
    fill(entry, [Sink(), Sink(), Sink()], [False] * 3)
    assert session.submissions.add_graph(group)
    side.exchange()
    side.say(Results([side.results((2, *success(1)))]))
    side.connect(epoch=8)
    assert tasks_in(side.exchange()) == [1, 3]


def test_large_results_keep_the_graph_until_they_are_fetched(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 3, {0, 2})
    side.exchange()
    side.say(Results([side.results((1, *LARGE), (3, *LARGE))]))
    assert side.session.has_unfinished
    side.connect(epoch=8)
    assert tasks_in(side.exchange()) == [1, 2, 3]
    for place in (0, 2):
        fetched = Sink()
        side.session.large.fetch(sinks[place].outcomes[0].payload, fetched)
        assert [body for body in side.exchange() if isinstance(body, ObjectRequest)]
        key = ObjectKey(SESSION, place + 1)
        side.session.large._end_fetch(side.session.large.fetches[key], CANCELLED)
        side.session.check()
    assert not side.session.has_unfinished
    assert [body.keys for body in side.exchange() if isinstance(body, ObjectRelease)]


def test_a_large_result_that_is_dropped_is_given_up(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 3, {2})
    side.exchange()
    side.say(Results([side.results((3, *LARGE))]))
    assert side.session.has_unfinished
    sinks[2].outcomes.clear()
    side.exchange()
    assert not side.session.has_unfinished


def test_a_failed_graph_keeps_its_large_results(side: SchedulerSide) -> None:
    _, sinks = send_chain(side, 4, {1, 3})
    side.exchange()
    side.say(Results([side.results((2, *LARGE), (4, *FAILED))]))
    assert side.session.has_unfinished and outcome_of(sinks[3]) == Status.EXCEPTION
    side.say(Results([side.results((2, *FAILED))]))  # it ran again, as its agent was lost
    fetched = Sink()
    side.session.large.fetch(sinks[1].outcomes[0].payload, fetched)
    assert outcome_of(fetched) == Status.EXCEPTION
    assert not side.session.has_unfinished


def test_uploads_are_released_with_the_graph(side: SchedulerSide) -> None:
    upload = side.session.objects.add(side.session.objects.next_key(), b"x" * 50_000)
    group, _ = send_chain(side, 4, {3})
    entry = group.ranges[0]
    side.session.objects.refer(entry, 0, [upload])
    side.session.objects.refer(entry, 2, [upload])
    side.session.objects.let_go(upload)
    side.exchange()
    side.say(Results([side.results((4, *success(1)))]))
    assert [body.keys for body in side.exchange() if isinstance(body, ObjectRelease)] == [(upload.key,)]


@pytest.mark.parametrize("how", ["clear", "quit", "give up"])
def test_whatever_ends_all_ends_graphs(how: str) -> None:
    side = SchedulerSide(timeout_seconds=5)
    side.connect()
    group, sinks = send_chain(side, 4, {1, 3})
    side.exchange()
    if how == "clear":
        side.session.clear()
    elif how == "quit":
        side.session.quit(side.now)
    else:
        side.session.on_peer_lost(b"", side.now)
        side.pass_time(6)
    expected: Any = DISCONNECTED if how == "give up" else Status.CANCELLED
    assert {outcome_of(sink) for sink in sinks.values()} == {expected}
    assert not side.session.has_unfinished and not side.session.endings.cancel_graph(group)
