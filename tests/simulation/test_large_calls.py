"""Calls of actors with large arguments and results, on a virtual network: each call gets what was sent or made for it,
and ends once, and nothing of any value is left behind."""

from __future__ import annotations

import pytest

from tests.simulation.large_calls import LargeCallCluster, LargeCallScenario
from tests.simulation.seeds import tried_seeds

SCENARIOS = {
    "peace": LargeCallScenario(),
    "cuts": LargeCallScenario(cuts=20, cancels=5),
    "worker processes die": LargeCallScenario(process_kills=10, restarts=2),
    "agents die": LargeCallScenario(agent_kills=4, restarts=2),
    "clients leave": LargeCallScenario(clients=4, leavers=3, client_timeout_seconds=1.0),
    "scheduler restarts": LargeCallScenario(scheduler_restarts=3),
    "scheduler restarts without a client": LargeCallScenario(client_absences=3),
    "stores die": LargeCallScenario(store_kills=6),
    "several calls at a time, stores die": LargeCallScenario(concurrency=3, store_kills=6),
    "everything": LargeCallScenario(
        clients=4, leavers=2, client_timeout_seconds=5.0, restarts=1, cuts=10, nested_cuts=5, agent_kills=2,
        departures=1, process_kills=4, scheduler_restarts=2, absences=1, stops=4, cancels=6, store_kills=3,
        most_delay_seconds=0.02,
    ),
}  # fmt: skip

REGRESSION_SEEDS: list[tuple[str, int]] = []
"""(scenario, seed) of failures that were found."""


@pytest.mark.parametrize(("name", "seed"), tried_seeds(SCENARIOS, REGRESSION_SEEDS, 8))
def test_every_call_gets_its_values_and_none_is_left(name: str, seed: int) -> None:
    LargeCallCluster(seed, SCENARIOS[name]).run()
