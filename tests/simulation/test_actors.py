"""Actors on a virtual network: each call runs once at most, those of one caller in their order, and each ends; an actor
ends with its owner or its last handle, and nothing of it is left behind."""

from __future__ import annotations

import pytest

from tests.simulation.actors import ActorCluster, ActorScenario
from tests.simulation.seeds import tried_seeds

SCENARIOS = {
    "peace": ActorScenario(),
    "one worker": ActorScenario(agents=1, slots=1, actors=4),
    "single workers": ActorScenario(agents=3, slots=1),
    "short queues": ActorScenario(per_worker_queue_size=1, slots=1),
    "slow network": ActorScenario(most_delay_seconds=0.2),
    "cuts": ActorScenario(cuts=20),
    "cuts inside hosts": ActorScenario(nested_cuts=40),
    "cancels": ActorScenario(cancels=20),
    "worker processes die": ActorScenario(process_kills=12),
    "worker processes die, restarts": ActorScenario(process_kills=12, restarts=2),
    "agents die": ActorScenario(agent_kills=5),
    "agents die, restarts": ActorScenario(agent_kills=5, restarts=2),
    "agents leave": ActorScenario(departures=5, restarts=1),
    "agents leave in haste": ActorScenario(departures=5, restarts=1, grace_seconds=0.1),
    "agents are drained": ActorScenario(drains=5, cuts=5),
    "clients leave": ActorScenario(clients=4, leavers=3, client_timeout_seconds=1.0),
    "standstills": ActorScenario(stops=8, restarts=1),
    "the scheduler stands still": ActorScenario(stops=6, peers_stop=False, longest_stop_seconds=6.0),
    "scheduler restarts": ActorScenario(scheduler_restarts=3),
    "scheduler restarts without a client": ActorScenario(client_absences=3),
    "scheduler restarts without an agent": ActorScenario(absences=3, client_timeout_seconds=1.0),
    "scheduler restarts without an agent, restarts": ActorScenario(
        absences=3, restarts=2, client_timeout_seconds=1.0
    ),
    "several calls at a time": ActorScenario(concurrency=3),
    "several calls at a time, cancels": ActorScenario(concurrency=3, cancels=20),
    "several calls at a time, worker processes die": ActorScenario(concurrency=3, process_kills=12, restarts=2),
    "several calls at a time, everything": ActorScenario(
        concurrency=4, clients=4, leavers=2, client_timeout_seconds=5.0, restarts=1, cuts=10, nested_cuts=5,
        agent_kills=2, departures=1, process_kills=4, scheduler_restarts=2, absences=1, stops=4, cancels=6,
        most_delay_seconds=0.02,
    ),
    "everything": ActorScenario(
        clients=4, leavers=2, client_timeout_seconds=5.0, restarts=1, cuts=10, nested_cuts=5, agent_kills=2,
        departures=1, process_kills=4, scheduler_restarts=2, absences=1, stops=4, cancels=6, most_delay_seconds=0.02,
    ),
}  # fmt: skip

REGRESSION_SEEDS = [
    ("single workers", 156),  # tasks waited behind an actor that had the slot that another task had lent
    ("the scheduler stands still", 127),  # a call overtook the actor, whose client was connected again later
    ("everything", 3),  # calls that an agent was running when it left ran again on the next instance
    ("everything", 172),  # a call of a cancelled task saw that its own task was cancelled before it ended itself
    ("cancels", 161),  # the same
    ("everything", 63),  # a task was cancelled that an earlier scheduler had an agent drop
    ("everything", 445),  # tasks inside a task that nobody waited for any more ran on
    ("everything", 534),  # a task that was stopped failed with what it had seen of this, and was not run again
    ("everything", 187),  # a call that its agent was told to drop, because its client was away, ran again
    ("scheduler restarts without an agent", 195),  # such a call, and the scheduler that knew this was restarted
    ("scheduler restarts without an agent", 205),  # a call was queued while its result was on its way
    ("scheduler restarts without an agent", 225),  # such a call, and its client was still away
    ("scheduler restarts without an agent, restarts", 28),  # the same, and the actor had been made again
    (
        "scheduler restarts without an agent, restarts",
        261,
    ),  # a lost instance was back and ran a failed call
]
"""(scenario, seed) of failures that were found."""


@pytest.mark.parametrize(("name", "seed"), tried_seeds(SCENARIOS, REGRESSION_SEEDS, 8))
def test_every_call_ends_and_no_actor_is_left(name: str, seed: int) -> None:
    ActorCluster(seed, SCENARIOS[name]).run()
