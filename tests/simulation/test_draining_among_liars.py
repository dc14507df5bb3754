"""An agent that leaves may leave, whatever the agents say that should keep its values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    Body,
    Goodbye,
    KeepValues,
    Leaving,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Status,
    Tasks,
    Withdrawn,
)
from scaler_scheduler.core.draining import PATIENCE_SECONDS
from scaler_scheduler.core.states import TaskState
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks

LARGE = (1 << 20).to_bytes(8, "little")
SEEDS = 12
STEPS = 80
ANSWERS = 40
"""So many rounds of answers follow a message at most: liars may answer one another indefinitely."""

Said = list[tuple[str, Body]]


@dataclass
class Arena:
    chance: random.Random
    book: Playbook = field(default_factory=Playbook)
    liars: dict[str, Peer] = field(default_factory=dict)
    stop: int = 1

    def __post_init__(self) -> None:
        self.client, self.honest = self.book.client(), self.book.agent("honest", slots=4)
        for number in range(3):
            self.join(f"liar {number}")

    def join(self, name: str) -> None:
        self.liars[name] = self.book.agent(name, slots=2)
        self.react(self.liars[name].joined)

    @property
    def peers(self) -> list[Peer]:
        return [self.honest, *self.liars.values()]

    def key(self) -> ObjectKey:
        return ObjectKey(self.client.session, self.chance.randrange(0, self.stop + 2))

    def react(self, said: Said) -> None:
        """What agents answer."""
        for _ in range(ANSWERS):
            found = {peer.name: peer for peer in self.peers}
            said = [each for name, body in said if name in found for each in self.answer(found[name], body)]

    def answer(self, peer: Peer, body: Body) -> Said:
        if isinstance(body, Tasks):
            ended = [(run.first_task + at, run.attempt) for run in body.runs for at in range(run.count)]
            rows = [(*each, Status.SUCCESS_LARGE, LARGE) for each in ended]
            return peer.says(results(self.client, *rows))
        if isinstance(body, KeepValues):
            return [each for key in body.keys for each in peer.says(*self.kept(peer, key))]
        if isinstance(body, ObjectRequest):
            missing, chunk = ObjectMissing(body.key, "no"), ObjectChunk(body.key, 1, 0, b"v")
            return peer.says(missing if peer is not self.honest and self.chance.random() < 0.3 else chunk)
        return []

    def kept(self, peer: Peer, key: ObjectKey) -> tuple[Body, ...]:
        honest = ObjectRequest(key), ObjectStored(key, 0, bytes(16))
        lies = honest, honest[:1], honest[1:], (ObjectCredit(key, CREDIT_WITHOUT_END),), (ObjectsLost((key,)),), ()
        return honest if peer is self.honest else self.chance.choice(lies)

    def lie(self) -> Said:
        name = self.chance.choice(list(self.liars))
        liar, key = self.liars[name], self.key()
        credit = ObjectCredit(key, self.chance.choice([0, CREDIT_WITHOUT_END]))
        lies = Leaving(), ObjectStored(key, 0, bytes(16)), ObjectsLost((key,)), ObjectMissing(key, "no"), credit
        if self.chance.random() < 0.05:
            del self.liars[name]
            self.join(f"{name}'")
            return liar.says(Goodbye())
        return liar.says(self.chance.choice(lies))

    def use(self) -> Said:
        """What the client does."""
        kind = self.chance.randrange(3)
        if kind == 0:
            first, self.stop = self.stop, self.stop + self.chance.randint(1, 5)
            return self.client.says(tasks(self.client, first, self.stop - first))
        return self.client.says(ObjectRequest(self.key()) if kind == 1 else ObjectRelease((self.key(),)))

    def end_tasks(self) -> None:
        """The honest agent ends its tasks, as those that leave do."""
        state = self.book.core.state
        columns, index = state.clients[self.client.session].table.columns, state.agents[self.honest.session].index
        known = [(task, columns.describe(task)) for task in range(1, self.stop)]
        running = (TaskState.ASSIGNED, TaskState.CANCELLING)
        here = [
            (task, each.attempt) for task, each in known if each and each.agent_index == index and each.state in running
        ]
        self.react(self.honest.says(results(self.client, *[(*each, Status.SUCCESS, b"r") for each in here])))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_agent_may_leave_whatever_others_say(seed: int) -> None:
    arena = Arena(random.Random(seed))
    for _ in range(STEPS):
        kind = arena.chance.random()
        if kind < 0.1:
            arena.react(arena.book.wait(0.5, tuple(arena.peers)))
        else:
            arena.react(arena.lie() if kind < 0.6 else arena.use())
    arena.react(arena.honest.says(Withdrawn((), leaving=True), Leaving()))
    departure = arena.book.core.state.departures[arena.honest.session]
    for _ in range(2 + int(PATIENCE_SECONDS) * len(arena.liars)):
        if departure.is_over:
            break
        arena.end_tasks()
        arena.react(arena.book.wait(1.0, tuple(arena.peers)))
    assert departure.is_over
