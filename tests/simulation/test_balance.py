"""Balancing moves what never started, reaches everybody who is idle, and ends."""

from __future__ import annotations

import pytest

from tests.simulation.cluster import Cluster, Scenario


def busy_slots(cluster: Cluster) -> int:
    return sum(process.board.running is not None for agent in cluster.agents for process in agent.processes.values())


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("joining", [1, 7])
def test_agents_that_join_get_waiting_tasks_at_once(seed: int, joining: int) -> None:
    cluster = Cluster(seed, Scenario(agents=1, slots=1, clients=1, function_names=("endless",)))
    world = cluster.world
    world.run(world.now + 1)
    cluster.clients[0].submit(joining + 1)
    world.run(world.now + 1)
    assert busy_slots(cluster) == 1
    for _ in range(joining):
        cluster.add_agent()
    assert world.run(world.now + 0.5, lambda: busy_slots(cluster) == joining + 1), busy_slots(cluster)


@pytest.mark.parametrize("seed", range(1, 6))
def test_balancing_ends(seed: int) -> None:
    """More agents than tasks, tasks that never end: after a while nobody is asked to give anything back."""
    cluster = Cluster(seed, Scenario(agents=3, slots=2, clients=2, function_names=("endless",)))
    world = cluster.world
    cluster.clients[0].submit(9)
    world.run(world.now + 1)
    for _ in range(4):
        cluster.add_agent()
    world.run(world.now + 5)
    assert busy_slots(cluster) == 9
    before = cluster.scheduler.sent.get("Withdraw", 0)
    world.run(world.now + 20)
    assert cluster.scheduler.sent.get("Withdraw", 0) == before
    assert before < 50


@pytest.mark.parametrize("seed", range(1, 4))
def test_overload_is_not_shuffled_to_and_fro(seed: int) -> None:
    """More tasks than slots, all busy: nothing is moved."""
    cluster = Cluster(seed, Scenario(agents=4, slots=2, clients=1, function_names=("endless",)))
    world = cluster.world
    world.run(world.now + 1)
    cluster.clients[0].submit(100)
    world.run(world.now + 5)
    assert busy_slots(cluster) == 8
    before = cluster.scheduler.sent.get("Withdraw", 0)
    world.run(world.now + 20)
    assert cluster.scheduler.sent.get("Withdraw", 0) == before <= 8
