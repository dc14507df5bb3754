"""Actors that are found by name, on a virtual network: a name never has two actors, whoever looks for it finds the one
that has it, and it is free again when the actor ends, or its client."""

from __future__ import annotations

import pytest

from tests.simulation.actor_names import NameCluster, NameScenario
from tests.simulation.seeds import tried_seeds

SCENARIOS = {
    "peace": NameScenario(),
    "one name": NameScenario(clients=3, names=1),
    "cuts": NameScenario(cuts=20, most_delay_seconds=0.05),
    "processes and agents die": NameScenario(process_kills=8, agent_kills=3, restarts=1),
    "clients leave": NameScenario(clients=4, leavers=3, client_timeout_seconds=1.0),
    "scheduler restarts": NameScenario(scheduler_restarts=3),
    "scheduler restarts, standstills": NameScenario(clients=3, scheduler_restarts=3, stops=8, longest_stop_seconds=5.0),
    "everything": NameScenario(
        clients=4, leavers=2, client_timeout_seconds=5.0, restarts=1, cuts=10, nested_cuts=5, agent_kills=2,
        departures=1, process_kills=4, scheduler_restarts=2, absences=1, stops=4, cancels=6, most_delay_seconds=0.02,
    ),
}  # fmt: skip

REGRESSION_SEEDS = [
    ("scheduler restarts, standstills", 1),  # the handle of an actor that had lost its name took the place of another
    ("everything", 3),  # a handle was found whose name had been given to another actor
]
"""(scenario, seed) of failures that were found."""


@pytest.mark.parametrize(("name", "seed"), tried_seeds(SCENARIOS, REGRESSION_SEEDS, 8))
def test_a_name_has_one_actor_and_is_free_when_it_ends(name: str, seed: int) -> None:
    NameCluster(seed, SCENARIOS[name]).run()
