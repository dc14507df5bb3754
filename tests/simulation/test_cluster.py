"""The real cores on a virtual network: every task ends exactly once, no future is lost, balancing ends.

A run is a seed. ``SCALER_SEED=7 pytest tests/simulation -k everything`` replays one, ``SCALER_SEEDS=1000`` tries more.
"""

from __future__ import annotations

import pytest

from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.seeds import tried_seeds

SCENARIOS = {
    "peace": Scenario(),
    "slow network": Scenario(most_delay_seconds=0.2),
    "cuts": Scenario(cuts=20),
    "cancels": Scenario(cancels=20),
    "agents die": Scenario(agent_kills=6),
    "agents leave": Scenario(departures=6),
    "agents are drained, cuts": Scenario(drains=6, cuts=20),
    "agents are drained, scheduler restarts": Scenario(drains=6, scheduler_restarts=3),
    "worker processes die": Scenario(process_kills=12),
    "scheduler restarts": Scenario(scheduler_restarts=3),
    "scheduler restarts without a client": Scenario(client_absences=3),
    "standstills": Scenario(stops=8),
    "agents stand still": Scenario(stops=8, scheduler_stops=False),
    "the scheduler stands still": Scenario(stops=6, peers_stop=False, longest_stop_seconds=6.0),
    "clients given up": Scenario(stops=8, longest_stop_seconds=6.0, client_timeout_seconds=1.0, cancels=4),
    "short queues": Scenario(per_worker_queue_size=1, cuts=5, agents=5, slots=1),
    "many agents": Scenario(agents=60, slots=1, tasks_per_burst=200, cuts=10, agent_kills=5),
    "everything": Scenario(
        cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, stops=4, cancels=6, most_delay_seconds=0.02
    ),
}

SCENARIOS.update(
    {
        "graphs": Scenario(graphs=3, bursts=1),
        "graphs, one agent": Scenario(graphs=3, bursts=0, agents=1),
        "graphs, cuts": Scenario(graphs=3, bursts=1, cuts=20),
        "graphs, short queues": Scenario(graphs=3, bursts=1, per_worker_queue_size=1, slots=1),
        "graphs, agents die": Scenario(graphs=3, bursts=1, agent_kills=6),
        "graphs, agents leave": Scenario(graphs=3, bursts=1, departures=6),
        "graphs, agents leave, cuts": Scenario(graphs=3, bursts=1, departures=6, cuts=20),
        "graphs, agents leave, everything": Scenario(
            graphs=3, bursts=2, departures=6, cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, stops=4,
            graph_cancels=4, most_delay_seconds=0.02,
        ),
        "graphs, agents are drained, cuts": Scenario(graphs=3, bursts=1, drains=6, cuts=20),
        "graphs, agents are drained, everything": Scenario(
            graphs=3, bursts=2, drains=6, cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, stops=4,
            graph_cancels=4, most_delay_seconds=0.02,
        ),
        "graphs, worker processes die": Scenario(graphs=3, bursts=1, process_kills=12),
        "graphs, cancels": Scenario(graphs=5, bursts=1, graph_cancels=8),
        "graphs, scheduler restarts": Scenario(graphs=3, bursts=1, scheduler_restarts=3),
        "graphs, everything": Scenario(
            graphs=3, bursts=2, cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, stops=4, cancels=4,
            graph_cancels=4, most_delay_seconds=0.02,
        ),
    }
)  # fmt: skip

SCENARIOS.update(
    {
        "a hundred clients": Scenario(clients=100, bursts=1, tasks_per_burst=3, seconds=1.0, agent_kills=1),
        "aging": Scenario(aging_seconds=0.01, cancels=10, agent_kills=2, process_kills=4),
        "a limited group": Scenario(group_limits="default=2", cancels=5, agent_kills=3, process_kills=4, cuts=5),
        "a limited group, graphs": Scenario(group_limits="default=2", graphs=3, bursts=1, graph_cancels=4, cuts=5),
    }
)

NESTED = {"function_names": ("short", "parent"), "bursts": 2, "tasks_per_burst": 12}

SCENARIOS.update(
    {
        "nested": Scenario(**NESTED),
        "nested, one worker": Scenario(**NESTED, agents=1, slots=1),
        "nested, short queues": Scenario(**NESTED, per_worker_queue_size=1, slots=1),
        "nested, bounded queue": Scenario(**NESTED, max_number_of_tasks_waiting=3, agents=1, slots=2),
        "nested, bounded queue, everything": Scenario(
            **NESTED, max_number_of_tasks_waiting=3, cuts=10, agent_kills=2, process_kills=4, scheduler_restarts=2,
            cancels=6,
        ),
        "nested, cuts": Scenario(**NESTED, cuts=20),
        "nested, cuts inside hosts": Scenario(**NESTED, nested_cuts=40),
        "nested, cuts inside hosts, everything": Scenario(
            **NESTED, nested_cuts=20, cuts=10, process_kills=4, scheduler_restarts=2, cancels=6,
        ),
        "nested, cancels": Scenario(**NESTED, cancels=20),
        "nested, worker processes die": Scenario(**NESTED, process_kills=12),
        "nested, agents die": Scenario(**NESTED, agent_kills=5),
        "nested, scheduler restarts": Scenario(**NESTED, scheduler_restarts=3),
        "nested, everything": Scenario(
            **NESTED, cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, stops=4, cancels=6,
            most_delay_seconds=0.02,
        ),
    }
)  # fmt: skip

LOCKS = {"function_names": ("short", "locker"), "bursts": 2, "tasks_per_burst": 6, "lock_uses": 20}
FEW_LOCKS = {**LOCKS, "tasks_per_burst": 2}
"""So few may wait on one worker for an application that holds a lock while it waits for a task itself."""

SCENARIOS.update(
    {
        "locks": Scenario(**LOCKS),
        "locks, one worker": Scenario(**FEW_LOCKS, agents=1, slots=1),
        "locks, short queues": Scenario(**FEW_LOCKS, per_worker_queue_size=1, slots=1),
        "locks, cuts": Scenario(**LOCKS, cuts=20),
        "locks, cuts inside hosts": Scenario(**LOCKS, nested_cuts=40),
        "locks, cancels": Scenario(**LOCKS, cancels=20),
        "locks, worker processes die": Scenario(**LOCKS, process_kills=12),
        "locks, agents die": Scenario(**LOCKS, agent_kills=5),
        "locks, scheduler restarts": Scenario(**LOCKS, scheduler_restarts=3),
        "locks, everything": Scenario(
            **LOCKS, cuts=10, agent_kills=3, process_kills=4, scheduler_restarts=2, cancels=6,
            most_delay_seconds=0.02,
        ),
    }
)  # fmt: skip

ONCE = {"function_names": ("short", "once"), "bursts": 4, "tasks_per_burst": 20}

SCENARIOS.update(
    {
        "once": Scenario(**ONCE),
        "once, cuts": Scenario(**ONCE, cuts=20),
        "once, cancels": Scenario(**ONCE, cancels=20),
        "once, agents die": Scenario(**ONCE, agent_kills=5),
        "once, agents leave": Scenario(**ONCE, departures=5, scheduler_restarts=2),
        "once, agents leave in haste": Scenario(**ONCE, departures=5, grace_seconds=0.1),
        "once, worker processes die": Scenario(**ONCE, process_kills=8),
        "once, scheduler restarts": Scenario(**ONCE, scheduler_restarts=3),
        "once, the scheduler restarts without an agent": Scenario(**ONCE, absences=3),
        "once, clients given up": Scenario(**ONCE, stops=8, longest_stop_seconds=6.0, client_timeout_seconds=1.0),
        "once, everything": Scenario(
            **ONCE, absences=2, cuts=10, agent_kills=3, departures=2, process_kills=4, scheduler_restarts=2, stops=4,
            cancels=6, most_delay_seconds=0.02,
        ),
    }
)  # fmt: skip

ONCE_NODES = {"graphs": 3, "bursts": 1, "tasks_per_burst": 20, "graph_names": ("short", "short", "once")}

SCENARIOS.update(
    {
        "graphs, once": Scenario(**ONCE_NODES),
        "graphs, once, cuts": Scenario(**ONCE_NODES, cuts=20),
        "graphs, once, agents die": Scenario(**ONCE_NODES, agent_kills=3),
        "graphs, once, agents leave": Scenario(**ONCE_NODES, departures=4),
        "graphs, once, worker processes die": Scenario(**ONCE_NODES, process_kills=4),
        "graphs, once, scheduler restarts": Scenario(**ONCE_NODES, scheduler_restarts=3),
        "graphs, once, the scheduler restarts without an agent": Scenario(**ONCE_NODES, absences=2),
        "graphs, once, cancels": Scenario(**ONCE_NODES, graph_cancels=6),
        "graphs, once, everything": Scenario(
            **ONCE_NODES, absences=1, cuts=10, agent_kills=2, departures=2, process_kills=2, scheduler_restarts=2,
            stops=4, graph_cancels=3, most_delay_seconds=0.02,
        ),
    }
)  # fmt: skip

CALM = (
    "graphs, once",
    "graphs, once, cuts",
    "once",
    "once, cuts",
    "once, scheduler restarts",
    "locks",
    "locks, one worker",
    "locks, short queues",
    "locks, cuts",
    "locks, cuts inside hosts",
    "nested",
    "nested, one worker",
    "nested, short queues",
    "nested, bounded queue",
    "nested, cuts",
    "nested, cuts inside hosts",
    "peace",
    "slow network",
    "cuts",
    "scheduler restarts",
    "agents stand still",
    "agents leave",
    "agents are drained, cuts",
    "the scheduler stands still",
    "scheduler restarts without a client",
    "short queues",
    "graphs",
    "graphs, agents leave",
    "graphs, cuts",
    "graphs, short queues",
)
"""Here nobody dies who runs a task, so no task may run twice."""

REGRESSION_SEEDS = [
    ("everything", 35),  # two Hellos under way: both sides counted different links
    ("clients given up", 9),  # a client that came back pushed its tasks into the queue of its former self
    ("clients given up", 28),
    ("worker processes die", 18),  # certificates were nested once too deep
    ("graphs, agents die", 8),  # a fetched value outlived a new attempt of its task
    ("the scheduler stands still", 26),  # it looked at the time before its sockets, and took agents for silent
    ("the scheduler stands still", 31),
    ("nested, everything", 91),  # a parent that said Hello twice after a restart ended its children
    ("nested, everything", 122),
    ("graphs, everything", 14),  # what an agent gave back before its client came was still taken to be there
    ("graphs, once, everything", 4),  # an agent kept the value of a last node whose client never came back
]
"""(scenario, seed) of failures that were found."""


@pytest.mark.parametrize(("name", "seed"), tried_seeds(SCENARIOS, REGRESSION_SEEDS))
def test_every_task_ends_exactly_once(name: str, seed: int) -> None:
    cluster = Cluster(seed, SCENARIOS[name])
    try:
        cluster.run()
        if name in CALM:
            cluster.check_ran_once()
    except BaseException:
        print(f"\nreplay: SCALER_SEED={seed} pytest tests/simulation -k '{name}'")
        raise


def test_a_large_cluster() -> None:
    """1,500 agents and ten clients; connections are cut and agents die."""
    Cluster(
        1,
        Scenario(agents=1500, clients=10, bursts=2, tasks_per_burst=400, seconds=1.0, cuts=20, agent_kills=10),
    ).run()


def test_a_seed_gives_the_same_run() -> None:
    def steps() -> tuple[int, float, int]:
        cluster = Cluster(5, SCENARIOS["everything"])
        cluster.run()
        return cluster.world.steps, cluster.world.now, sum(cluster.executions.values())

    assert steps() == steps()
