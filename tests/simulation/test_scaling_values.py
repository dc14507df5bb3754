"""Scaling with results: whatever the load, each result stays with an agent that is there, and seldom moves."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from scaler_protocol.messages import (
    AgentAttach,
    Drain,
    Goodbye,
    KeepValues,
    Leaving,
    ManagerReport,
    MayLeave,
    ObjectKey,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Role,
    Status,
    Withdrawn,
)
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks

LARGE = (10**6).to_bytes(8, "little")
SEEDS = 20
STEPS = 60
MAXIMUM = 8


@dataclass
class Cloud:
    """A manager whose minimum is the load, the agents that it has started, and who has which result."""

    chance: random.Random
    book: Playbook = field(default_factory=Playbook)
    agents: dict[str, Peer] = field(default_factory=dict)
    holders: dict[int, str] = field(default_factory=dict)
    moves: Counter[int] = field(default_factory=Counter)
    joined: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        self.client = self.book.client()
        self.manager = self.book._peer("cloud", Role.WORK)
        self.manager.connect()

    def scale(self, wanted: int) -> None:
        """The manager reports, agents leave and others join."""
        seconds = {"target_seconds": 60.0, "cool_down_seconds": 0.0}
        report = ManagerReport(
            "cloud", (), wanted, MAXIMUM, cost_per_worker_hour=1.0, running=len(self.agents), **seconds
        )
        drained = [name for name, body in self.manager.says(report) if isinstance(body, Drain)]
        for name in drained:
            self._leave(name)
        while len(self.agents) < wanted:
            self._join()
        self.book.wait(1.0, (self.manager, *self.agents.values()))

    def _join(self) -> None:
        self.joined += 1
        name = f"agent {self.joined}"
        peer = self.agents[name] = self.book._peer(name, Role.WORK)
        peer.connect()
        peer.says(AgentAttach(name, "host", 1, (name,), manager="cloud"))

    def _leave(self, name: str) -> None:
        """As agents do: one that has nothing goes at once."""
        peer = self.agents.pop(name)
        said = peer.says(Withdrawn((), leaving=True), *([Leaving()] if name in self.holders.values() else []))
        while (name, MayLeave()) not in said and name in self.holders.values():
            orders = [(keeper, key) for keeper, body in said if isinstance(body, KeepValues) for key in body.keys]
            assert orders, "it is neither told to go nor relieved of anything"
            said = []
            for keeper, key in orders:
                said += self.agents[keeper].says(ObjectStored(key, 0, bytes(16)))
                self.holders[key.number] = keeper
                self.moves[key.number] += 1
        peer.says(Goodbye())

    def make(self, count: int) -> None:
        """An agent has results."""
        name = self.chance.choice(list(self.agents))
        self._pause_others(name)
        first = self.made + 1
        self.made += count
        for task in range(first, first + count):
            self.client.says(tasks(self.client, task, 1))
            self.agents[name].says(results(self.client, (task, 1, Status.SUCCESS_LARGE, LARGE)))
        self.holders.update(dict.fromkeys(range(first, first + count), name))
        self._pause_others("")

    def _pause_others(self, name: str) -> None:
        """Only this agent gets tasks; without a name, all do."""
        state = self.book.core.state
        for peer in self.agents.values():
            state.agents[peer.session].is_paused = bool(name) and peer.name != name
            state.placement.offer(state.agents[peer.session])

    def release(self) -> None:
        """The client needs some results no longer."""
        unneeded = [number for number in self.holders if self.chance.random() < 0.2]
        for number in unneeded:
            del self.holders[number]
        self.client.says(ObjectRelease(tuple(ObjectKey(self.client.session, number) for number in unneeded)))

    def check(self) -> None:
        """Each result is asked for where it is."""
        for number, name in self.holders.items():
            key = ObjectKey(self.client.session, number)
            said = self.client.says(ObjectRequest(key))
            assert said == [(name, ObjectRequest(key, relayed=True))], (number, name)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_results_stay_with_the_agents_that_stay(seed: int) -> None:
    chance = random.Random(seed)
    cloud = Cloud(chance)
    for _ in range(STEPS):
        cloud.scale(chance.randint(1, MAXIMUM))
        if chance.random() < 0.5:
            cloud.make(chance.randint(1, 40))
        if chance.random() < 0.2:
            cloud.release()
    for _ in range(MAXIMUM):
        cloud.scale(0)
    assert len(cloud.agents) == (1 if cloud.holders else 0)
    cloud.check()
    assert max(cloud.moves.values(), default=0) <= 1 + math.log2(max(2, cloud.made))
