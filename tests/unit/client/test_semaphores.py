"""Semaphores as a client sees them, where they differ from locks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client
from scaler.client.semaphore import Semaphore
from scaler.core.coordination import Claim, ClaimState, Permit
from scaler.utility.exceptions import ScalerError
from scaler_protocol.messages import (
    CoordinationKind,
    Envelope,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    Status,
    Welcome,
)
from tests.unit.client.fake_scheduler import ReplayingScheduler
from tests.unit.client.scheduler_side import SchedulerSide, Sink

KIND = CoordinationKind.SEMAPHORE


def claim(side: SchedulerSide, permit: Permit) -> Claim:
    new = Claim(permit, None, True, Sink())
    side.session.claims.enter(new)
    return new


# ---- the session -----------------------------------------------------------------------------------------------------


def test_requests_name_the_kind_and_the_limit(side: SchedulerSide) -> None:
    new = claim(side, Permit(KIND, "s", 3))
    side.session.claims.ask(Permit(KIND, "s", 3), Sink())
    assert side.exchange() == [
        LockRequest(KIND, LockAction.ACQUIRE, 1, "s", limit=3),
        LockRequest(KIND, LockAction.ASK, 2, "s", limit=3),
    ]
    side.say(LockReply(KIND, LockState.GRANTED, 1))
    side.connect(epoch=8)
    assert LockRequest(KIND, LockAction.RESTATE, 1, "s", limit=3) in side.exchange()
    side.session.claims.release(new, Sink())
    assert side.exchange() == [LockRequest(KIND, LockAction.RELEASE, 1)]


def test_a_scheduler_that_knows_only_locks_is_sent_only_locks() -> None:
    side = SchedulerSide()
    early = claim(side, Permit(KIND, "early", 2))
    lock = claim(side, Permit(CoordinationKind.LOCK, "lock"))
    side.session.on_connected(side.now)
    side.exchange()
    side.deliver(Envelope(Welcome(b"w" * 16, 7, minor=3, number=side.hellos[-1].number)))
    late = claim(side, Permit(KIND, "late", 2))
    side.session.claims.ask(Permit(KIND, "early", 2), question := Sink())
    assert side.exchange() == [LockRequest(CoordinationKind.LOCK, LockAction.ACQUIRE, lock.number, "lock")]
    assert [each.state for each in (early, late)] == [ClaimState.LOST, ClaimState.OVER]
    assert "too old for semaphores: it needs version 1.4" in early.text
    assert question.outcomes[0].status == Status.EXCEPTION


# ---- the object ------------------------------------------------------------------------------------------------------


@pytest.fixture
def scheduler() -> Iterator[ReplayingScheduler]:
    with ReplayingScheduler() as running:
        yield running


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), (2**32, ValueError), (1.5, TypeError)])
def test_limits(client: Client, limit: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.semaphore("name", limit)


@pytest.mark.parametrize(("name", "error"), [("", ValueError), ("é" * 513, ValueError), (5, TypeError)])
def test_names(client: Client, name: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="name of a semaphore"):
        client.semaphore(name, 1)


def test_it_travels_by_name_and_limit(client: Client) -> None:
    semaphore = client.semaphore("name", 3)
    copy = pickle.loads(pickle.dumps(semaphore))
    copy._client.disconnect()
    assert (copy.name, copy.limit, repr(copy)) == ("name", 3, "Semaphore('name', 3)")
    with pytest.raises(ValueError, match="needs the address"):
        Semaphore("name", 3).acquire()


def test_only_the_object_that_acquired_it_releases_it(client: Client) -> None:
    with pytest.raises(RuntimeError, match="Cannot release the semaphore 'name': this object does not hold it."):
        client.semaphore("name", 1).release()


def test_a_refusal_says_why() -> None:
    class RefusingScheduler(ReplayingScheduler):
        def _take(self, peer: bytes, envelope: Envelope) -> None:
            super()._take(peer, envelope)
            if isinstance(envelope.body, LockRequest):
                self._say(peer, LockReply(KIND, LockState.REFUSED, envelope.body.number, "Others use another limit."))

    with RefusingScheduler() as scheduler, Client(scheduler.address) as client:
        with pytest.raises(ScalerError, match="Cannot acquire the semaphore 'name': Others use another limit."):
            client.semaphore("name", 1).acquire()
