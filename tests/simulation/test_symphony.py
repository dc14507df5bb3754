"""Agents of Symphony on a virtual network: sessions end and are refused, answers repeat, everything else goes wrong as
well, and every task ends exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.seeds import SEEDS_PER_SCENARIO
from tests.simulation.symphony import SymphonyNode

SCENARIOS = {
    "peace": Scenario(),
    "sessions end": Scenario(process_kills=20),
    "sessions end, one agent": Scenario(agents=1, slots=1, process_kills=10, tasks_per_burst=30),
    "cancels": Scenario(cancels=20, process_kills=5),
    "agents die": Scenario(agent_kills=6, process_kills=5),
    "cuts": Scenario(cuts=20, process_kills=5),
    "scheduler restarts": Scenario(scheduler_restarts=3, process_kills=5),
    "standstills": Scenario(stops=8, process_kills=5),
    "short queues": Scenario(per_worker_queue_size=1, cuts=5, agents=5, slots=1, process_kills=5),
    "graphs": Scenario(graphs=3, bursts=1, process_kills=10),
    "graphs, cancels": Scenario(graphs=5, bursts=1, graph_cancels=8, process_kills=5),
    "graphs, agents die": Scenario(graphs=3, bursts=1, agent_kills=6),
    "everything": Scenario(
        graphs=2, cuts=10, agent_kills=3, process_kills=10, scheduler_restarts=2, stops=4, cancels=6, graph_cancels=3,
        most_delay_seconds=0.02,
    ),
}  # fmt: skip


class SymphonyCluster(Cluster):
    """``mixed``: every other agent has worker processes of its own."""

    def __init__(self, seed: int, scenario: Scenario, mixed: bool) -> None:
        self._mixed = mixed
        self._started = 0
        super().__init__(seed, scenario)

    def _start_agent(self) -> Any:
        self._started += 1
        if self._mixed and self._started % 2:
            return super()._start_agent()
        return SymphonyNode(self.world, self.network, self.scenario.slots, self.executions)


REGRESSION_SEEDS = [
    ("everything", 45),  # the answer to the Cancel of an old execution ended a later one at the same agent
]
"""(scenario, seed) of failures that were found."""


@pytest.mark.parametrize(("name", "seed"), REGRESSION_SEEDS)
def test_failures_that_were_found(name: str, seed: int) -> None:
    SymphonyCluster(seed, SCENARIOS[name], False).run()


@pytest.mark.parametrize("mixed", [False, True], ids=["alone", "mixed"])
@pytest.mark.parametrize("seed", range(1, SEEDS_PER_SCENARIO // 4 + 2))
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_task_ends_exactly_once(name: str, seed: int, mixed: bool) -> None:
    SymphonyCluster(seed, SCENARIOS[name], mixed).run()
