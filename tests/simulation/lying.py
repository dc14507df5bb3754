"""Clusters with liars among their peers: what the honest ones asked for is done all the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from scaler_protocol.messages import Role
from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.liars import Liar, LyingNestedClient
from tests.simulation.lies import Lore
from tests.simulation.objects import ObjectCluster, ObjectScenario
from tests.simulation.scheduler import SchedulerNode

SETTLE_SECONDS = 8.0
"""Longer than scheduler and agents keep anything for peers that are gone."""


@dataclass(frozen=True)
class LyingScenario(Scenario):
    """``lying_agents`` are handed tasks of honest clients, and may answer what they like. ``lying_nested``: clients
    inside tasks, at the honest agents."""

    lying_clients: int = 0
    lying_agents: int = 0
    lying_nested: int = 0
    max_number_of_tasks_waiting: int = -1
    client_timeout_seconds: float = 5.0
    worker_timeout_seconds: float = 5.0


@dataclass(frozen=True)
class LyingObjectScenario(ObjectScenario, LyingScenario):
    """Clusters with large objects."""

    client_timeout_seconds: float = 5.0


class WithLiars:
    """Beside a kind of cluster."""

    def __init__(self, seed: int, scenario: Any, chance: random.Random | None = None) -> None:
        """``chance`` decides what the liars do."""
        super().__init__(seed, scenario)  # type: ignore[call-arg]
        cluster: Any = self
        self.lore = Lore()
        self.lore.sessions.extend(peer.session for peer in (*cluster.clients, *cluster.agents))
        self.chance = chance or random.Random(cluster.world.chance.random())
        self.liars: list[Liar | LyingNestedClient] = [
            *(self._start_liar(Role.SUBMIT) for _ in range(scenario.lying_clients)),
            *(self._start_liar(Role.WORK) for _ in range(scenario.lying_agents)),
            *(self._start_nested() for _ in range(scenario.lying_nested)),
        ]

    def run(self) -> None:
        cluster: Any = self
        for liar in self.liars:
            liar.lie_until(cluster.world.now + cluster.scenario.seconds)
        super().run()  # type: ignore[misc]

    def check_ends(self) -> None:
        """With a liar among the agents a task may have any end, but one only."""
        cluster: Any = self
        if not cluster.scenario.lying_agents:
            super().check_ends()  # type: ignore[misc]
            return
        for client in cluster.clients:
            for sink in (*client.sinks, *client.graph_sinks, *getattr(client, "results", ())):
                assert len(sink.outcomes) + (sink.cancelled and not sink.outcomes) == 1, (sink.argument, sink.outcomes)
            if isinstance(self, ObjectCluster):
                client.finish_up()

    def _check_quiet(self) -> None:
        cluster: Any = self
        cluster.world.run(cluster.world.now + SETTLE_SECONDS)
        super()._check_quiet()  # type: ignore[misc]

    def _start_liar(self, role: Role) -> Liar:
        cluster: Any = self
        return Liar(cluster.world, cluster.network, role, self.lore, self.chance)

    def _start_nested(self) -> LyingNestedClient:
        cluster: Any = self
        return LyingNestedClient(cluster.world, cluster.agents, self.lore, self.chance)

    def _start_scheduler(self, **settings: Any) -> SchedulerNode:
        cluster: Any = self
        settings.setdefault("worker_timeout_seconds", cluster.scenario.worker_timeout_seconds)
        return super()._start_scheduler(**settings)  # type: ignore[misc,no-any-return]


class LyingCluster(WithLiars, Cluster):
    scenario: LyingScenario


class LyingObjectCluster(WithLiars, ObjectCluster):
    scenario: LyingObjectScenario  # type: ignore[assignment]
