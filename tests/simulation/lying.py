"""Clusters with liars among their peers: what the honest ones asked for is done all the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from scaler_protocol.messages import Role
from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.liars import Liar
from tests.simulation.lies import Lore

SETTLE_SECONDS = 12.0
"""Longer than scheduler and agents keep anything for peers that are gone."""


@dataclass(frozen=True)
class LyingScenario(Scenario):
    """``lying_agents`` are handed tasks of honest clients, and may answer what they like. ``most_waiting``: the
    scheduler's limit of tasks waiting."""

    lying_clients: int = 0
    lying_agents: int = 0
    most_waiting: int = -1
    client_timeout_seconds: float = 5.0
    worker_timeout_seconds: float = 5.0


class LyingCluster(Cluster):
    scenario: LyingScenario

    def __init__(self, seed: int, scenario: LyingScenario) -> None:
        super().__init__(seed, scenario)
        self.lore = Lore()
        self.lore.sessions.extend(peer.session for peer in (*self.clients, *self.agents))
        self.liars = [
            self._start_liar(role)
            for role, count in ((Role.SUBMIT, scenario.lying_clients), (Role.WORK, scenario.lying_agents))
            for _ in range(count)
        ]

    def run(self) -> None:
        end = self.world.now + self.scenario.seconds
        for liar in self.liars:
            liar.lie_until(end)
        super().run()

    def check_ends(self) -> None:
        """With a liar among the agents a task may have any end, but one only."""
        if not self.scenario.lying_agents:
            super().check_ends()
            return
        for client in self.clients:
            for sink in client.sinks:
                assert len(sink.outcomes) + sink.cancelled == 1, (sink.argument, sink.outcomes)
            for graph_sink in client.graph_sinks:
                assert len(graph_sink.outcomes) == 1, (graph_sink.argument, graph_sink.outcomes)

    def _check_quiet(self) -> None:
        self.world.run(self.world.now + SETTLE_SECONDS)
        super()._check_quiet()

    def _start_liar(self, role: Role) -> Liar:
        chance = random.Random(self.world.chance.random())
        return Liar(self.world, self.network, role, self.lore, chance)

    def _start_scheduler(self, **settings: Any) -> Any:
        settings.setdefault("max_number_of_tasks_waiting", self.scenario.most_waiting)
        settings.setdefault("worker_timeout_seconds", self.scenario.worker_timeout_seconds)
        return super()._start_scheduler(**settings)
