"""Events and variables as a client's session sees them: what it says, what it is told, and what it says again."""

from __future__ import annotations

import pytest

from scaler.core import named_calls
from scaler.core.named_calls import CallState, Named, NamedCall
from scaler.core.outcome import DISCONNECTED
from scaler_protocol.messages import (
    CoordinationKind,
    Envelope,
    NamedAction,
    NamedReply,
    NamedRequest,
    NamedState,
    RefusalReason,
    Refused,
    TaskName,
    Welcome,
)
from tests.unit.client.scheduler_side import SchedulerSide, Sink

KIND = CoordinationKind.VARIABLE


def call(
    side: SchedulerSide, action: NamedAction, value: bytes = b"", name: str = "name", task: TaskName | None = None
) -> NamedCall:
    new = NamedCall(Named(KIND, name), action, value, task, Sink())
    side.session.named.start(new)
    return new


def answer(side: SchedulerSide, new: NamedCall, state: NamedState, value: bytes = b"", version: int = 0) -> None:
    side.say(NamedReply(KIND, state, new.number, "", value, version))


def requests(side: SchedulerSide) -> list[tuple[NamedAction, int]]:
    return [(body.named_action, body.number) for body in side.exchange() if isinstance(body, NamedRequest)]


def changed(side: SchedulerSide, value: bytes, version: int, name: str = "name") -> NamedCall:
    new = call(side, NamedAction.SET, value, name)
    side.exchange()
    answer(side, new, NamedState.DONE, version=version)
    return new


def test_a_call_waits_and_is_answered(side: SchedulerSide) -> None:
    new = call(side, NamedAction.READ, task=TaskName(b"t" * 16, 5, 2))
    assert side.exchange() == [NamedRequest(KIND, NamedAction.READ, 1, "name", b"", 0, b"t" * 16, 5, 2)]
    first, second = new.sink, Sink()
    answer(side, new, NamedState.WAITING)
    assert first.outcomes and new.state is CallState.WAITING  # type: ignore[union-attr]
    side.session.named.await_change(new, second)
    assert not second.outcomes and side.session.named
    answer(side, new, NamedState.DONE, b"value")
    assert second.outcomes and new.state is CallState.DONE and new.result == b"value"
    assert not side.session.named and side.session.is_blank


def test_a_change_before_it_was_awaited_is_told_at_once(side: SchedulerSide) -> None:
    new = call(side, NamedAction.READ)
    side.exchange()
    answer(side, new, NamedState.WAITING)
    answer(side, new, NamedState.DONE)
    side.session.named.await_change(new, sink := Sink())
    assert sink.outcomes


@pytest.mark.parametrize(("said", "state"), [(NamedState.ENDED, CallState.ENDED), (NamedState.DONE, CallState.DONE)])
def test_one_that_is_given_up_may_have_been_done(side: SchedulerSide, said: NamedState, state: CallState) -> None:
    new = call(side, NamedAction.READ)
    side.exchange()
    answer(side, new, NamedState.WAITING)
    side.session.named.give_up(new, sink := Sink())
    assert requests(side) == [(NamedAction.WITHDRAW, 1)] and not sink.outcomes
    answer(side, new, said)
    assert sink.outcomes and new.state is state


def test_giving_up_what_is_answered_says_nothing(side: SchedulerSide) -> None:
    new = changed(side, b"a", 1)
    side.session.named.give_up(new, sink := Sink())
    assert sink.outcomes and requests(side) == []


# ---- another scheduler -----------------------------------------------------------------------------------------------


def test_another_scheduler_is_told_the_last_changes_and_what_was_not_answered(side: SchedulerSide) -> None:
    changed(side, b"old", 1)
    last, other = changed(side, b"new", 2), changed(side, b"b", 3, "other")
    cleared = call(side, NamedAction.CLEAR, name="other")
    side.exchange()
    answer(side, cleared, NamedState.DONE, version=4)
    waiting, leaving = call(side, NamedAction.READ, name="x"), call(side, NamedAction.READ, name="y")
    side.session.named.give_up(leaving, sink := Sink())
    side.exchange()
    side.connect(epoch=8)
    assert [body for body in side.exchange() if isinstance(body, NamedRequest)] == [
        NamedRequest(KIND, NamedAction.RESTATE, last.number, "name", b"new", 2),
        NamedRequest(KIND, NamedAction.RESTATE_CLEARED, cleared.number, "other", b"", 4),
        NamedRequest(KIND, NamedAction.READ, waiting.number, "x"),
    ]
    assert other.state is CallState.DONE and sink.outcomes and leaving.state is CallState.ENDED


def test_a_change_that_was_replaced_is_not_stated_again(side: SchedulerSide) -> None:
    new = changed(side, b"a", 1)
    answer(side, new, NamedState.ENDED)
    side.connect(epoch=8)
    assert requests(side) == []


def test_a_resumed_link_needs_no_restatement(side: SchedulerSide) -> None:
    changed(side, b"a", 1)
    call(side, NamedAction.READ)
    side.exchange()
    side.connect(resumed=True)
    assert requests(side) == []


def test_changes_are_remembered_up_to_a_limit(side: SchedulerSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_calls, "CHANGES_LIMIT", 2)
    changes = [changed(side, b"", version, str(version)) for version in range(1, 4)]
    side.connect(epoch=8)
    assert requests(side) == [(NamedAction.RESTATE, change.number) for change in changes[1:]]


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_when_the_scheduler_stays_away_nothing_waits_any_more() -> None:
    side = SchedulerSide(timeout_seconds=10)
    side.connect()
    new = call(side, NamedAction.READ)
    sink = new.sink
    side.exchange()
    side.session.on_peer_lost(b"", side.now)
    side.pass_time(11)
    assert sink.outcomes[0].status == DISCONNECTED and not side.session.named  # type: ignore[union-attr]
    side.connect(resumed=True)
    assert requests(side) == [(NamedAction.WITHDRAW, new.number)]


def test_a_refused_session_has_no_calls(side: SchedulerSide) -> None:
    new = call(side, NamedAction.READ)
    side.exchange()
    side.deliver(Envelope(Refused(RefusalReason.MALFORMED, "Nonsense.")))
    assert new.state is CallState.FAILED and new.text == "Nonsense."


def test_an_old_scheduler_is_never_sent_what_it_does_not_know() -> None:
    side = SchedulerSide()
    early = call(side, NamedAction.READ)
    side.session.on_connected(side.now)
    side.exchange()
    side.deliver(Envelope(Welcome(b"w" * 16, 7, minor=3, number=side.hellos[-1].number)))
    late = call(side, NamedAction.READ)
    assert requests(side) == []
    assert [each.state for each in (early, late)] == [CallState.FAILED] * 2
    assert "it needs version 1.4 of the protocol" in early.text


# ---- queues ----------------------------------------------------------------------------------------------------------


def take(side: SchedulerSide) -> NamedCall:
    new = NamedCall(Named(CoordinationKind.QUEUE, "name", 3), NamedAction.TAKE, b"", None, Sink())
    side.session.named.start(new)
    assert side.exchange() == [NamedRequest(CoordinationKind.QUEUE, NamedAction.TAKE, new.number, "name", limit=3)]
    return new


def test_an_item_for_a_call_that_was_given_up_returns_to_its_queue(side: SchedulerSide) -> None:
    new = take(side)
    side.session.named.give_up(new)
    answer(side, new, NamedState.DONE, b"item")
    returned = NamedRequest(CoordinationKind.QUEUE, NamedAction.RETURN, new.number + 1, "name", b"item", limit=3)
    assert side.exchange()[-1] == returned
    side.say(NamedReply(CoordinationKind.QUEUE, NamedState.DONE, new.number + 1))
    assert side.session.is_blank


def test_an_item_that_was_taken_in_vain_returns_once(side: SchedulerSide) -> None:
    new = take(side)
    answer(side, new, NamedState.DONE, b"item")
    for _ in range(2):
        side.session.named.give_up(new)
    assert requests(side) == [(NamedAction.RETURN, new.number + 1)]


def test_an_item_that_arrives_at_the_end_of_the_wait_is_taken(side: SchedulerSide) -> None:
    new = take(side)
    side.session.named.give_up(new, sink := Sink())
    answer(side, new, NamedState.DONE, b"item")
    assert sink.outcomes and new.result == b"item"
    assert requests(side) == [(NamedAction.WITHDRAW, new.number)]


def test_a_user_of_queues_is_warned_when_their_items_are_lost(side: SchedulerSide) -> None:
    changed(side, b"a", 1)
    side.connect(epoch=8)
    side.exchange()
    assert not any("queues" in line for line in side.lines)
    answer(side, take(side), NamedState.DONE, b"item")
    side.connect(epoch=9)
    side.exchange()
    assert sum("items that were in queues of the cluster are lost" in line for line in side.lines) == 1
