"""Tasks that an operator cancels: their exceptions say who it was."""

from __future__ import annotations

import math
from concurrent.futures import Future

import pytest

from scaler.client.outcomes import actor_died, cancelled, failure_of
from scaler.core.outcome import CANCELLED, Outcome
from scaler_protocol.messages import Cancel, Results, Status, TaskColumn
from tests.unit.client.scheduler_side import SESSION, SchedulerSide, Sink, success

REASON = "An operator has cancelled this task: alice on vm-3 (pid 7)."
OUTCOME = Outcome(Status.CANCELLED, REASON.encode())


@pytest.fixture
def side() -> SchedulerSide:
    made = SchedulerSide()
    made.connect()
    return made


def submitted(side: SchedulerSide, count: int) -> list[Sink]:
    sinks = [side.submit(math.sqrt, float(number)) for number in range(count)]
    side.exchange()
    return sinks


def cancel(*tasks: int, session: bytes = SESSION, reason: str = REASON) -> Cancel:
    return Cancel((TaskColumn(session, tasks),), reason=reason)


def test_only_the_tasks_that_were_cancelled_get_the_reason(side: SchedulerSide) -> None:
    sinks = submitted(side, 4)
    side.say(cancel(3, 1))
    side.say(cancel(2, session=b"o" * 16))
    side.say(Results([side.results((1, Status.CANCELLED, b""), (2, Status.CANCELLED, b""))]))
    side.say(Results([side.results((3, *success(1.0)), (4, *success(2.0)))]))
    assert [sink.outcomes[0].status for sink in sinks] == [Status.CANCELLED, Status.CANCELLED, 0, 0]
    assert [bytes(sink.outcomes[0].payload).decode() for sink in sinks[:2]] == [REASON, ""]


def test_the_latest_reason_counts_and_is_forgotten_with_the_last_task(side: SchedulerSide) -> None:
    (first,) = submitted(side, 1)
    side.say(cancel(1, reason="This one."))
    side.say(cancel(1))
    assert side.session._operator_cancels
    side.say(Results([side.results((1, Status.CANCELLED, b""))]))
    assert failure_of(first.outcomes[0]).args == (REASON,)
    assert not side.session._operator_cancels


def test_a_task_that_its_client_cancels_has_no_reason() -> None:
    assert cancelled(CANCELLED).args == cancelled(None).args == ()
    assert cancelled(Outcome(Status.SUCCESS, b"value")).args == ()
    assert cancelled(OUTCOME).args == (REASON,)


def test_calls_of_an_actor_that_an_operator_ends_say_so() -> None:
    anchor: Future[object] = Future()
    anchor.cancel()
    assert str(actor_died("Account", CANCELLED, anchor, 0)) == "The actor of Account was killed."
    anchor._outcome = OUTCOME  # type: ignore[attr-defined]
    assert str(actor_died("Account", CANCELLED, anchor, 0)) == f"The actor of Account was killed. {REASON}"
