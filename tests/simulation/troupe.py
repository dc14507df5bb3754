"""What the actors of a simulated cluster really did, with which the ends of their calls must agree."""

from __future__ import annotations

from collections.abc import Callable

from scaler.core.outcome import Outcome
from scaler_protocol.messages import Status
from tests.simulation.world import World

ACTOR = "actor"
"""The function of the tasks that make actors."""

FAILING = b"failing"
"""Part of the argument of a constructor that raises."""

DEATHS = (Status.WORKER_DIED, Status.PROCESSOR_DIED, Status.NOT_FOUND)


class Instance:
    """An actor in one worker process. Each result says how many calls have changed its state."""

    def __init__(self, troupe: Troupe, actor: SimulatedActor | None, now: float) -> None:
        self._troupe = troupe
        self._actor = actor
        self._calls = 0
        self.made_at = now
        self.died_at: float | None = None

    def call(self, session: bytes, task: int, argument: bytes, result: bytes) -> bytes:
        """Each call runs once at most, and those of one caller in their order."""
        self._calls += 1
        actor = self._actor
        if actor is None:  # a scheduler has lied
            return result
        assert argument not in self._troupe.results, f"{argument!r} runs twice"
        assert task > actor.last_calls.get(session, 0), f"{argument!r} overtakes call {actor.last_calls[session]}"
        actor.last_calls[session] = task
        result = b"%d.%d " % (actor.instances.index(self), self._calls) + result
        self._troupe.results[argument] = result
        return result

    def die(self, now: float) -> None:
        if self.died_at is None:
            self.died_at = now


class SimulatedActor:
    """``number``: calls of an actor wait only for actors with higher ones. ``concurrency``: how many calls may run at
    a time. ``owner``, ``task``: its name, from when it
    has one. ``ended_at``: when its owner let it go, or left. ``on_end`` is called when its owner learns that it has
    ended by itself."""

    def __init__(self, troupe: Troupe, argument: bytes, restarts: int) -> None:
        self.argument = argument
        self.restarts = restarts
        self.number = len(troupe.actors)
        self.concurrency = troupe.concurrency
        self.owner, self.task = b"", 0
        self.ended_at: float | None = None
        self.outcomes: list[Outcome] = []
        self.instances: list[Instance] = []
        self.last_calls: dict[bytes, int] = {}
        self.on_end: Callable[[], None] = lambda: None
        self._troupe = troupe

    def settle(self, outcome: Outcome) -> bool:
        """The actor has ended, and not because its owner wanted this."""
        self.outcomes.append(outcome)
        self.on_end()
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")

    @property
    def is_there(self) -> bool:
        return bool(self.task) and self.ended_at is None

    @property
    def is_failing(self) -> bool:
        return FAILING in self.argument

    def let_go(self, now: float) -> None:
        if self.ended_at is None:
            self.ended_at = now

    def may_fail_calls(self, now: float) -> bool:
        """Whether calls that fail by then have a reason."""
        ends = [self.ended_at, *(each.died_at for each in self.instances)]
        return self._troupe.loses_agents or self.is_failing or any(end is not None and end <= now for end in ends)

    def check(self) -> None:
        """It was not made more often than it may be, has ended when nothing needed it any more, and not before."""
        troupe = self._troupe
        limit = (1 + self.restarts) * (1 + troupe.scheduler_restarts) + troupe.departures * (self.restarts > 0)
        assert len(self.instances) <= limit, (self.argument, len(self.instances))
        assert all(each.died_at is not None for each in self.instances), (self.argument, "lives on")
        assert len(self.outcomes) <= 1, (self.argument, self.outcomes)
        if self.outcomes and self.outcomes[0].status == Status.EXCEPTION:
            assert self.is_failing, self.argument
        elif self.outcomes and self.outcomes[0].status != Status.CANCELLED:
            assert self.outcomes[0].status in DEATHS, (self.argument, self.outcomes)
            assert troupe.loses_agents or len(self.instances) > self.restarts, (self.argument, self.outcomes)


class CallSink:
    """The future of one call. ``done(outcome)`` is called at its end; None: it was cancelled."""

    def __init__(
        self,
        troupe: Troupe,
        world: World,
        actor: SimulatedActor,
        argument: bytes,
        done: Callable[[Outcome | None], None],
    ) -> None:
        self.actor = actor
        self.argument = argument
        self.outcomes: list[Outcome] = []
        self.cancelled = False
        self.has_caller_left = False
        self.ended_at = 0.0
        self._world = world
        self._troupe = troupe
        self._done = done
        troupe.calls[argument] = self

    @property
    def has_ended(self) -> bool:
        return bool(self.outcomes) or self.cancelled

    def settle(self, outcome: Outcome) -> bool:
        self.outcomes.append(outcome)
        self.ended_at = self._world.now
        self._done(outcome)
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")

    def cancel(self) -> None:
        self.cancelled = True
        self._done(None)

    def check(self, deaths: dict[bytes, int]) -> None:
        """It ended exactly once: with what the actor returned, or with a failure for which there is a reason."""
        if self.has_caller_left and not self.has_ended:
            return
        assert len(self.outcomes) + self.cancelled == 1, (self.argument, self.outcomes, self.cancelled)
        outcome = self.outcomes[0] if self.outcomes else None
        if outcome is None:
            return
        if outcome.status == Status.SUCCESS:
            assert bytes(outcome.payload) == self._troupe.results.get(self.argument), (self.argument, outcome)
        elif outcome.status == Status.EXCEPTION:
            self._troupe.check_failure(bytes(outcome.payload), deaths, self.argument)
        elif outcome.status == Status.OBJECT_MISSING:
            assert self._troupe.loses_objects, (self.argument, outcome)
        elif not (outcome.status == Status.CANCELLED and self.has_caller_left):
            assert outcome.status in DEATHS, (self.argument, outcome)
            assert self.actor.may_fail_calls(self.ended_at), (self.argument, outcome, "fails without a reason")


class Troupe:
    """All actors of a cluster and their calls. ``plans``: the actors that tasks and calls with these arguments call.
    ``abandoned``: the tasks and calls that applications have cancelled, or left. ``loses_objects``: whether large
    arguments, or large results of calls, may be lost: they cannot be made again."""

    def __init__(
        self, loses_agents: bool = False, scheduler_restarts: int = 0, departures: int = 0, concurrency: int = 1
    ) -> None:
        self.loses_agents = loses_agents
        self.scheduler_restarts = scheduler_restarts
        self.departures = departures
        self.concurrency = concurrency
        self.loses_objects = False
        self.actors: dict[bytes, SimulatedActor] = {}
        self.calls: dict[bytes, CallSink] = {}
        self.results: dict[bytes, bytes] = {}
        self.plans: dict[bytes, list[SimulatedActor]] = {}
        self.abandoned: set[bytes] = set()

    def add(self, argument: bytes, restarts: int) -> SimulatedActor:
        actor = self.actors[argument] = SimulatedActor(self, argument, restarts)
        return actor

    def make(self, argument: bytes, now: float) -> Instance:
        """A constructor starts."""
        actor = self.actors.get(argument)
        instance = Instance(self, actor, now)
        if actor is not None:
            actor.instances.append(instance)
        return instance

    def there_after(self, number: int) -> list[SimulatedActor]:
        return [each for each in self.actors.values() if each.number > number and each.is_there]

    def check_failure(self, payload: bytes, deaths: dict[bytes, int], failed: bytes = b"") -> None:
        """A task that waited for others, or for calls, fails only with one of them. ``failed``: the call that did."""
        culprit, _, status = payload.rpartition(b":")
        if int(status) == Status.CANCELLED:
            assert self._is_cancelled_with_others(failed, deaths), payload
        elif culprit in self.calls:
            self.calls[culprit].check(deaths)
            assert int(status) in DEATHS, payload
        else:
            assert int(status) == Status.PROCESSOR_DIED and deaths.get(culprit, 0) >= 3, payload

    def _is_cancelled_with_others(self, failed: bytes, deaths: dict[bytes, int]) -> bool:
        """Whether a task around this call was cancelled, or lost its process or agent. All tasks inside it were then
        cancelled in any order, so the call may have seen the end of one that it waited for."""
        parts = failed.split(b"/")
        around = [b"/".join(parts[:count]) for count in range(1, len(parts))]
        return any(self.loses_agents or each in self.abandoned or deaths.get(each) for each in around)
