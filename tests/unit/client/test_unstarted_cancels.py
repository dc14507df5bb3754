"""The session asks the scheduler to cancel what has not started."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler_protocol.messages import Body, Cancel, CancelRefused, Envelope, Results, Status, TaskColumn, Welcome
from tests.unit.client.scheduler_side import SESSION, SchedulerSide, Sink, success, tasks_in


@pytest.fixture
def side() -> SchedulerSide:
    made = SchedulerSide()
    made.connect()
    return made


def ask(side: SchedulerSide, *tasks: int) -> list[Sink]:
    sinks = [Sink() for _ in tasks]
    side.session.unstarted_cancels.ask(dict(zip(tasks, sinks, strict=True)))
    return sinks


def asked_in(bodies: list[Body]) -> list[int]:
    cancels = [body for body in bodies if isinstance(body, Cancel)]
    assert all(body.unstarted_only for body in cancels)
    return [task for body in cancels for column in body.columns for task in column.tasks]


def refused(*tasks: int, moved: bool = False) -> CancelRefused:
    return CancelRefused((TaskColumn(SESSION, tasks),), moved)


def test_a_refusal_answers_and_the_task_continues(side: SchedulerSide) -> None:
    sink = side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    assert asked_in(side.exchange()) == [1]
    side.say(refused(1))
    assert answer.outcomes and not sink.outcomes
    side.say(Results([side.results((1, *success(2.0)))]))
    assert sink.outcomes[0].status == Status.SUCCESS


def test_a_task_that_is_cancelled_ends_with_a_result(side: SchedulerSide) -> None:
    sink = side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    side.say(Results([side.results((1, Status.CANCELLED, b""))]))
    assert sink.outcomes[0].status == Status.CANCELLED and not answer.outcomes
    side.session.unstarted_cancels.withdraw({1: answer})
    assert not side.session.unstarted_cancels


def test_what_has_moved_is_asked_for_again(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    side.exchange()
    side.say(refused(1, moved=True))
    assert asked_in(side.exchange()) == [1] and not answer.outcomes
    side.session.unstarted_cancels.withdraw({1: answer})
    side.say(refused(1, moved=True))
    assert asked_in(side.exchange()) == []


def test_a_restarted_scheduler_refuses_and_is_not_told_to_cancel(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    side.session.on_peer_lost(b"", side.now)
    side.connect(epoch=8)
    bodies = side.exchange()
    assert tasks_in(bodies) == [1] and asked_in(bodies) == []
    assert answer.outcomes


def test_an_old_scheduler_is_not_asked() -> None:
    side = SchedulerSide()
    side.session.on_connected(side.now)
    side.exchange()
    welcome = Welcome(b"w" * 16, 7, 0, False, number=side.hellos[-1].number)
    side.deliver(Envelope(replace(welcome, minor=2)))
    side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    assert answer.outcomes and asked_in(side.exchange()) == []


def test_the_end_of_the_session_answers(side: SchedulerSide) -> None:
    side.submit(math.sqrt, 4.0)
    side.exchange()
    (answer,) = ask(side, 1)
    side.session.quit(side.now)
    assert answer.outcomes
