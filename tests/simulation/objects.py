"""Clients that send objects and fetch large results, and clusters of them whose stores may die."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scaler.core.effects import DropStoredObjects, PushObject
from scaler.core.large_results import LargeResult
from scaler.core.outcome import Outcome
from scaler.core.runs import Function, Shape
from scaler.core.uploads import Stored, Upload
from scaler_protocol.messages import ObjectKey, Status, TaskOptions
from tests.simulation import graphs
from tests.simulation.agent import AgentNode
from tests.simulation.client import ClientNode
from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.nested import check_failure
from tests.simulation.nested_objects import ObjectNestedClient
from tests.simulation.network import Network
from tests.simulation.scheduler import SchedulerNode
from tests.simulation.stores import Host, Hosts
from tests.simulation.world import World

CLUSTER = b"simulated cluster"[:16]
READ_SECONDS = (0.0, 0.5)
UNREAD_SHARE = 0.2
KEPT_SHARE = 0.3
"""Of the objects that a client keeps itself instead of in the store of its host."""

LEAST_BYTES, MOST_BYTES = 33_000, 1_500_000
NAMES = ("short", "large", "large")
KEPT_BYTES = 2000
"""Of what a failed task says."""


@dataclass(frozen=True)
class ObjectScenario(Scenario):
    """``with_stores``: hosts have stores; without, everything streams. ``readings``: how often each client submits
    tasks whose large results are read by tasks that it submits when they are there."""

    sends: int = 4
    readings: int = 0
    store_kills: int = 0
    with_stores: bool = True
    object_retention_seconds: float = 3600.0
    store_bytes: float = math.inf
    names: tuple[str, ...] = NAMES


class Result:
    """The future of one task; what is large is fetched later, or never."""

    def __init__(self, client: ObjectClientNode, argument: bytes, expected: bytes) -> None:
        self.client = client
        self.argument = argument
        self.expected = expected
        self.outcomes: list[Outcome] = []
        self.cancelled = False
        self.ends = 0
        self.is_cancelled_graph = False
        self.inputs: list[LargeResult] = []
        self.may_miss = True

    def settle(self, outcome: Outcome) -> bool:
        self.ends += 1
        if outcome.status == Status.SUCCESS_LARGE:
            self.client.read_later(self, outcome.payload)
        else:
            self._end(outcome)
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")

    def read(self, outcome: Outcome) -> None:
        self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        self.inputs = []
        is_right = outcome.status == Status.SUCCESS and bytes(outcome.payload) == self.expected
        kept = bytes(outcome.payload[:KEPT_BYTES])
        self.outcomes.append(outcome._replace(payload=b"right" if is_right else kept))
        self.client.unfinished -= 1

    def check_with(self, deaths: dict[bytes, int]) -> None:
        assert len(self.outcomes) + (self.cancelled and not self.outcomes) == 1, (self.argument, self.outcomes)
        assert self.ends <= 1, self.argument
        if self.cancelled or self.is_cancelled_graph:
            return
        outcome = self.outcomes[0]
        if outcome.status == Status.SUCCESS:
            assert outcome.payload == b"right", (self.argument, outcome)
        elif outcome.status == Status.OBJECT_MISSING:
            assert self.client.may_miss and self.may_miss, (self.argument, outcome)
        elif outcome.status == Status.PROCESSOR_DIED:
            assert deaths.get(self.argument, 0) >= 3 or b"graph" in self.argument, (self.argument, deaths)
        elif outcome.status == Status.EXCEPTION:
            check_failure(bytes(outcome.payload), deaths, self.client.may_miss)
        else:
            raise AssertionError((self.argument, outcome))


class Made(Result):
    """The future of a large result that only tasks read."""

    def settle(self, outcome: Outcome) -> bool:
        self.ends += 1
        if outcome.status == Status.SUCCESS_LARGE:
            self.client.read_by_task(self, outcome.payload)
            outcome = Outcome(Status.SUCCESS, self.expected)
        self._end(outcome)
        return True


class Fetching:
    """A large result on its way."""

    def __init__(self, result: Result) -> None:
        self.result = result

    def settle(self, outcome: Outcome) -> bool:
        self.result.read(outcome)
        return True

    def finish(self, outcome: Outcome) -> None:
        raise AssertionError("settle never asked for this")


class ObjectClientNode(ClientNode):
    """``host``: whose store it shares; None: it streams. ``may_miss``: objects may be lost."""

    def __init__(
        self, world: World, network: Network, name: str, host: Host | None, names: tuple[str, ...] = NAMES
    ) -> None:
        super().__init__(world, network, name, names)
        self._names = names
        self.host = host
        self.may_miss = False
        self.uploads: list[tuple[Upload, bytes]] = []
        self.results: list[Result] = []
        self._with_object = {
            (name, number): Shape(Function(name, name.encode()), 1 + number, (), TaskOptions())
            for name in names
            for number in (0, 1, 2, 3)
        }
        self._made: list[tuple[LargeResult, bytes]] = []
        self.lets_miss = True
        if host is not None:
            host.has_clients = True

    def send(self, count: int) -> None:
        """Send an object, and submit tasks that need it, some with others."""

        def add(now: float) -> None:
            self.uploads.append(self._upload())
            for _ in range(count):
                self._add(now)
            if self.world.chance.random() < 0.5:
                self._let_go(self.world.chance.randrange(len(self.uploads)))

        self.unfinished += count
        self.post(add)

    def _upload(self) -> tuple[Upload, bytes]:
        size = self.world.chance.randint(LEAST_BYTES, MOST_BYTES)
        data = (b"object %d of %s" % (len(self.uploads), self.name.encode())).ljust(size)
        key = self.core.objects.next_key()
        if self.host is None:
            return self.core.objects.add(key, data), data
        if not self.host.store.has_room(len(data)) or self.world.chance.random() < KEPT_SHARE:
            return self.core.objects.add(key, Stored(size, b"", lambda _: data)), data
        host = self.host
        host.store.put(key, data, self)

        def read(_: ObjectKey) -> memoryview | None:
            kept = host.store.objects.get(key)
            return None if kept is None else memoryview(kept)

        return self.core.objects.add(key, Stored(size, host.store.id, read)), data

    def _add(self, now: float) -> None:
        chance = self.world.chance
        used = chance.choices(self.uploads, k=chance.randint(1, 3))
        name = chance.choice(self._names)
        argument = f"{self.name} {name} {len(self.results)}".encode()
        result: Any = Result(self, argument, graphs.result_of(argument, [data for _, data in used]))
        self.results.append(result)
        slots = [argument, *(upload.key for upload, _ in used)]
        self.core.submissions.add(self._with_object[name, len(used)], slots, len(argument), result)
        self.core.objects.refer(result.task_range, result.task_index, [upload for upload, _ in used])

    def make(self, count: int) -> None:
        """Submit tasks whose large results others read when they are there."""

        def add(now: float) -> None:
            for _ in range(count):
                argument = f"{self.name} {graphs.LARGE} {len(self.results)}".encode()
                result: Any = Made(self, argument, graphs.result_of(argument, []))
                self.results.append(result)
                self.core.submissions.add(self._with_object[graphs.LARGE, 0], [argument], len(argument), result)

        self.unfinished += count
        self.post(add)

    def read_by_task(self, made: Made, large: LargeResult) -> None:
        """A result is there: a task reads it, and some of those that came before."""
        chance = self.world.chance
        self._made.append((large, made.expected))
        inputs = [self._made[-1], *chance.choices(self._made, k=chance.randint(0, 2))]
        del self._made[:-2]
        self.unfinished += 1
        delay = self.world.between(*READ_SECONDS)
        self.world.after(delay, lambda: self.post(lambda now: self._submit_reader(inputs)))

    def _submit_reader(self, inputs: list[tuple[LargeResult, bytes]]) -> None:
        name = self.world.chance.choice(self._names)
        argument = f"{self.name} {name} {len(self.results)}".encode()
        result: Any = Result(self, argument, graphs.result_of(argument, [expected for _, expected in inputs]))
        result.inputs = [large for large, _ in inputs]
        result.may_miss = self.lets_miss
        self.results.append(result)
        slots = [argument, *(large.key for large, _ in inputs)]
        self.core.submissions.add(self._with_object[name, len(inputs)], slots, len(argument), result)

    def _let_go(self, index: int) -> None:
        upload, _ = self.uploads.pop(index)
        self.core.objects.let_go(upload)

    def submit_graph(self, count: int) -> None:
        graph = graphs.RandomGraph(self.world.chance, count, self._names)
        self.unfinished += sum(graph.targets)
        name = f"{self.name} graph {len(self.groups)}"

        def add(now: float) -> None:
            group, sinks = graphs.submit(self.core, self, graph, name, self._graph_result)
            self.groups.append((group, sinks))
            self.graph_sinks += sinks

        self.post(add)

    def _graph_result(self, client: Any, argument: bytes, expected: bytes, arguments: list[bytes]) -> Any:
        return Result(self, argument, expected)

    def cancel_some(self, share: float) -> None:
        def cancel(now: float) -> None:
            for result in self.results:
                place: Any = result
                if result.ends or result.cancelled or self.world.chance.random() >= share:
                    continue
                if self.core.endings.cancel(place.task_range, place.task_index):
                    result.cancelled = True
                    result.inputs = []
                    self.unfinished -= 1

        self.post(cancel)

    def finish_up(self) -> None:
        """Nothing that was sent is needed any more."""

        def let_go(now: float) -> None:
            self._made.clear()
            while self.uploads:
                self._let_go(0)

        self.post(let_go)

    # ---- large results -------------------------------------------------------------------------------------------

    def read_later(self, result: Result, large: LargeResult) -> None:
        chance = self.world.chance
        if chance.random() < UNREAD_SHARE:
            result.inputs = []
            result.outcomes.append(Outcome(Status.SUCCESS, b"right"))
            self.unfinished -= 1
            self.post(lambda now: None)
            return
        kept = [large]
        self.world.after(self.world.between(*READ_SECONDS), lambda: self.post(lambda now: self._read(result, kept)))

    def _read(self, result: Result, kept: list[LargeResult]) -> None:
        large = kept.pop()
        store = self.host.store if self.host is not None else None
        data = store.objects.get(large.key) if store is not None and store.id == large.store else None
        if data is None:
            self.core.large.fetch(large, Fetching(result))
        else:
            self.core.large.has_taken(large)
            result.read(Outcome(Status.SUCCESS, data))

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, DropStoredObjects):
            if self.host is not None:
                self.host.drop(effect.keys)
        elif isinstance(effect, PushObject) and self.host is not None:
            self.host.hosts.push(self, effect)
        else:
            super().carry_out(effect)


class ObjectCluster(Cluster):
    """Every agent is a host of its own; every other client shares one with an agent."""

    scenario: ObjectScenario
    clients: list[ObjectClientNode]  # type: ignore[assignment]

    def __init__(self, seed: int, scenario: ObjectScenario) -> None:
        self.hosts: Hosts | None = None
        super().__init__(seed, scenario)

    def _plan(self) -> None:
        super()._plan()
        chance, scenario = self.world.chance, self.scenario
        for client in self.clients:
            client.may_miss = scenario.object_retention_seconds < READ_SECONDS[1]
            for _ in range(scenario.sends):
                count = chance.randint(1, scenario.tasks_per_burst)
                self._sometime(lambda client=client, count=count: client.send(count))  # type: ignore[misc]
            client.lets_miss = client.may_miss or scenario.process_kills > 0
            for _ in range(scenario.readings):
                count = chance.randint(1, scenario.tasks_per_burst)
                self._sometime(lambda client=client, count=count: client.make(count))  # type: ignore[misc]
        for _ in range(scenario.store_kills):
            self._sometime(self._kill_store)

    def _kill_store(self) -> None:
        for client in self.clients:
            client.may_miss = True
        victim = self.world.chance.choice(self.agents)
        if victim.host is not None:
            victim.host.kill_store()

    def run(self) -> None:
        super().run()
        self._check_crossings()

    def check_ends(self) -> None:
        super().check_ends()
        for client in self.clients:
            for result in client.results:
                result.check_with(self.deaths)
            client.finish_up()

    def _check_quiet(self) -> None:
        super()._check_quiet()
        core = self.scheduler.core.state
        assert not core.objects.objects and not core.objects.unstated, "the directory is not empty"
        assert not core.relays and not core.transfers._began
        for client in core.clients.values():
            assert not client.objects and not client.large and not client.fetching
        for each in self.clients:
            assert not each.core.objects.uploads and not each.core.large.fetches

    def _check_crossings(self) -> None:
        """Bytes come to each host once at most; what a client keeps itself comes to all of them."""
        scenario = self.scenario
        kills = scenario.store_kills or scenario.agent_kills or scenario.process_kills
        disturbed = kills or scenario.departures or scenario.drains
        if self.hosts is None or disturbed or scenario.scheduler_restarts or scenario.stops:
            return  # results are made again
        most = max(self.hosts.crossings.values(), default=0)
        assert most <= scenario.agents, most

    # ---- who is there ------------------------------------------------------------------------------------------

    def _start_scheduler(self, **settings: Any) -> SchedulerNode:
        retention = self.scenario.object_retention_seconds
        return super()._start_scheduler(object_retention_seconds=retention, cluster=CLUSTER, **settings)

    def _start_agent(self) -> AgentNode:
        if self.hosts is None:
            self.hosts = Hosts(self.world, self.scenario.store_bytes)
        host = Host(self.hosts) if self.scenario.with_stores else None
        agent = AgentNode(self.world, self.network, self.scenario.slots, self.executions, self.deaths, host)
        agent.nested_client = ObjectNestedClient
        return agent

    def _start_client(self, number: int) -> ObjectClientNode:
        host = self.agents[number % len(self.agents)].host if number % 2 == 0 else None
        return ObjectClientNode(self.world, self.network, f"client {number}", host, self.scenario.names)

    def report(self) -> str:
        lines = [super().report()]
        for client in self.clients:
            left = [each for each in client.results if not each.outcomes and not each.cancelled][:5]
            for result in left:
                place: Any = result
                task = place.task_range.first + place.task_index
                text = self.scheduler.core.explain(client.session, task)
                is_fetched = ObjectKey(client.session, task) in client.core.large.fetches
                lines.append(f"  {result.argument.decode()} ({result.ends} ends, fetch {is_fetched}): {text}")
        return "\n".join(lines)
