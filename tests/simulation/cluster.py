"""A simulated cluster under disturbances, and the properties that must hold whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler_protocol.messages import Capability, Status
from scaler_scheduler.core.settings import HOLD_ONCE_SECONDS, HOLD_SECONDS
from tests.simulation.agent import AgentNode
from tests.simulation.client import ONCE, ClientNode
from tests.simulation.locks import LOCKER, Keeper
from tests.simulation.nested import PARENT, check_failure
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.scheduler import SchedulerNode
from tests.simulation.stores import Host
from tests.simulation.world import World

HEARTBEAT_TIMEOUT_SECONDS = (1.5, 2.0)
"""A process that stands still for longer loses its connection."""

END_LIMIT_SECONDS = 300.0
SETTLE_LIMIT_SECONDS = 30.0
WATCH_SECONDS = 0.05


@dataclass(frozen=True)
class Scenario:
    """What happens in a run; the seed decides when and to whom."""

    agents: int = 3
    slots: int = 2
    clients: int = 2
    bursts: int = 4
    tasks_per_burst: int = 60
    seconds: float = 6.0
    cuts: int = 0
    nested_cuts: int = 0
    agent_kills: int = 0
    departures: int = 0
    grace_seconds: float = 10.0
    drains: int = 0
    process_kills: int = 0
    scheduler_restarts: int = 0
    absences: int = 0
    client_absences: int = 0
    stops: int = 0
    longest_stop_seconds: float = 3.0
    scheduler_stops: bool = True
    peers_stop: bool = True
    cancels: int = 0
    graphs: int = 0
    graph_cancels: int = 0
    lock_uses: int = 0
    most_delay_seconds: float = 0.002
    round_trip_seconds: float = 0.0
    per_worker_queue_size: int = 1000
    max_number_of_tasks_waiting: int = -1
    aging_seconds: float = 0.0
    group_limits: str = ""
    client_timeout_seconds: float = 60.0
    function_names: tuple[str, ...] = ("short", "long")
    graph_names: tuple[str, ...] = ()


class Cluster:
    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(seed)
        self.network = Network(self.world, scenario.most_delay_seconds)
        self.executions: dict[bytes, int] = {}
        self.deaths: dict[bytes, int] = {}
        self.keeper = Keeper()
        self.scheduler = self._start_scheduler()
        self.agents = [self._start_agent() for _ in range(scenario.agents)]
        self.departing: list[AgentNode] = []
        """Those that were told to leave, also when they have."""

        self.clients = [self._start_client(number) for number in range(scenario.clients)]
        self._watch()

    def run(self) -> None:
        """Everything that the scenario asks for, then peace until every task has ended."""
        self._plan()
        self.world.run(self.world.now + self.scenario.seconds)
        self.finish()

    def finish(self) -> None:
        """Peace until every task has ended, as it should, and nothing is left."""
        self._heal()
        finished = self.world.run(
            self.world.now + END_LIMIT_SECONDS, lambda: not any(client.unfinished for client in self.clients)
        )
        assert finished, self.report()
        self._await_all()
        self.check_ends()
        self._check_quiet()

    def _await_all(self) -> None:
        """Wait until all who stand still run again, leaving agents too, and are welcomed, and until the scheduler waits
        for no agent that may have started tasks before it was restarted."""
        everybody = [self.scheduler, *self.clients, *self.agents, *self.departing]
        self.world.run(max([self.world.now, *(node.resumes_at for node in everybody)]))
        is_settled = self.world.run(self.world.now + SETTLE_LIMIT_SECONDS, self._has_settled)
        assert is_settled, self.scheduler.log[-10:]

    def _has_settled(self) -> bool:
        return (
            all(agent.core.state.welcomed for agent in [*self.agents, *self.departing] if agent.alive)
            and all(client.core.welcomed for client in self.staying_clients())
            and not any(client.known_agents.awaited for client in self.scheduler.core.state.clients.values())
        )

    def report(self) -> str:
        lines = [f"{client.name}: {client.unfinished} tasks never ended" for client in self.clients]
        for client in self.clients:
            sinks = [*client.sinks, *client.graph_sinks]
            left = [sink for sink in sinks if not sink.outcomes and not sink.cancelled][:5]
            for sink in left:
                place = sink.task_range, sink.task_index  # type: ignore[attr-defined]
                text = self.scheduler.core.explain(client.session, place[0].first + place[1])
                lines.append(f"  {sink.argument.decode()} (task {place[0].first + place[1]}): {text}")
        return "\n".join([*lines, *self.scheduler.log[-10:]])

    def check_ends(self) -> None:
        self.check_started_once()
        for client in self.staying_clients():
            for graph_sink in client.graph_sinks:
                graph_sink.check_with(self.deaths)
            for sink in client.sinks:
                if sink.outcomes and sink.outcomes[0].status == Status.EXCEPTION:
                    self._check_failure(bytes(sink.outcomes[0].payload))
                    continue
                sink.check(self.deaths.get(sink.argument, 0))
                if sink.outcomes and sink.outcomes[0].status == Status.SUCCESS:
                    assert self.executions.get(sink.argument, 0) >= 1, sink.argument

    def staying_clients(self) -> list[ClientNode]:
        """Those that get the results of their tasks."""
        return self.clients

    def _check_failure(self, payload: bytes) -> None:
        """A task that waited for others has failed with one of them."""
        check_failure(payload, self.deaths)

    def check_started_once(self) -> None:
        """Whatever happens, tasks with rerun=False start at most once."""
        twice = [name for name, count in self.executions.items() if count > 1 and f" {ONCE} ".encode() in name]
        assert not twice, twice

    def check_ran_once(self) -> None:
        """Nothing died, so nothing may run twice; but the short tasks of a silent agent are not waited for."""
        excuses_short = self.scenario.stops and self.scenario.peers_stop
        twice = [
            name for name, count in self.executions.items() if count > 1 and not (excuses_short and b"short" in name)
        ]
        assert not twice, twice

    def _check_quiet(self) -> None:
        """When all is done nothing moves any more but signs of life."""
        self.world.run(self.world.now + 3.0)
        if any(not agent.connection.is_open for agent in self.scheduler.core.state.agents.values()):
            # It died while the scheduler stood still: it might as well have been stopped, and has the full time.
            self.world.run(self.world.now + self.scheduler.core.state.settings.worker_timeout_seconds)
        # An agent that came back late has brought objects whose clients have the usual time to claim them.
        joined_at = max((agent.attached_at for agent in self.scheduler.core.state.agents.values()), default=0.0)
        # Clients that have ended while there was no scheduler are awaited.
        awaited_until = self.scheduler.core.state.absent.return_until
        self.world.run(max(self.world.now, joined_at + 2 * HOLD_SECONDS, awaited_until + 2 * HOLD_SECONDS))
        # Tasks that were submitted inside its tasks end with these.
        self.world.run(self.world.now + SETTLE_LIMIT_SECONDS, lambda: not self._has_unfinished())
        self.world.run(self.world.now + 1.0)
        before = dict(self.scheduler.sent)
        self.world.run(self.world.now + 3.0)
        moved = {
            name
            for name, count in self.scheduler.sent.items()
            if count != before.get(name) and name not in ("Ping", "HeartbeatEcho", "Acknowledgement")
        }
        assert not moved, moved
        assert self.scheduler.core.state.placement.queued == 0
        assert not self.scheduler.core.state.locks.locks and not self.scheduler.core.state.locks.by_task
        assert not self.scheduler.core.state.named.waiting and not self.scheduler.core.state.named.by_task
        self.scheduler.check_records()
        for table in [client.table for client in self.scheduler.core.state.clients.values()]:
            assert not table.columns.unfinished and not table.nodes.graphs, table.columns.unfinished
        for agent in self.agents:
            agent.check_empty()

    def _has_unfinished(self) -> bool:
        return any(client.table.columns.unfinished for client in self.scheduler.core.state.clients.values())

    # ---- who is there ------------------------------------------------------------------------------------------

    def _start_scheduler(self, **settings: Any) -> SchedulerNode:
        return SchedulerNode(
            self.world,
            self.network,
            per_worker_queue_size=self.scenario.per_worker_queue_size,
            max_number_of_tasks_waiting=self.scenario.max_number_of_tasks_waiting,
            aging_seconds=self.scenario.aging_seconds,
            group_limits=self.scenario.group_limits,
            client_timeout_seconds=self.scenario.client_timeout_seconds,
            **settings,
        )

    def _start_agent(self, *capabilities: Capability) -> AgentNode:
        return AgentNode(
            self.world,
            self.network,
            self.scenario.slots,
            self.executions,
            self.deaths,
            self._new_host(),
            keeper=self.keeper,
            capabilities=capabilities,
            distance_seconds=self.scenario.round_trip_seconds / 2,
            grace_seconds=self.scenario.grace_seconds,
        )

    def _new_host(self) -> Host | None:
        """The host of the next agent, if it has a store."""
        return None

    def _start_client(self, number: int) -> ClientNode:
        client = ClientNode(self.world, self.network, f"client {number}", self.scenario.function_names)
        client.graph_names = self.scenario.graph_names
        return client

    def add_agent(self, *capabilities: Capability) -> AgentNode:
        self.agents.append(self._start_agent(*capabilities))
        return self.agents[-1]

    def add_client(self, *function_names: str, priorities: tuple[int, ...] = (0, 1)) -> ClientNode:
        """A client that submits tasks of these functions."""
        name = f"client {len(self.clients)}"
        self.clients.append(ClientNode(self.world, self.network, name, function_names, priorities))
        return self.clients[-1]

    def _watch(self) -> None:
        """No agent is ever given more than the ceiling."""
        if PARENT in self.scenario.function_names or LOCKER in self.scenario.function_names:
            return  # deeper tasks pass the credit of those that are blocked
        ceiling = max(1, self.scenario.per_worker_queue_size) * self.scenario.slots
        for agent in self.scheduler.core.state.agents.values():
            assert agent.load.outstanding <= ceiling + self.scenario.slots, (agent.load.outstanding, ceiling)
        self.world.after(WATCH_SECONDS, self._watch)

    # ---- what happens ------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        scenario = self.scenario
        for client in self.clients:
            for _ in range(scenario.bursts):
                count = self.world.chance.randint(1, 2 * scenario.tasks_per_burst)
                self._sometime(lambda client=client, count=count: client.submit(count))  # type: ignore[misc]
            for _ in range(scenario.graphs):
                count = self.world.chance.randint(1, 2 * scenario.tasks_per_burst)
                self._sometime(lambda client=client, count=count: client.submit_graph(count))  # type: ignore[misc]
        plan: list[tuple[int, Callable[[], None]]] = [
            (scenario.cuts, self._cut),
            (scenario.nested_cuts, self._cut_nested),
            (scenario.agent_kills, self._kill_agent),
            (scenario.departures, self._have_agent_leave),
            (scenario.drains, self._drain_agent),
            (scenario.process_kills, self._kill_worker_process),
            (scenario.scheduler_restarts, self._restart_scheduler),
            (scenario.absences, self._restart_without_agent),
            (scenario.client_absences, self._restart_without_client),
            (scenario.stops, self._stop_somebody),
            (scenario.cancels, self._cancel),
            (scenario.graph_cancels, lambda: self.world.chance.choice(self.clients).cancel_graph()),
            (scenario.lock_uses, lambda: self.world.chance.choice(self.clients).use_lock(self.keeper)),
            (scenario.lock_uses, lambda: self.world.chance.choice(self.clients).use_variable()),
        ]
        for count, action in plan:
            for _ in range(count):
                self._sometime(action)

    def _sometime(self, action: Callable[[], None]) -> None:
        self.world.after(self.world.between(0.1, self.scenario.seconds), action)

    def _cut(self) -> None:
        self.world.chance.choice(list(self.network.connections.values())).cut()

    def _cut_nested(self) -> None:
        nested = [each for agent in self.agents for each in agent.nested.values()]
        if nested:
            self.world.chance.choice(nested).cut()

    def _kill_agent(self) -> None:
        victim = self.world.chance.choice(self.agents)
        victim.kill()
        self.agents.remove(victim)
        self.agents.append(self._start_agent())

    def _have_agent_leave(self) -> None:
        self._pop_departing().leave()

    def _drain_agent(self) -> None:
        self._pop_departing().drain(self.scheduler)

    def _pop_departing(self) -> AgentNode:
        """Another agent takes its place."""
        self.agents.append(self._start_agent())
        self.departing.append(self.agents.pop(self.world.chance.randrange(len(self.agents) - 1)))
        return self.departing[-1]

    def _kill_worker_process(self) -> None:
        self.world.chance.choice(self.agents).kill_worker_process()

    def _restart_scheduler(self) -> None:
        if self.scheduler.alive:
            self.scheduler.kill()
            self.world.after(self.world.between(0.05, 2.5), self._bring_back_scheduler)

    def _restart_without_agent(self) -> None:
        """The scheduler restarts while an agent is away, often for longer than tasks are held."""
        victim = self.world.chance.choice(self.agents)
        victim.stop_for(self.world.between(0.5, 2 * HOLD_ONCE_SECONDS))
        self.world.after(self.world.between(*HEARTBEAT_TIMEOUT_SECONDS), victim.connection.cut)
        self._restart_scheduler()

    def _restart_without_client(self) -> None:
        """The scheduler restarts while a client is away."""
        self.world.chance.choice(self.clients).stop_for(self.world.between(0.5, HOLD_ONCE_SECONDS))
        self._restart_scheduler()

    def _bring_back_scheduler(self) -> None:
        if not self.scheduler.alive:
            self.scheduler = self._start_scheduler()

    def _stop_somebody(self) -> None:
        seconds = self.world.between(0.05, self.scenario.longest_stop_seconds)
        victim = self.world.chance.choice(self._who_may_stop())
        victim.stop_for(seconds)
        timeout_seconds = self.world.between(*HEARTBEAT_TIMEOUT_SECONDS)
        if seconds > timeout_seconds:
            victims = self.network.connections.values() if victim is self.scheduler else [victim.connection]  # type: ignore[union-attr]
            for connection in list(victims):
                self.world.after(timeout_seconds, connection.cut)

    def _who_may_stop(self) -> list[Node]:
        peers: list[Node] = [*self.agents, *self.clients] if self.scenario.peers_stop else []
        return [*peers, self.scheduler] if self.scenario.scheduler_stops else peers

    def _cancel(self) -> None:
        self.world.chance.choice(self.clients).cancel_some(self.world.between(0.0, 0.5))

    def _heal(self) -> None:
        self._bring_back_scheduler()
