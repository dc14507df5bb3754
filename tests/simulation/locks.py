"""Simulated users of locks and semaphores, and the one who knows everything: there are never more than there may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scaler.core.coordination import Claim, ClaimState, Permit
from scaler.core.outcome import Outcome
from scaler_protocol.messages import CoordinationKind, TaskName

if TYPE_CHECKING:
    from tests.simulation.client import ClientNode, TaskSink
    from tests.simulation.nested import Family, NestedClient

LOCKER = "locker"
"""The function whose tasks use a lock, some of them while they wait for tasks of their own."""

HOLD_SECONDS = (0.0001, 0.02)
CARELESS_SHARE = 0.1
"""Of users who never release what they hold."""

PARENT_SHARE = 0.4
KINDS = ("lock", "semaphore")
"""How names begin."""


class Keeper:
    """Who uses which lock or semaphore."""

    def __init__(self) -> None:
        self._users: dict[str, list[object]] = {}
        self.uses = 0

    def enter(self, name: str, user: object) -> None:
        users = self._users.setdefault(name, [])
        users.append(user)
        assert len(users) <= (permit_of(name).limit or 1), f"{len(users)} use {name}"
        self.uses += 1

    def leave(self, name: str, user: object) -> None:
        self._users[name] = [each for each in self._users.get(name, ()) if each is not user]


class LockSink:
    """Told of each change of a claim."""

    def __init__(self, claim_changed: Callable[[], None]) -> None:
        self._claim_changed = claim_changed

    def settle(self, outcome: Outcome) -> bool:
        self._claim_changed()
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")


class Critical:
    """One task that acquires a lock, works and releases it. ``work(go_on)`` may submit tasks and wait for them."""

    def __init__(
        self,
        client: NestedClient,
        keeper: Keeper,
        name: str,
        parent: TaskName,
        work: Callable[[Callable[[bytes], None]], Family | None],
        done: Callable[[bytes], None],
    ) -> None:
        self.client = client
        self._keeper = keeper
        self._name = name
        self._work = work
        self._done = done
        self._failure = b""
        self._family: Family | None = None
        self._has_left = False
        self._is_careless = client.world.chance.random() < CARELESS_SHARE
        self._claim = Claim(permit_of(name), parent, True, LockSink(self._changed))
        client.post(lambda now: self._enter())

    def _enter(self) -> None:
        if not self._has_left:
            self.client.core.claims.enter(self._claim)

    def _changed(self) -> None:
        if self._claim.state is ClaimState.WAITING and not self._has_left:
            self.client.say("waits for a lock")
            self.client.core.claims.await_change(self._claim, LockSink(self._changed))
        elif self._claim.state is ClaimState.HELD and not self._has_left:
            self._keeper.enter(self._name, self)
            self.client.say("unblocked")
            self.client.world.after(self.client.world.between(*HOLD_SECONDS), self._begin)
        elif not self._has_left:
            assert self._claim.state is ClaimState.OVER, (self._claim.state, self._claim.text)
            self.client.world.after(0.0, self._end)

    def _begin(self) -> None:
        if not self._has_left and self.client.alive:
            self._family = self._work(self._worked)

    def _worked(self, failure: bytes) -> None:
        self._family = None
        if self._has_left or not self.client.alive:
            return
        self._failure = failure
        self._keeper.leave(self._name, self)
        if self._is_careless:
            self._end()
        else:
            self.client.post(lambda now: self.client.core.claims.release(self._claim, LockSink(self._changed)))

    def _end(self) -> None:
        if not self._has_left and self.client.alive:
            self._done(self._failure)

    def leave(self) -> None:
        """The task has ended, in whatever way."""
        self._has_left = True
        self._keeper.leave(self._name, self)
        if self._family is not None:
            self._family.leave()
        if self._claim.state is ClaimState.WAITING:
            self.client.say("unblocked")
        if not self._is_careless:
            self.client.post(lambda now: self.client.core.claims.release(self._claim))

    def die(self) -> None:
        self._has_left = True
        self._keeper.leave(self._name, self)


class LockUser:
    """An application that uses a lock now and then, sometimes while it waits for a task."""

    def __init__(self, client: ClientNode, keeper: Keeper, name: str) -> None:
        self._client = client
        self._keeper = keeper
        self._name = name
        waits = client.world.chance.random() < 0.8
        self._claim = Claim(permit_of(name), None, waits, LockSink(self._changed))
        client.unfinished += 1
        client.post(lambda now: client.core.claims.enter(self._claim))

    def _changed(self) -> None:
        claims = self._client.core.claims
        state = self._claim.state
        if state is ClaimState.WAITING:
            claims.await_change(self._claim, LockSink(self._changed))
        elif state is ClaimState.HELD:
            self._keeper.enter(self._name, self)
            self._work()
        else:
            assert state is ClaimState.OVER, (state, self._claim.text)
            self._client.unfinished -= 1

    def _work(self) -> None:
        world = self._client.world
        if world.chance.random() < PARENT_SHARE:
            self._await(self._client.submit_one("short"))
        else:
            world.after(world.between(*HOLD_SECONDS), self._leave)

    def _await(self, sink: TaskSink) -> None:
        if sink.outcomes or sink.cancelled:
            self._leave()
        else:
            self._client.world.after(HOLD_SECONDS[1], lambda: self._await(sink))

    def _leave(self) -> None:
        self._keeper.leave(self._name, self)
        self._client.post(lambda now: self._client.core.claims.release(self._claim, LockSink(self._changed)))


def name_for(argument: bytes, chance: Any) -> str:
    """Tasks at each depth use locks of their own, so that those who hold one never wait for one another."""
    return f"{chance.choice(KINDS)} {argument.count(b'/')} {chance.randint(0, 1)}"


def permit_of(name: str) -> Permit:
    """The name begins with its kind."""
    if name.startswith(KINDS[1]):
        return Permit(CoordinationKind.SEMAPHORE, name, 2)
    return Permit(CoordinationKind.LOCK, name)
