"""Simulated clusters under attack: the liars of ``tests/simulation``, and a fuzzer that decides what they do and when.

All cores are real, and each is checked after each step. When the input ends the liars leave; then every task of the
honest clients must end, nothing may be left of the liars, and monitors must have been told what the scheduler has
counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from fuzz.chance import Chance
from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_protocol.messages import Role
from tests.simulation.client import ClientNode
from tests.simulation.lying import LyingCluster, LyingObjectCluster, LyingObjectScenario, LyingScenario
from tests.simulation.lying_scheduler import LiedToCluster
from tests.simulation.objects import ObjectScenario

PAUSES_SECONDS = (0.0, 0.0, 0.0, 0.0005, 0.005, 0.05, 0.5, 2.0)
START_SECONDS = 0.3
"""Seconds until all are connected."""

MOST_ACTS = 300
TASKS = 6
TASKS_EVERY = 32
"""Acts between two submissions, where a scheduler lies."""

LIED_TO = ObjectScenario(agents=1, clients=1, bursts=0)


def attack(data: bytes, scenario: LyingScenario | LyingObjectScenario) -> None:
    """The first byte is the seed of the network."""
    choices = Choices(data)
    seed = choices.byte()
    arena = ObjectArena if isinstance(scenario, LyingObjectScenario) else Arena
    arena(seed, scenario, Chance(choices)).fight(choices)


class Fight:
    """A fight in addition to a cluster with liars."""

    def fight(self: Any, choices: Choices) -> None:
        world = self.world
        world.run(world.now + START_SECONDS)
        for client in self.clients:
            self.submit(client)
        for _ in range(MOST_ACTS):
            if not choices.more:
                break
            self.act(choices)
            world.run(world.now + choices.pick(PAUSES_SECONDS))
        self.end()

    def act(self: Any, choices: Choices) -> None:
        """One step of a liar, or of an honest client, or of chance."""
        what = choices.byte()
        if what < 240:
            self.liars[what % len(self.liars)].act()
        elif what < 246:
            self.submit(self.clients[0])
        elif what < 250:
            self.clients[0].cancel_some(0.5)
        elif what < 253:
            self.agents[0].kill_worker_process()
        else:
            self._cut()

    def submit(self: Any, client: ClientNode) -> None:
        client.submit(TASKS)
        client.submit_graph(TASKS)

    def end(self: Any) -> None:
        """The liars leave; the honest peers get what they asked for."""
        for liar in self.liars:
            liar.leave()
        self.finish()
        TALLY.count_messages(self.scheduler.received)


class Arena(Fight, LyingCluster):
    """Small tasks and graphs."""


class ObjectArena(Fight, LyingObjectCluster):
    """Large objects, too."""

    def submit(self, client: Any) -> None:
        client.send(TASKS)
        client.submit_graph(TASKS)


def some_fights() -> Iterator[bytes]:
    """Inputs to begin with."""
    for seed in range(16):
        yield random.Random(seed).randbytes(128 * (seed + 1))


def be_lied_to(data: bytes, role: Role) -> None:
    """A scheduler lies to agents or clients, then another one takes over. The first byte is the seed of the network."""
    choices = Choices(data)
    cluster = LiedToCluster(choices.byte(), LIED_TO, Chance(choices))
    world = cluster.world
    world.run(world.now + START_SECONDS)
    for number in range(MOST_ACTS):
        if not choices.more:
            break
        if number % TASKS_EVERY == 0:
            cluster.clients[0].send(TASKS)
            cluster.clients[0].submit_graph(TASKS)
        cluster.lie_to(role)
        world.run(world.now + choices.pick(PAUSES_SECONDS))
    cluster.finish()
    TALLY.count_messages(sum(node.received for node in (*cluster.agents, *cluster.clients)))
