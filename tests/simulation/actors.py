"""Clients and tasks that make actors, call them, pass their handles on and let them go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.session import Session
from scaler_protocol.messages import ObjectKey, TaskName, TaskOptions
from tests.simulation.agent import AgentNode
from tests.simulation.client import ClientNode, TaskSink
from tests.simulation.cluster import END_LIMIT_SECONDS, Cluster, Scenario
from tests.simulation.nested import BLOCK_SECONDS, LEVELS, NAMES, PARENT, Family, NestedClient
from tests.simulation.network import Network
from tests.simulation.troupe import ACTOR, FAILING, CallSink, SimulatedActor, Troupe
from tests.simulation.world import World

FAILING_SHARE = 0.05
KILLED_SHARE = 0.15
"""Of actors that are ended although calls of them have not."""

HANDLE_SHARE = 0.5
"""Of bursts that come from others, who were given the handle."""

OWN_SHARE = 0.3
"""Of parents that make an actor of their own."""

MOST_BURSTS, MOST_CALLS = 4, 6
BURST_SECONDS = (0.0, 1.0)
ROOM_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class ActorScenario(Scenario):
    """``actors``: how many each client makes. ``restarts``: how often each may be made again. ``concurrency``: how many
    calls of each may run at a time. ``leavers``: clients that leave before their calls have ended."""

    function_names: tuple[str, ...] = ("short", PARENT)
    bursts: int = 1
    tasks_per_burst: int = 8
    actors: int = 6
    restarts: int = 0
    concurrency: int = 1
    leavers: int = 0
    methods: tuple[str, ...] = ("short", "short", "short", "long", PARENT)

    @property
    def loses_agents(self) -> bool:
        return bool(self.agent_kills or self.departures or self.absences or (self.stops and self.peers_stop))


class Stagehand:
    """Makes actors, and adds calls of them, in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shapes: dict[tuple[int, str, int], Shape] = {}

    def make(self, actor: SimulatedActor) -> None:
        several = actor.concurrency if actor.concurrency > 1 else 0
        options = TaskOptions(
            hosts_actor=True, rerun=actor.restarts > 0, retries=actor.restarts, max_concurrency=several
        )
        shape = Shape(Function(ACTOR, ACTOR.encode()), 1, (), options)
        place: Any = actor
        self._session.submissions.add(shape, [actor.argument], len(actor.argument), place)
        self._session.submissions.close_batch()
        actor.owner, actor.task = self._session.session, place.task_range.first + place.task_index

    def call(self, actor: SimulatedActor, method: str, sink: CallSink, inputs: Sequence[ObjectKey] = ()) -> None:
        kind = actor.number, method, len(inputs)
        shape = self._shapes.get(kind)
        if shape is None:
            owner = b"" if actor.owner == self._session.session else actor.owner
            options = TaskOptions(actor=actor.task, actor_session=owner, rerun=False)
            shape = Shape(Function(method, method.encode()), 1 + len(inputs), (), options)
            self._shapes[kind] = shape
        task: Any = sink
        self._session.submissions.add(shape, [sink.argument, *inputs], len(sink.argument), task)

    def let_go(self, actor: SimulatedActor, now: float) -> None:
        actor.let_go(now)
        place: Any = actor
        self._session.endings.cancel(place.task_range, place.task_index)


# ---- clients inside tasks and calls ----------------------------------------------------------------------------------


class ActorFamily(Family):
    """One execution of a task, or call, that calls actors. ``own``: the actor that it has made."""

    client: ActorNestedClient

    def __init__(
        self,
        client: ActorNestedClient,
        done: Callable[[bytes], None],
        own: SimulatedActor | None,
        calls: list[CallSink],
    ) -> None:
        super().__init__(client, [sink.argument for sink in calls], done)
        self.own = own
        self.calls = calls

    def result_of(self, argument: bytes) -> bytes:
        return self.client.troupe.results[argument]

    def leave(self) -> None:
        super().leave()
        for call in self.calls:
            call.has_caller_left = True
        own, self.own = self.own, None
        if own is not None:
            self.client.let_go(own)


class ActorNestedClient(NestedClient):
    """Calls the actors of which its task was given handles, or makes one of its own, or submits tasks."""

    def __init__(self, world: World, agent: Any, parent: TaskName) -> None:
        super().__init__(world, agent, parent)
        self.troupe: Troupe = agent.troupe
        self._stagehand = Stagehand(self.core)
        self._own: list[SimulatedActor] = []
        self._calls: list[CallSink] = []

    def run(
        self,
        parent: TaskName,
        argument: bytes,
        execution: int,
        done: Callable[[bytes], None],
        choices: tuple[str, ...] = NAMES,
    ) -> Family:
        actors, own = self.troupe.plans.get(argument, []), None
        if not actors and self.world.chance.random() < OWN_SHARE:
            own = self.troupe.add(b"%s/ %s %d" % (argument, ACTOR.encode(), execution), 0)
            self._own.append(own)
            actors = [own] * self.world.chance.randint(1, MOST_CALLS)
        if not actors:
            return super().run(parent, argument, execution, done, choices)
        return self._call(parent, argument, execution, done, own, actors)

    def _call(
        self,
        parent: TaskName,
        argument: bytes,
        execution: int,
        done: Callable[[bytes], None],
        own: SimulatedActor | None,
        actors: list[SimulatedActor],
    ) -> Family:
        methods = ("short", "long", PARENT) if argument.count(b"/") < LEVELS else ("short", "long")
        chosen = [self.world.chance.choice(methods) for _ in actors]
        names = [b"%s/%s %d.%d" % (argument, method.encode(), execution, at) for at, method in enumerate(chosen)]

        def ended(name: bytes) -> Callable[[Outcome | None], None]:
            return lambda outcome: family.child_ended(name, outcome)  # type: ignore[arg-type]  # these are never cancelled

        sinks = [
            CallSink(self.troupe, self.world, actor, name, ended(name))
            for actor, name in zip(actors, names, strict=True)
        ]
        self._calls += sinks
        family = ActorFamily(self, done, own, sinks)

        def add(now: float) -> None:
            self._parent = parent
            self.core.live_in(parent)
            if own is not None:
                self._stagehand.make(own)
            for actor, method, sink in zip(actors, chosen, sinks, strict=True):
                self._stagehand.call(actor, method, sink)
            self.core.submissions.ask_flush()

        self.post(add)
        self.world.after(self.world.between(*BLOCK_SECONDS), family.block)
        return family

    def let_go(self, actor: SimulatedActor) -> None:
        self.post(lambda now: self._stagehand.let_go(actor, now))

    def end(self) -> None:
        for actor in self._own:
            actor.let_go(self.world.now)
        for call in self._calls:
            call.has_caller_left = True
        super().end()


# ---- applications ----------------------------------------------------------------------------------------------------


class UserSink(TaskSink):
    """The future of a task that was given handles."""

    def __init__(self, client: ActorClientNode, argument: bytes, done: Callable[[Outcome | None], None]) -> None:
        super().__init__(client, argument)
        self.done = done

    def settle(self, outcome: Outcome) -> bool:
        super().settle(outcome)
        self.done(outcome)
        return True

    def cancel(self) -> None:
        super().cancel()
        self.done(None)


class ActorClientNode(ClientNode):
    """Calls actors, its own and those of others."""

    def __init__(self, world: World, network: Network, name: str, cluster: ActorCluster) -> None:
        super().__init__(world, network, name, cluster.scenario.function_names)
        self.stagehand = Stagehand(self.core)
        self.troupe = cluster.troupe
        self.calls: list[CallSink] = []
        self.own: list[SimulatedActor] = []
        self.has_left = False
        self.connected_at = world.now

    def on_connected(self) -> None:
        self.connected_at = self.world.now
        super().on_connected()

    def submit(self, count: int) -> None:
        if not self.has_left:
            super().submit(count)

    def call(self, actor: SimulatedActor, methods: list[str], done: Callable[[Outcome | None], None]) -> None:
        def ended(outcome: Outcome | None) -> None:
            self.unfinished -= 1
            done(outcome)

        sinks = []
        for method in methods:
            argument = f"{self.name} call {method} {len(self.calls)}".encode()
            self.calls.append(self._new_sink(actor, argument, ended))
            sinks.append(self.calls[-1])
            if method == PARENT:
                self.troupe.plans[argument] = self._some_of(self.troupe.there_after(actor.number))

        def add(now: float) -> None:
            for method, sink in zip(methods, sinks, strict=True):
                if not sink.cancelled:
                    self._send_call(actor, method, sink)

        self.unfinished += len(sinks)
        self.post(add)

    def _new_sink(self, actor: SimulatedActor, argument: bytes, ended: Callable[[Outcome | None], None]) -> CallSink:
        return CallSink(self.troupe, self.world, actor, argument, ended)

    def _send_call(self, actor: SimulatedActor, method: str, sink: CallSink) -> None:
        self.stagehand.call(actor, method, sink)

    def _some_of(self, actors: list[SimulatedActor]) -> list[SimulatedActor]:
        return self.world.chance.choices(actors, k=self.world.chance.randint(0, 2)) if actors else []

    def submit_user(self, actor: SimulatedActor, count: int, done: Callable[[Outcome | None], None]) -> None:
        """A task that is given the handle."""
        argument = f"{self.name} {PARENT} {len(self.sinks)}".encode()
        sink: Any = UserSink(self, argument, done)
        self.sinks.append(sink)
        self.troupe.plans[argument] = [actor] * count
        self.unfinished += 1
        shape = next(shape for shape in self._shapes if shape.function.name == PARENT)
        self.post(lambda now: self.core.submissions.add(shape, [argument], len(argument), sink))

    def cancel_some(self, share: float) -> None:
        super().cancel_some(share)
        self.post(lambda now: self._cancel_calls(share))

    def _cancel_calls(self, share: float) -> None:
        for sink in self.calls:
            place: Any = sink
            is_sent = hasattr(sink, "task_range") and not sink.has_ended
            is_chosen = is_sent and self.world.chance.random() < share
            if is_chosen and self.core.endings.cancel(place.task_range, place.task_index):
                sink.cancel()

    def abandoned(self) -> set[bytes]:
        """The tasks and calls that it does not wait for any more."""
        return {sink.argument for sink in [*self.sinks, *self.calls] if self.has_left or sink.cancelled}

    def leave(self, politely: bool) -> None:
        """With a farewell, or killed."""

        def quit(now: float) -> None:
            if politely:
                self.core.quit(now)
                for effect in self.core.take_effects(now):
                    self.carry_out(effect)
            self._be_gone(now)

        if not self.has_left:
            self.has_left = True
            self.post(quit)

    def _be_gone(self, now: float) -> None:
        self.die()
        self.connection.close()
        for actor in self.own:
            actor.let_go(now)
        for call in self.calls:
            call.has_caller_left = True
            if not call.has_ended:
                call.cancel()
        for sink in self.sinks:
            if isinstance(sink, UserSink) and not sink.outcomes and not sink.cancelled:
                sink.cancel()
        self.unfinished = 0


class Owner:
    """An application that makes an actor, calls it, passes its handle on, and lets it go when all calls have ended."""

    def __init__(self, cluster: ActorCluster, client: ActorClientNode) -> None:
        self._cluster = cluster
        self._client = client
        self._world = cluster.world
        if not client.has_left:
            client.unfinished += 1
            self._await_room()

    def _await_room(self) -> None:
        """All workers may be actors, but then no task that was given a handle would start."""
        if self._client.has_left:
            return
        if not self._cluster.has_room():
            self._world.after(ROOM_POLL_SECONDS, self._await_room)
            return
        suffix = b" " + FAILING if self._world.chance.random() < FAILING_SHARE else b""
        name = f"{self._client.name} {ACTOR} {len(self._client.own)}".encode() + suffix
        self._actor = self._cluster.troupe.add(name, self._cluster.scenario.restarts)
        self._client.own.append(self._actor)
        self._client.post(self._make)

    def _make(self, now: float) -> None:
        chance = self._world.chance
        self._client.stagehand.make(self._actor)
        self._pending = chance.randint(1, MOST_BURSTS)
        for _ in range(self._pending):
            self._world.after(self._world.between(*BURST_SECONDS), self._burst)
        if chance.random() < KILLED_SHARE:
            self._world.after(self._world.between(*BURST_SECONDS), self._let_go)

    def _burst(self) -> None:
        chance = self._world.chance
        count = chance.randint(1, MOST_CALLS)
        if self._client.has_left:
            return
        if chance.random() >= HANDLE_SHARE:
            self._pending += count
            self._client.call(self._actor, self._methods(count), self._ended)
        else:
            self._pass_on(chance.choice([each for each in self._cluster.clients if not each.has_left]), count)
        self._ended(None)

    def _pass_on(self, friend: ActorClientNode, count: int) -> None:
        if self._world.chance.random() < 0.5 or self._cluster.workers == 1:
            self._pending += count
            friend.call(self._actor, self._methods(count), self._ended)
        else:
            self._pending += 1
            friend.submit_user(self._actor, count, self._ended)

    def _methods(self, count: int) -> list[str]:
        return self._world.chance.choices(self._cluster.scenario.methods, k=count)

    def _ended(self, outcome: Outcome | None) -> None:
        self._pending -= 1
        if not self._pending:
            self._let_go()

    def _let_go(self) -> None:
        if not self._client.has_left and self._actor.ended_at is None:
            self._actor.let_go(self._world.now)
            self._client.post(self._end)

    def _end(self, now: float) -> None:
        self._client.stagehand.let_go(self._actor, now)
        self._client.unfinished -= 1


class ActorCluster(Cluster):
    scenario: ActorScenario
    clients: list[ActorClientNode]  # type: ignore[assignment]

    def __init__(self, seed: int, scenario: ActorScenario) -> None:
        restarts = scenario.scheduler_restarts + scenario.absences + scenario.client_absences
        self.troupe = Troupe(scenario.loses_agents, restarts, scenario.departures, scenario.concurrency)
        self._started: list[AgentNode] = []
        super().__init__(seed, scenario)

    @property
    def workers(self) -> int:
        return self.scenario.agents * self.scenario.slots

    def has_room(self) -> bool:
        """For one more actor, and a task, if there is more than one worker."""
        there = [actor for client in self.clients for actor in client.own if actor.ended_at is None]
        return len(there) < max(1, self.workers - 1)

    def _plan(self) -> None:
        super()._plan()
        for client in self.clients:
            for _ in range(self.scenario.actors):
                self._sometime(lambda client=client: Owner(self, client))  # type: ignore[misc]
        for client in self.clients[: self.scenario.leavers]:
            politely = self.world.chance.random() < 0.5
            self._sometime(lambda client=client, politely=politely: client.leave(politely))  # type: ignore[misc]

    def check_ends(self) -> None:
        self.troupe.abandoned = {argument for client in self.clients for argument in client.abandoned()}
        super().check_ends()

    def staying_clients(self) -> list[Any]:
        return [client for client in self.clients if not client.has_left]

    def _check_failure(self, payload: bytes) -> None:
        self.troupe.check_failure(payload, self.deaths)

    def report(self) -> str:
        lines = [super().report()]
        for call in self.troupe.calls.values():
            if not call.has_ended and not call.has_caller_left:
                place: Any = call
                task = place.task_range.first + place.task_index if hasattr(call, "task_range") else 0
                lines.append(f"  {call.argument.decode()} (task {task}) to {call.actor.argument.decode()}")
        for agent in self.agents:
            running = [each.running_arguments for each in agent.processes.values() if each.alive]
            lines.append(f"  an agent with {agent.core.state.lent} runs {running}")
        return "\n".join(lines)

    def _check_quiet(self) -> None:
        """Only now has an agent that stood still ended what is not needed any more."""
        self.world.run(self.world.now + END_LIMIT_SECONDS, lambda: not any(agent.alive for agent in self._leaving()))
        super()._check_quiet()
        for call in self.troupe.calls.values():
            call.check(self.deaths)
        for actor in self.troupe.actors.values():
            actor.check()
        for agent in self.scheduler.core.state.agents.values():
            assert not agent.actors and not agent.load.lent
        assert not any(queue.count for queue in self.scheduler.core.state.actors)

    def _leaving(self) -> list[AgentNode]:
        """One that stands still does not leave before it goes on."""
        return [agent for agent in self._started if agent.is_leaving]

    def _start_agent(self, *capabilities: Any) -> AgentNode:
        agent = super()._start_agent(*capabilities)
        self._started.append(agent)
        agent.troupe, agent.nested_client = self.troupe, ActorNestedClient
        return agent

    def _start_client(self, number: int) -> ActorClientNode:
        return ActorClientNode(self.world, self.network, f"client {number}", self)
