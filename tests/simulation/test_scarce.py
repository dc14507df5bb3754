"""Workers with a scarce capability run the tasks that need it soon, and are not idle for that."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import Capability
from tests.simulation.client import GPU
from tests.simulation.cluster import Cluster, Scenario
from tests.simulation.test_balance import busy_slots

SLOTS = 2
LONGEST_SECONDS = 0.5
ROUND_TRIPS_SECONDS = 0.1
STEP_SECONDS = 0.02
IDLE_STEPS = 3


def begin(seed: int, *functions: str, **scenario: int) -> Cluster:
    """Three ordinary agents, and one with the capability; two slots each, one client for each function."""
    cluster = Cluster(seed, Scenario(agents=3, slots=SLOTS, clients=0, **scenario))
    cluster.add_agent(Capability(GPU, 1))
    for function in functions:
        cluster.add_client(function)
    cluster.world.run(cluster.world.now + 1)
    return cluster


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_scarce_task_waits_for_about_one_running_task(seed: int) -> None:
    """All slots are busy with many ordinary tasks; as many tasks as there are slots with the capability need it."""
    cluster = begin(seed, "long", GPU)
    world = cluster.world
    cluster.clients[0].submit(400)
    world.run(world.now + 1)
    cluster.clients[1].submit(SLOTS)
    assert world.run(world.now + 2 * LONGEST_SECONDS + ROUND_TRIPS_SECONDS, lambda: not cluster.clients[1].unfinished)
    assert cluster.clients[0].unfinished


@pytest.mark.parametrize("seed", range(1, 7))
def test_no_worker_is_idle_while_a_task_that_it_can_run_waits(seed: int) -> None:
    cluster = begin(seed, "long", GPU)
    world = cluster.world
    ordinary, scarce = cluster.clients
    ordinary.submit(60)
    scarce.submit(6)
    world.run(world.now + 0.2)
    idle_steps = 0
    while ordinary.unfinished > 4 * SLOTS:
        world.run(world.now + STEP_SECONDS)
        idle_steps = 0 if busy_slots(cluster) == 4 * SLOTS else idle_steps + 1
        assert idle_steps <= IDLE_STEPS
    cluster.finish()


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_task_ends_once_when_agents_die_and_connections_break(seed: int) -> None:
    cluster = begin(seed, "long", GPU, "short", cuts=4, process_kills=2, bursts=2, tasks_per_burst=20)
    cluster.run()
