"""Clients that use actors by name: each gets the actor that has the name, or makes one, and the name is free when the
actor has ended. Names are what ``scaler.client.actor_names`` makes of locks and variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaler.core.coordination import Claim, ClaimState, Permit
from scaler.core.named_calls import CallState, Named, NamedCall
from scaler.core.outcome import Outcome
from scaler_protocol.messages import ACTOR_NAME_PREFIX, CoordinationKind, NamedAction, Status
from scaler_scheduler.core.settings import HOLD_SECONDS
from tests.simulation.actors import MOST_CALLS, ActorClientNode, ActorCluster, ActorScenario, Owner
from tests.simulation.locks import LockSink
from tests.simulation.troupe import SimulatedActor

TAKING_SECONDS = 2.0
PAUSE_SECONDS = (0.0, 0.3)
GRACE_SECONDS = 2.0
"""Longer than a client needs to state what it has, or to be told what it has lost."""


@dataclass(frozen=True)
class NameScenario(ActorScenario):
    """``names``: how many there are. ``uses``: how often each client uses one of them."""

    actors: int = 1
    names: int = 2
    uses: int = 8

    @property
    def keeps_names(self) -> bool:
        """Whether no client is away for so long, after a restart of the scheduler, that others may get its names."""
        return not (self.scheduler_restarts or self.absences)


class Answer(LockSink):
    """Of the question whether a lock is held."""

    def __init__(self, answered: Callable[[bool], None]) -> None:
        super().__init__(lambda: None)
        self._answered = answered

    def settle(self, outcome: Outcome) -> bool:
        if outcome.status == Status.SUCCESS:  # and not: the client has left
            self._answered(bool(outcome.payload))
        return True


class Holding:
    """A name, from when a client has it until the client gives it back. ``published_at``: when the others could find
    the actor. ``withdrawn_at``: when they could no more."""

    def __init__(self, client: ActorClientNode, name: str, claim: Claim, now: float) -> None:
        self.client = client
        self.name = name
        self.claim = claim
        self.granted_at = now
        self.actor: SimulatedActor | None = None
        self.published_at: float | None = None
        self.ends_at: float | None = None
        self.withdrawn_at: float | None = None

    @property
    def is_held(self) -> bool:
        return self.claim.state is ClaimState.HELD and not self.client.has_left

    def publish(self, actor: SimulatedActor) -> None:
        self.actor = actor
        self._call = NamedCall(variable(self.name), NamedAction.SET, actor.argument, None, LockSink(self._published))
        self.client.core.named.start(self._call)

    def _published(self) -> None:
        call = self._call
        if call.state is CallState.WAITING:
            self.client.core.named.await_change(call, LockSink(self._published))
        elif call.state is CallState.DONE:
            self.published_at = self.client.world.now
        elif not self.client.has_left:
            assert call.state is CallState.FAILED and self.claim.state is ClaimState.LOST, (call.state, call.text)

    def give_back(self) -> None:
        if self.ends_at is None:
            self.ends_at = self.client.world.now
            self.client.core.claims.release(self.claim, LockSink(self._withdrawn))

    def _withdrawn(self) -> None:
        if not self.client.has_left:  # otherwise the scheduler may hear of it much later
            self.withdrawn_at = self.client.world.now


def variable(name: str) -> Named:
    return Named(CoordinationKind.VARIABLE, ACTOR_NAME_PREFIX + name)


def lock(name: str) -> Permit:
    return Permit(CoordinationKind.LOCK, ACTOR_NAME_PREFIX + name)


class Names:
    """Who has had which name, and when."""

    def __init__(self, cluster: NameCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._holdings: dict[str, list[Holding]] = {}
        self.uses = 0

    def grant(self, holding: Holding) -> None:
        """Two actors never have a name at the same time, unless the client of one was away while the scheduler was
        started again; it is then told that it has lost it."""
        earlier = self._holdings.setdefault(holding.name, [])
        for each in earlier:
            assert not each.is_held or not self._cluster.scenario.keeps_names, (each.name, "is given to two")
            if each.is_held:
                self._check_later(each, holding)
        earlier.append(holding)
        self.uses += 1

    def _check_later(self, *pair: Holding) -> None:
        """Of two that have had a name at the same time, one is told that it has lost it."""

        def check() -> None:
            since = self._world.now - GRACE_SECONDS
            if not any(each.client.has_left or self._was_away(each.client, since) for each in pair):
                assert any(each.claim.state is ClaimState.LOST for each in pair), (pair[0].name, "was held by two")

        self._world.after(GRACE_SECONDS, check)

    def find(self, name: str, argument: bytes, began_at: float) -> SimulatedActor:
        """What was found had the name at some moment since then."""
        self.uses += 1
        holdings = self._holdings[name]
        found = next(each for each in holdings if each.actor is not None and each.actor.argument == argument)
        assert found.actor is not None
        text = f"{argument!r} is found by its name {name!r}"
        assert found.withdrawn_at is None or found.withdrawn_at > began_at, f"{text}, which it has given back"
        for later in holdings[holdings.index(found) + 1 :]:
            if later.granted_at <= began_at:
                assert not self._cluster.scenario.keeps_names, f"{text}, which was given to another one"
                self._check_later(found, later)
        return found.actor

    def miss(self, name: str, began_at: float) -> None:
        """Nothing was found, and there was nothing to be found."""
        for each in self._holdings.get(name, ()):
            was_there = each.published_at is not None and each.published_at < began_at
            if was_there and each.is_held and each.ends_at is None and not self._was_away(each.client, began_at):
                raise AssertionError(f"{name!r} is not found since {began_at}")

    def _was_away(self, client: ActorClientNode, since: float) -> bool:
        """Whether a client may have had no time to state its names to a scheduler that was restarted."""
        if not client.core.welcomed or client.resumes_at > since - GRACE_SECONDS:
            return True
        started_at = self._cluster.scheduler.core.state.locks.started_at
        came_in_time = client.connected_at < started_at + HOLD_SECONDS / 2
        return not came_in_time and client.connected_at > since - GRACE_SECONDS

    def check(self) -> None:
        for name, holdings in self._holdings.items():
            assert not [each for each in holdings if each.is_held], (name, "is still held")


class NamedOwner(Owner):
    """Makes the actor of a name, and gives the name back when it has ended."""

    def __init__(self, cluster: NameCluster, holding: Holding) -> None:
        self._holding = holding
        super().__init__(cluster, holding.client)

    def _make(self, now: float) -> None:
        self._actor.on_end = self._holding.give_back
        super()._make(now)
        self._holding.publish(self._actor)

    def _end(self, now: float) -> None:
        super()._end(now)
        self._holding.give_back()


class NameUser:
    """An application that gets the actor of a name and calls it, or makes it."""

    def __init__(self, cluster: NameCluster, client: ActorClientNode, name: str) -> None:
        self._cluster = cluster
        self._client = client
        self._world = cluster.world
        self._name = name
        if not client.has_left:
            client.unfinished += 1
            client.post(lambda now: self._find())

    def _find(self) -> None:
        self._began_at = self._world.now
        self._peek = NamedCall(variable(self._name), NamedAction.PEEK, b"", None, LockSink(self._peeked))
        self._client.core.named.start(self._peek)

    def _peeked(self) -> None:
        call = self._peek
        if call.state is CallState.WAITING:
            self._client.core.named.await_change(call, LockSink(self._peeked))
        elif call.state is CallState.ABSENT:
            self._missed()
        elif not self._client.has_left:
            assert call.state is CallState.DONE, (call.state, call.text)
            self._client.core.claims.ask(lock(self._name), Answer(self._asked))

    def _asked(self, is_held: bool) -> None:
        if not is_held:
            self._missed()
            return
        chance = self._world.chance
        actor = self._cluster.names.find(self._name, bytes(self._peek.result), self._began_at)
        methods = chance.choices(self._cluster.scenario.methods, k=chance.randint(1, MOST_CALLS))
        self._client.call(actor, methods, lambda outcome: None)
        self._client.unfinished -= 1

    def _missed(self) -> None:
        self._cluster.names.miss(self._name, self._began_at)
        self._claim = Claim(lock(self._name), None, True, LockSink(self._changed))
        self._client.core.claims.enter(self._claim)
        self._world.after(TAKING_SECONDS, lambda: self._client.post(lambda now: self._give_up()))

    def _changed(self) -> None:
        if self._claim.state is ClaimState.WAITING:
            self._client.core.claims.await_change(self._claim, LockSink(self._changed))
        elif self._claim.state is ClaimState.HELD:
            holding = Holding(self._client, self._name, self._claim, self._world.now)
            self._cluster.names.grant(holding)
            NamedOwner(self._cluster, holding)
            self._client.unfinished -= 1
        elif not self._client.has_left:
            assert self._claim.state is ClaimState.OVER and not self._claim.text, (self._claim.state, self._claim.text)

    def _give_up(self) -> None:
        """Another one has the name, or had it until now."""
        if self._claim.state in (ClaimState.ASKED, ClaimState.WAITING):
            self._client.core.claims.release(self._claim)
            self._world.after(self._world.between(*PAUSE_SECONDS), lambda: self._client.post(lambda now: self._find()))


class NameCluster(ActorCluster):
    scenario: NameScenario

    def __init__(self, seed: int, scenario: NameScenario) -> None:
        super().__init__(seed, scenario)
        self.names = Names(self)

    def _plan(self) -> None:
        super()._plan()
        for client in self.clients:
            for _ in range(self.scenario.uses):
                name = f"name {self.world.chance.randrange(self.scenario.names)}"
                self._sometime(lambda client=client, name=name: NameUser(self, client, name))  # type: ignore[misc]

    def _check_quiet(self) -> None:
        super()._check_quiet()
        self.names.check()
