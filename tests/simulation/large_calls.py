"""Actors that are called with large arguments, and return large results, on hosts whose stores may die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler.core.effects import DropStoredObjects, PushObject
from scaler.core.large_results import LargeResult
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.uploads import Stored, Upload
from scaler_protocol.messages import ObjectKey, Status, TaskOptions
from tests.simulation.actors import ActorClientNode, ActorCluster, ActorScenario
from tests.simulation.graphs import LARGE, result_of
from tests.simulation.nested import PARENT
from tests.simulation.nested_objects import Arrival
from tests.simulation.network import Network
from tests.simulation.objects import CLUSTER, KEPT_SHARE, READ_SECONDS, UNREAD_SHARE
from tests.simulation.scheduler import SchedulerNode
from tests.simulation.stores import Host, Hosts
from tests.simulation.troupe import CallSink, SimulatedActor
from tests.simulation.world import World

UPLOAD_BYTES = (33_000, 200_000)
MOST_INPUTS = 2


@dataclass(frozen=True)
class LargeCallScenario(ActorScenario):
    """``values``: how many large results each client has made, which calls read. ``uploads``: how many objects it
    sends."""

    methods: tuple[str, ...] = ("short", LARGE, LARGE, "long", PARENT)
    values: int = 12
    uploads: int = 4
    store_kills: int = 0


class LargeCallSink(CallSink):
    """The future of a call. ``inputs``: keeps the objects that it reads. ``expected``: what follows from them."""

    def __init__(self, client: LargeCallClientNode, *arguments: Any) -> None:
        super().__init__(client.troupe, client.world, *arguments)
        self._client = client
        self.inputs: list[Any] = []
        self.expected: bytes | None = None

    def settle(self, outcome: Outcome) -> bool:
        if outcome.status == Status.SUCCESS_LARGE:
            self._client.read_later(self, outcome.payload)
            return True
        return self.read(outcome)

    def read(self, outcome: Outcome) -> bool:
        self.inputs = []
        return super().settle(outcome)

    def cancel(self) -> None:
        self.inputs = []
        super().cancel()

    def check(self, deaths: dict[bytes, int]) -> None:
        super().check(deaths)
        if self.outcomes and self.outcomes[0].status == Status.SUCCESS and self.expected is not None:
            assert bytes(self.outcomes[0].payload).partition(b" ")[2] == self.expected, self.argument


class Value:
    """The future of a large result that only calls read."""

    def __init__(self, client: LargeCallClientNode, argument: bytes) -> None:
        self._client = client
        self._argument = argument

    def settle(self, outcome: Outcome) -> bool:
        if outcome.status == Status.SUCCESS_LARGE:
            self._client.inputs.append((outcome.payload, result_of(self._argument, [])))
        elif not self._client.has_left:
            assert outcome.status == Status.PROCESSOR_DIED, (self._argument, outcome)
        self._client.unfinished -= 1
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")


class LargeCallClientNode(ActorClientNode):
    """``host``: whose store it shares; None: it streams. ``inputs``: what its calls may be given, and the bytes."""

    def __init__(self, world: World, network: Network, name: str, cluster: ActorCluster, host: Host | None) -> None:
        super().__init__(world, network, name, cluster)
        self._host = host
        self._values = 0
        self.inputs: list[tuple[LargeResult | Upload, bytes]] = []
        if host is not None:
            host.has_clients = True

    def make_value(self) -> None:
        """Submit a task whose large result calls read."""

        def add(now: float) -> None:
            self._values += 1
            argument = f"{self.name} {LARGE} {self._values}".encode()
            shape = Shape(Function(LARGE, LARGE.encode()), 1, (), TaskOptions())
            self.core.submissions.add(shape, [argument], len(argument), Value(self, argument))

        if not self.has_left:
            self.unfinished += 1
            self.post(add)

    def upload(self) -> None:
        self.post(lambda now: self.inputs.append(self._upload()))

    def _upload(self) -> tuple[Upload, bytes]:
        key, size = self.core.objects.next_key(), self.world.chance.randint(*UPLOAD_BYTES)
        data = (b"object %d of %s" % (key.number, self.name.encode())).ljust(size)
        host = self._host
        if host is None:
            return self.core.objects.add(key, data), data
        if self.world.chance.random() < KEPT_SHARE:
            return self.core.objects.add(key, Stored(size, b"", lambda _: memoryview(data))), data
        host.store.put(key, data, self)

        def read(_: ObjectKey) -> memoryview | None:
            kept = host.store.objects.get(key)
            return None if kept is None else memoryview(kept)

        return self.core.objects.add(key, Stored(size, host.store.id, read)), data

    def let_go_of_inputs(self, share: float = 1.0) -> None:
        """The application needs some of these values no more, but calls may."""

        def let_go(now: float) -> None:
            kept = [each for each in self.inputs if self.world.chance.random() >= share]
            for each, _ in self.inputs:
                if isinstance(each, Upload) and all(each is not other for other, _ in kept):
                    self.core.objects.let_go(each)
            self.inputs = kept

        self.post(let_go)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _new_sink(
        self, actor: SimulatedActor, argument: bytes, ended: Callable[[Outcome | None], None]
    ) -> LargeCallSink:
        return LargeCallSink(self, actor, argument, ended)

    def _send_call(self, actor: SimulatedActor, method: str, sink: CallSink) -> None:
        assert isinstance(sink, LargeCallSink)
        chance = self.world.chance
        used = chance.choices(self.inputs, k=chance.randint(0, MOST_INPUTS)) if self.inputs else []
        sink.inputs = [each for each, _ in used]
        sink.expected = result_of(sink.argument, [data for _, data in used])
        self.stagehand.call(actor, method, sink, [each.key for each in sink.inputs])
        uploads = [each for each in sink.inputs if isinstance(each, Upload)]
        if uploads:
            place: Any = sink
            self.core.objects.refer(place.task_range, place.task_index, uploads)

    def read_later(self, sink: LargeCallSink, large: LargeResult) -> None:
        if self.world.chance.random() < UNREAD_SHARE:
            payload = self.troupe.results[sink.argument]
            self.post(lambda now: None)  # the result is dropped
            sink.read(Outcome(Status.SUCCESS, payload))
            return
        kept = [large]
        self.world.after(self.world.between(*READ_SECONDS), lambda: self.post(lambda now: self._read(sink, kept)))

    def _read(self, sink: LargeCallSink, kept: list[LargeResult]) -> None:
        large = kept.pop()
        store = self._host.store if self._host is not None else None
        data = store.objects.get(large.key) if store is not None and store.id == large.store else None
        if data is None:
            self.core.large.fetch(large, Arrival(sink.read))
        else:
            self.core.large.has_taken(large)
            sink.read(Outcome(Status.SUCCESS, data))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, DropStoredObjects):
            if self._host is not None:
                self._host.drop(effect.keys)
        elif isinstance(effect, PushObject) and self._host is not None:
            self._host.hosts.push(self, effect)
        else:
            super().carry_out(effect)

    def _be_gone(self, now: float) -> None:
        super()._be_gone(now)
        if self._host is not None:
            self._host.store.on_process_died(self)


class LargeCallCluster(ActorCluster):
    """Every agent is a host of its own; every other client shares one with an agent."""

    scenario: LargeCallScenario
    clients: list[LargeCallClientNode]  # type: ignore[assignment]

    def __init__(self, seed: int, scenario: LargeCallScenario) -> None:
        self._hosts: Hosts | None = None
        super().__init__(seed, scenario)
        self.troupe.loses_objects = scenario.loses_agents or bool(scenario.store_kills)

    def _plan(self) -> None:
        super()._plan()
        for client in self.clients:
            for _ in range(self.scenario.values):
                self._sometime(client.make_value)
            for _ in range(self.scenario.uploads):
                self._sometime(client.upload)
            self._sometime(lambda client=client: client.let_go_of_inputs(0.5))  # type: ignore[misc]
        for _ in range(self.scenario.store_kills):
            self._sometime(self._kill_store)

    def _kill_store(self) -> None:
        victim = self.world.chance.choice(self.agents)
        if victim.host is not None:
            victim.host.kill_store()

    def check_ends(self) -> None:
        super().check_ends()
        for client in self.clients:
            client.let_go_of_inputs()

    def _check_quiet(self) -> None:
        super()._check_quiet()
        state = self.scheduler.core.state
        assert not state.objects.objects and not state.objects.unstated, "the directory is not empty"
        assert not state.relays and not state.transfers._began
        for client in state.clients.values():
            assert not client.objects and not client.large and not client.fetching
        for each in self.staying_clients():
            assert not each.core.objects.uploads and not each.core.large.fetches

    def _new_host(self) -> Host:
        if self._hosts is None:
            self._hosts = Hosts(self.world)
        return Host(self._hosts)

    def _start_scheduler(self, **settings: Any) -> SchedulerNode:
        return super()._start_scheduler(cluster=CLUSTER, **settings)

    def _start_client(self, number: int) -> LargeCallClientNode:
        host = self.agents[number % len(self.agents)].host if number % 2 == 0 else None
        return LargeCallClientNode(self.world, self.network, f"client {number}", self, host)
