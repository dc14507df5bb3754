"""The scheduler is told how many calls wait in the client: late, seldom, and again if it has forgotten."""

from __future__ import annotations

from scaler.core.runs import Function
from scaler_protocol.messages import Body, UnsentCalls, UnsentCount, Welcome
from tests.unit.client.scheduler_side import SchedulerSide

CLEAN = Function("clean", b"clean", module="steps")
TRAIN = Function("train", b"train")


def told(bodies: list[Body]) -> list[tuple[tuple[str, int], ...]]:
    return [tuple((each.name, each.count) for each in body.counts) for body in bodies if isinstance(body, UnsentCalls)]


def connected() -> SchedulerSide:
    side = SchedulerSide()
    side.connect()
    side.exchange()
    return side


def wait_there(side: SchedulerSide, *functions: Function) -> None:
    for call, function in enumerate(functions):
        side.session.unsent_calls.add(call, function)
    assert side.session.next_deadline() == 0.0
    assert told(side.pass_time(0.0)) == []


def test_calls_that_leave_soon_are_not_mentioned() -> None:
    side = connected()
    wait_there(side, CLEAN, CLEAN)
    for call in (0, 1, 1):
        side.session.unsent_calls.discard(call)
    assert told(side.pass_time(1.0)) == []
    assert not side.session.unsent_calls.is_changed


def test_calls_are_counted_by_function_and_told_again_only_if_that_changes() -> None:
    side = connected()
    wait_there(side, CLEAN, CLEAN, TRAIN)
    bodies = side.pass_time(0.25)
    assert told(bodies) == [(("clean", 2), ("train", 1))]
    assert (
        UnsentCalls((UnsentCount(CLEAN.digest, "clean", 2, "steps"), UnsentCount(TRAIN.digest, "train", 1))) in bodies
    )
    assert not side.session.is_blank
    side.session.unsent_calls.add(2, TRAIN)
    side.pass_time(0.0)
    assert told(side.pass_time(0.25)) == []
    for call in range(3):
        side.session.unsent_calls.discard(call)
    side.pass_time(0.0)
    assert told(side.pass_time(0.25)) == [()]
    side.acknowledge()
    assert side.session.is_blank


def test_a_scheduler_that_has_restarted_is_told_again() -> None:
    side = connected()
    wait_there(side, TRAIN)
    assert told(side.pass_time(0.25)) == [(("train", 1),)]
    side.connect(epoch=8)
    side.exchange()
    assert told(side.pass_time(0.25)) == [(("train", 1),)]


def test_a_link_that_continues_repeats_nothing() -> None:
    side = connected()
    wait_there(side, TRAIN)
    assert told(side.pass_time(0.25)) == [(("train", 1),)]
    side.session.unsent_calls.on_welcome(Welcome(b"", 7).minor, True)
    assert not side.session.unsent_calls.is_changed


def test_an_older_scheduler_is_not_told() -> None:
    side = connected()
    side.session.unsent_calls.on_welcome(3, False)
    side.session.unsent_calls.add(1, TRAIN)
    assert not side.session.unsent_calls.is_changed
    side.session.unsent_calls.on_welcome(4, False)
    assert side.session.unsent_calls.is_changed
