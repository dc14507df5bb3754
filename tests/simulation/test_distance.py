"""Workers far from the scheduler are not idle while tasks wait, and clients still share them."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.worker_process import DURATIONS_SECONDS

FAR_SECONDS = 0.05
HORIZON_SECONDS = 1.5 * FAR_SECONDS + 0.005
SLOTS = 2


def begin(round_trip_seconds: float, *functions: str, agents: int = 1) -> Cluster:
    """One client for each function, whose duration is known; the round trip has been measured, too."""
    scenario = Scenario(
        agents=agents, slots=SLOTS, clients=0, most_delay_seconds=0.0002, round_trip_seconds=round_trip_seconds
    )
    cluster = Cluster(1, scenario)
    for function in functions:
        cluster.add_client(function, priorities=(0,))
    cluster.world.run(cluster.world.now + 5)
    for client in cluster.clients:
        client.submit(20)
    cluster.world.run(cluster.world.now + 30, lambda: not any(client.unfinished for client in cluster.clients))
    return cluster


def seconds_of(cluster: Cluster, client: int, count: int) -> float:
    """How long so many tasks take."""
    world, submitter = cluster.world, cluster.clients[client]
    began = world.now
    submitter.submit(count)
    assert world.run(began + 60, lambda: not submitter.unfinished)
    return world.now - began


@pytest.mark.parametrize(("function", "agents"), [("millisecond", 1), ("brief", 1), ("brief", 2)])
@pytest.mark.parametrize("round_trip_seconds", [0.0, 0.001, FAR_SECONDS])
def test_workers_are_not_idle_while_tasks_wait(round_trip_seconds: float, function: str, agents: int) -> None:
    cluster = begin(round_trip_seconds, function, agents=agents)
    duration_seconds = DURATIONS_SECONDS[function][0]
    workers = agents * SLOTS
    count = int(4 * workers / duration_seconds)
    ideal_seconds = count * duration_seconds / workers
    assert ideal_seconds / seconds_of(cluster, 0, count) >= (0.95 if round_trip_seconds != 0.001 else 0.92)


@pytest.mark.parametrize("round_trip_seconds", [0.0, FAR_SECONDS])
@pytest.mark.parametrize("waiting", ["millisecond", "brief"])
def test_a_late_task_waits_for_about_one_horizon(round_trip_seconds: float, waiting: str) -> None:
    cluster = begin(round_trip_seconds, waiting, "millisecond")
    cluster.clients[0].submit(int(10 / DURATIONS_SECONDS[waiting][0]))
    cluster.world.run(cluster.world.now + 1)
    running_seconds = DURATIONS_SECONDS[waiting][0]
    horizon_seconds = HORIZON_SECONDS if round_trip_seconds else 0.012
    assert seconds_of(cluster, 1, 1) <= horizon_seconds + round_trip_seconds + 2 * running_seconds + 0.005


def test_tasks_of_unknown_duration_are_not_prefetched_for_the_distance() -> None:
    cluster = begin(FAR_SECONDS, "millisecond")
    cluster.add_client("endless", priorities=(0,))
    cluster.world.run(cluster.world.now + 1)
    cluster.clients[-1].submit(100)
    cluster.world.run(cluster.world.now + 1)
    (agent,) = cluster.scheduler.core.state.agents.values()
    assert agent.load.outstanding <= 2 * SLOTS


@pytest.mark.parametrize("round_trip_seconds", [0.0, FAR_SECONDS])
def test_hosts_end_together(round_trip_seconds: float) -> None:
    """The last tasks are not kept by one host while the other has none."""
    cluster = begin(round_trip_seconds, "brief", agents=2)
    count = 403
    ideal_seconds = -(-count // (2 * SLOTS)) * DURATIONS_SECONDS["brief"][0]
    assert seconds_of(cluster, 0, count) <= ideal_seconds * 1.03 + 2 * round_trip_seconds
