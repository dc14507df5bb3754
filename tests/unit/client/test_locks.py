"""Locks as a client sees them: what it says, what it is told, and what it says again."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scaler import Client
from scaler.client.lock import Lock
from scaler.core.coordination import Claim, ClaimState, Permit
from scaler.core.outcome import DISCONNECTED
from scaler.utility.exceptions import ClientQuitException, DisconnectedError, LockLostError, ScalerError
from scaler_protocol.messages import (
    Body,
    CoordinationKind,
    Envelope,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    RefusalReason,
    Refused,
    Status,
    TaskName,
    Welcome,
)
from tests.support.waiting import wait_until
from tests.unit.client.scheduler_side import SchedulerSide, Sink
from tests.unit.client.test_interruptions import ReplayingScheduler, interrupted

KIND = CoordinationKind.LOCK


def asked(bodies: list[Body]) -> list[tuple[LockAction, int]]:
    return [(body.action, body.number) for body in bodies if isinstance(body, LockRequest)]


def claim(side: SchedulerSide, name: str = "lock", task: TaskName | None = None, waits: bool = True) -> Claim:
    new = Claim(Permit(KIND, name), task, waits, Sink())
    side.session.claims.enter(new)
    return new


def held(side: SchedulerSide) -> Claim:
    new = claim(side)
    side.exchange()
    side.say(LockReply(KIND, LockState.GRANTED, new.number))
    assert new.state is ClaimState.HELD
    return new


# ---- the session -----------------------------------------------------------------------------------------------------


def test_a_claim_waits_and_is_granted(side: SchedulerSide) -> None:
    new = claim(side, task=TaskName(b"t" * 16, 5, 2))
    assert side.exchange() == [LockRequest(KIND, LockAction.ACQUIRE, 1, "lock", b"t" * 16, 5, 2)]
    first = new.sink
    side.say(LockReply(KIND, LockState.WAITING, 1))
    assert first.outcomes and new.state is ClaimState.WAITING  # type: ignore[union-attr]
    second = Sink()
    side.session.claims.await_change(new, second)
    assert not second.outcomes
    side.say(LockReply(KIND, LockState.GRANTED, 1))
    assert second.outcomes and new.state is ClaimState.HELD


def test_a_claim_that_was_granted_meanwhile_is_told_so_at_once(side: SchedulerSide) -> None:
    new = claim(side)
    side.exchange()
    side.say(LockReply(KIND, LockState.WAITING, 1))
    side.say(LockReply(KIND, LockState.GRANTED, 1))
    sink = Sink()
    side.session.claims.await_change(new, sink)
    assert sink.outcomes


def test_a_released_claim_is_over_when_the_scheduler_says_so(side: SchedulerSide) -> None:
    new = held(side)
    sink = Sink()
    side.session.claims.release(new, sink)
    assert asked(side.exchange()) == [(LockAction.RELEASE, 1)]
    side.say(LockReply(KIND, LockState.GRANTED, 1))  # a late repetition
    assert not sink.outcomes
    side.say(LockReply(KIND, LockState.RELEASED, 1))
    assert sink.outcomes and new.state is ClaimState.OVER and side.session.claims.is_blank


def test_a_grant_that_crosses_the_end_of_the_wait_is_dropped(side: SchedulerSide) -> None:
    new = claim(side)
    side.exchange()
    side.session.claims.release(new)
    assert asked(side.exchange()) == [(LockAction.RELEASE, 1)]
    side.say(LockReply(KIND, LockState.GRANTED, 1))
    side.say(LockReply(KIND, LockState.RELEASED, 1))
    assert new.state is ClaimState.OVER


def test_another_scheduler_is_told_who_holds_and_who_waits(side: SchedulerSide) -> None:
    first = held(side)
    second, third, fourth = claim(side, "b"), claim(side, "c", waits=False), held(side)
    side.session.claims.release(fourth, leaving := Sink())
    side.session.claims.ask(Permit(KIND, "d"), Sink())
    side.exchange()
    side.connect(epoch=8)
    assert asked(side.exchange()) == [
        (LockAction.RESTATE, first.number),
        (LockAction.ACQUIRE, second.number),
        (LockAction.TRY, third.number),
        (LockAction.RESTATE, fourth.number),
        (LockAction.RELEASE, fourth.number),
        (LockAction.ASK, 5),
    ]
    assert not leaving.outcomes
    side.say(LockReply(KIND, LockState.LOST, fourth.number))
    assert leaving.outcomes and fourth.state is ClaimState.LOST
    side.say(LockReply(KIND, LockState.GRANTED, first.number))
    assert first.state is ClaimState.HELD


def test_a_resumed_link_needs_no_restatement(side: SchedulerSide) -> None:
    held(side)
    side.connect(resumed=True)
    assert asked(side.exchange()) == []


def test_a_holder_learns_that_it_has_lost_its_lock(side: SchedulerSide) -> None:
    new = held(side)
    side.connect(epoch=8)
    side.exchange()
    side.say(LockReply(KIND, LockState.LOST, new.number, "It was given to others."))
    assert new.state is ClaimState.LOST and new.text == "It was given to others."
    assert side.session.claims.is_blank


def test_when_the_scheduler_stays_away_nobody_waits_any_more_and_locks_are_kept() -> None:
    side = SchedulerSide(timeout_seconds=10)
    side.connect()
    kept = held(side)
    waiting, leaving = claim(side, "b"), held(side)
    told: list[Sink] = [waiting.sink, Sink(), Sink()]  # type: ignore[list-item]
    side.session.claims.release(leaving, told[1])
    side.session.claims.ask(Permit(KIND, "lock"), told[2])
    side.exchange()
    side.session.on_peer_lost(b"", side.now)
    side.pass_time(11)
    assert [sink.outcomes[0].status for sink in told] == [DISCONNECTED] * 3
    assert kept.state is ClaimState.HELD and not side.session.claims
    side.connect(resumed=True)
    assert sorted(asked(side.exchange())) == [
        (LockAction.RELEASE, waiting.number),
        (LockAction.RELEASE, leaving.number),
    ]


def test_a_refused_session_has_lost_its_locks(side: SchedulerSide) -> None:
    new = held(side)
    side.deliver(Envelope(Refused(RefusalReason.MALFORMED, "Nonsense.")))
    assert new.state is ClaimState.LOST and new.text == "Nonsense."


def test_an_old_scheduler_is_never_sent_what_it_does_not_know() -> None:
    side = SchedulerSide()
    early = claim(side)
    side.session.on_connected(side.now)
    side.exchange()
    side.deliver(Envelope(Welcome(b"w" * 16, 7, minor=1, number=side.hellos[-1].number)))
    late = claim(side)
    side.session.claims.ask(Permit(KIND, "lock"), question := Sink())
    assert asked(side.exchange()) == []
    assert [each.state for each in (early, late)] == [ClaimState.LOST, ClaimState.OVER]
    assert "too old" in early.text and "too old" in late.text and question.outcomes[0].status == Status.EXCEPTION


def test_a_session_with_a_lock_is_not_passed_on(side: SchedulerSide) -> None:
    assert side.session.is_blank
    new = held(side)
    assert not side.session.is_blank
    side.session.claims.release(new)
    side.exchange()
    assert side.session.is_blank


# ---- the object ------------------------------------------------------------------------------------------------------


class LockingScheduler(ReplayingScheduler):
    """Knows locks. ``lose``: why a release comes too late."""

    def __init__(self) -> None:
        self.holders: dict[str, tuple[bytes, int]] = {}
        self.waiting: dict[str, list[tuple[bytes, int]]] = {}
        self.lose: str = ""
        super().__init__()

    def _take(self, peer: bytes, envelope: Envelope) -> None:
        super()._take(peer, envelope)
        body = envelope.body
        if isinstance(body, LockRequest):
            self._say(peer, LockReply(KIND, self._outcome((peer, body.number), body), body.number, self.lose))

    def _outcome(self, request: tuple[bytes, int], body: LockRequest) -> LockState:
        if body.action == LockAction.ASK:
            return LockState.HELD if body.name in self.holders else LockState.FREE
        if body.action == LockAction.RELEASE:
            return self._release(request)
        if self.holders.setdefault(body.name, request) == request:
            return LockState.GRANTED
        if body.action == LockAction.TRY:
            return LockState.DENIED
        self.waiting.setdefault(body.name, []).append(request)
        return LockState.WAITING

    def _release(self, request: tuple[bytes, int]) -> LockState:
        for requests in self.waiting.values():
            if request in requests:
                requests.remove(request)
        for name in [name for name, holder in self.holders.items() if holder == request]:
            del self.holders[name]
            if self.waiting.get(name):
                peer, number = self.holders[name] = self.waiting[name].pop(0)
                self._say(peer, LockReply(KIND, LockState.GRANTED, number))
        return LockState.LOST if self.lose else LockState.RELEASED


@pytest.fixture
def scheduler() -> Iterator[LockingScheduler]:
    with LockingScheduler() as running:
        yield running


def test_it_is_used_as_a_lock_of_threading_is(client: Client) -> None:
    lock, other = client.lock("name"), client.lock("name")
    assert not lock.locked()
    assert lock.acquire()
    assert lock.locked() and other.locked()
    assert not other.acquire(blocking=False)
    assert not other.acquire(timeout=0.05)
    lock.release()
    with other as entered:
        assert entered and lock.locked()
    assert not lock.locked()


def test_arguments_are_those_of_threading(client: Client) -> None:
    lock, standard = client.lock("name"), threading.Lock()
    for arguments in ({"blocking": False, "timeout": 1}, {"timeout": -2}, {"timeout": threading.TIMEOUT_MAX * 2}):
        with pytest.raises((ValueError, OverflowError)) as expected:
            standard.acquire(**arguments)
        with pytest.raises(expected.type):
            lock.acquire(**arguments)


@pytest.mark.parametrize(
    ("name", "error"), [("", ValueError), ("é" * 513, ValueError), (5, TypeError), (b"a", TypeError)]
)
def test_names(client: Client, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="name of a lock"):
        client.lock(name)


def test_only_the_object_that_acquired_it_releases_it(client: Client) -> None:
    lock, other = client.lock("name"), client.lock("name")
    with pytest.raises(RuntimeError, match="does not hold it"):
        lock.release()
    with lock, pytest.raises(RuntimeError, match="does not hold it"):
        other.release()


def test_threads_take_turns(client: Client) -> None:
    lock = client.lock("name")
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with lock:
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.0005)
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(100)))
    assert len(most) == 100 and max(most) == 1


def test_a_thread_that_waits_is_told_when_its_turn_comes(client: Client, scheduler: LockingScheduler) -> None:
    lock, other = client.lock("name"), client.lock("name")
    lock.acquire()
    got = []
    thread = threading.Thread(target=lambda: got.append(other.acquire()))
    thread.start()
    wait_until(lambda: scheduler.waiting.get("name"))
    lock.release()
    thread.join(5)
    assert got == [True]
    other.release()


def test_a_wait_that_timed_out_leaves_nothing(client: Client, scheduler: LockingScheduler) -> None:
    lock, other = client.lock("name"), client.lock("name")
    lock.acquire()
    assert not other.acquire(timeout=0.01)
    wait_until(lambda: not scheduler.waiting["name"])
    lock.release()
    assert not lock.locked()


@pytest.mark.timeout(120)
def test_a_lock_is_free_again_wherever_its_use_is_interrupted(scheduler: LockingScheduler) -> None:
    with Client(scheduler.address) as client, Client(scheduler.address) as observer:
        for at in range(1, 3000):
            lock = client.lock("name")
            where = interrupted(lambda lock=lock: use(lock), at)  # type: ignore[misc]
            try:
                lock.release()  # it may have been interrupted between acquire and the block
            except RuntimeError:
                pass
            probe = observer.lock("probe")
            with probe:  # behind all that was sent before
                wait_until(lambda: "name" not in scheduler.holders, 5, where)
            if not where:
                return
    raise AssertionError("it does not end")


def use(lock: Lock) -> None:
    with lock:
        pass


def test_a_lost_lock_is_an_error_on_release(client: Client, scheduler: LockingScheduler) -> None:
    lock = client.lock("name")
    lock.acquire()
    scheduler.lose = "It was given to others."
    with pytest.raises(LockLostError, match="was lost while it was held. It was given to others."):
        lock.release()
    scheduler.lose = ""
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.release()


def test_a_lost_lock_does_not_hide_what_went_wrong_inside(client: Client, scheduler: LockingScheduler) -> None:
    with pytest.raises(ZeroDivisionError) as failed, client.lock("name"):
        scheduler.lose = "It was given to others."
        1 / 0  # noqa: B018
    assert any("was lost" in note for note in failed.value.__notes__)


def test_a_refused_request_says_why(client: Client, scheduler: LockingScheduler) -> None:
    scheduler._outcome = lambda *_: LockState.REFUSED  # type: ignore[method-assign]
    scheduler.lose = "There are too many."
    with pytest.raises(ScalerError, match="Cannot acquire the lock 'name': There are too many."):
        client.lock("name").acquire()
    with pytest.raises(ScalerError, match="too many"):
        client.lock("name").locked()


def test_a_client_that_has_left_has_no_locks(scheduler: LockingScheduler) -> None:
    client = Client(scheduler.address)
    lock = client.lock("name")
    lock.acquire()
    client.disconnect()
    for call in (lock.acquire, lock.locked):
        with pytest.raises(ClientQuitException):
            call()
    with pytest.raises(LockLostError, match="left"):
        lock.release()


def test_a_scheduler_that_stays_away(scheduler: LockingScheduler) -> None:
    with Client(scheduler.address, timeout_seconds=0.3) as client:
        lock = client.lock("name")
        lock.acquire()
        scheduler.stop()
        assert not client.lock("name").acquire(timeout=0.05)
        with pytest.raises(DisconnectedError):
            client.lock("name").acquire()
        with pytest.raises(DisconnectedError):
            lock.release()
    scheduler.__init__()  # type: ignore[misc]  the fixture stops it


def test_it_travels_by_its_name(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = pickle.loads(pickle.dumps(client.lock("name")))
    assert copy.name == "name" and repr(copy) == "Lock('name')"
    copy._client.disconnect()
    with pytest.raises(ValueError, match="needs the address"):
        Lock("name").acquire()


def test_an_interrupted_wait_gives_up_its_place(client: Client, scheduler: LockingScheduler) -> None:
    lock, other = client.lock("name"), client.lock("name")
    lock.acquire()

    class Interruption(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interruption

    original = client._client_io.wait
    client._client_io.wait = interrupt  # type: ignore[method-assign]
    with pytest.raises(Interruption):
        other.acquire()
    client._client_io.wait = original  # type: ignore[method-assign]
    lock.release()
    assert not other.locked() and not scheduler.holders
