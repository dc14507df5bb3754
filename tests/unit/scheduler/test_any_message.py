"""Every message is legal in every state: random conversations, each repeatable by its seed."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.messages import (
    ActorsReady,
    Blocked,
    Cancel,
    Capability,
    Clear,
    CoordinationKind,
    Goodbye,
    Leaving,
    LockAction,
    LockRequest,
    LogLine,
    LogLines,
    NamedAction,
    NamedRequest,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    OutputReply,
    Ping,
    PrintedOutput,
    RelayClosed,
    Role,
    StackReply,
    Status,
    TaskColumn,
    TaskName,
    Tasks,
    UnsentCalls,
    UnsentCount,
    Withdrawn,
)
from tests.unit.scheduler.playbook import Peer, Playbook, attach, definition, results, run

STEPS = 200


class Crowd:
    """Two clients, two agents, a nested client, and a random source of what they say."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        limit = self.random.choice([-1, 5])
        self.book = Playbook(
            max_number_of_tasks_waiting=limit, client_timeout_seconds=2, worker_timeout_seconds=3, epoch=seed + 1
        )
        self.clients = [self.book._peer(name, Role.SUBMIT) for name in ("one", "two")]
        self.agents = [self.book._peer(name, Role.WORK) for name in ("first", "second")]
        self.child = self.book._peer("child", Role.SUBMIT, self.agents[0])
        self.clients.append(self.child)
        self.next_task = 1
        self.next_request = 0

    def step(self) -> None:
        choice = self.random.random()
        peer = self.random.choice([*self.clients, *self.agents])
        if choice < 0.1:
            self.connect(peer)
        elif choice < 0.15 and peer.via is None:
            self.book.lose(peer)
        elif choice < 0.25:
            self.book.wait(self.random.choice([0.01, 0.3, 1.0, 2.5]))
        elif choice < 0.27 and peer.via is None:
            self.book.core.on_malformed(peer.session, "nonsense", self.book.now)
            self.book.run()
        else:
            peer.says(self.client_body(peer) if peer.role == Role.SUBMIT else self.agent_body())

    def connect(self, peer: Peer) -> None:
        if self.random.random() < 0.2:
            peer.epoch = 0
        parent = {"parent_session": self.clients[0].session, "parent_task": self.task(), "parent_attempt": 1}
        peer.connect(**(parent if peer is self.child else {}))
        if peer.role == Role.WORK and peer.welcome is not None and not peer.welcome.resumed:
            peer.says(attach(peer.name, self.random.randint(0, 3), {"gpu": 1}, (self.column(),)))

    def task(self) -> int:
        return self.random.randint(1, self.next_task)

    def column(self) -> TaskColumn:
        tasks = tuple({self.task(): None for _ in range(self.random.randint(0, 6))})
        attempts = tuple(self.random.randint(1, 3) for _ in tasks)
        return TaskColumn(self.random.choice(self.clients).session, tasks, attempts)

    def key(self) -> ObjectKey:
        owner = self.random.choice(self.clients).session
        return ObjectKey(owner, self.random.choice([self.task(), 2**64 - 1, 2**64 - 2]))

    def client_body(self, client: Peer) -> object:
        roll = self.random.random()
        if roll < 0.5:
            return self.tasks(client)
        if roll < 0.55:
            return Cancel((TaskColumn(client.session, self.column().tasks),), self.random.random() < 0.5)
        if roll < 0.65:
            return self.lock_request() if self.random.random() < 0.5 else self.named_request()
        if roll < 0.9:
            own = ObjectKey(client.session, 2**64 - 1)
            return self.random.choice([
                ObjectChunk(own, 100, self.random.choice([0, 50]), bytes(50)),
                ObjectRequest(self.key()),
                ObjectCredit(self.key(), 50),
                ObjectRelease((self.key(), own)),
            ])  # fmt: skip
        unsent = UnsentCalls((UnsentCount(bytes(16), "f", self.random.randint(0, 3)),))
        return self.random.choice([Clear(), Goodbye(), unsent, unsent, *[Ping()] * 8])

    def lock_request(self) -> LockRequest:
        self.next_request += 1
        number = self.next_request if self.random.random() < 0.95 else self.random.randint(0, self.next_request)
        task = (self.clients[0].session, self.task(), self.random.randint(1, 2)) if self.random.random() < 0.5 else ()
        action = self.random.choice([*LockAction, LockAction.RELEASE])
        kind, limit = self.random.choice([(CoordinationKind.LOCK, 0), (CoordinationKind.SEMAPHORE, 2)])
        limit += self.random.random() < 0.1
        return LockRequest(kind, action, number, self.random.choice("ab"), *(task or (b"", 0, 0)), limit)

    def named_request(self) -> NamedRequest:
        self.next_request += 1
        number = self.next_request if self.random.random() < 0.95 else self.random.randint(0, self.next_request)
        task = (self.clients[0].session, self.task(), self.random.randint(1, 2)) if self.random.random() < 0.5 else ()
        action, name = self.random.choice(list(NamedAction)), self.random.choice("ab")
        kinds = [CoordinationKind.EVENT, CoordinationKind.VARIABLE]
        if action >= NamedAction.PUT or action == NamedAction.WITHDRAW or self.random.random() < 0.02:
            kinds = [CoordinationKind.QUEUE]
        if action in (NamedAction.TRY_SET, NamedAction.LIST) or (
            action < NamedAction.PUT and self.random.random() < 0.2
        ):
            kinds = [CoordinationKind.PUBLISHED]
        value, version = bytes(self.random.randint(0, 9)), self.random.randint(0, 99)
        kind, limit = self.random.choice(kinds), 2 if kinds == [CoordinationKind.QUEUE] else 0
        limit += self.random.random() < 0.1
        return NamedRequest(kind, action, number, name, value, version, *(task or (b"", 0, 0)), limit)

    def tasks(self, client: Peer) -> Tasks:
        count = self.random.randint(1, 6)
        first = self.next_task if self.random.random() < 0.9 else self.task()
        self.next_task += count
        options = {
            "rerun": self.random.random() < 0.7,
            "retries": self.random.randint(0, 1),
            "priority": self.random.randint(0, 2),
            "capabilities": (Capability("gpu"),) if self.random.random() < 0.2 else (),
        }
        if self.random.random() < 0.3:
            kind = self.random.choice(["actor", "hosts_actor"])
            options[kind] = self.task() if kind == "actor" else True
        parent = None
        if client is self.child and self.random.random() < 0.3:
            parent = TaskName(self.random.choice(self.clients).session, self.task(), self.random.randint(1, 2))
        return Tasks([run(client, first, count, **options)], [definition()], [], self.random.random() < 0.2, parent)

    def agent_body(self) -> object:
        roll = self.random.random()
        if roll < 0.6:
            statuses = [*Status]
            rows = [(self.task(), self.random.randint(1, 2), self.random.choice(statuses), b"{}") for _ in range(4)]
            return results(self.random.choice(self.clients), *rows)
        if roll < 0.8:
            return Withdrawn((self.column(),))
        return self.random.choice([
            Blocked(self.random.randint(0, 2), 0),
            ActorsReady((self.column(),)),
            StackReply(1, True, "File"),
            OutputReply(1, True),
            PrintedOutput(()),
            LogLines((LogLine(self.random.randint(0, 3), 1.0, 20, "line"),)),
            Leaving(),
            ObjectStored(self.key(), 0, bytes(16)),
            RelayClosed(self.child.session),
            ObjectRequest(self.key()),
            ObjectCredit(self.key(), 50),
            ObjectChunk(self.key(), 100, 0, bytes(50)),
            self.random.choice([Goodbye(), *[Ping()] * 8]),
            Ping(),
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_every_message_is_legal_in_every_state(seed: int) -> None:
    """The playbook checks every invariant of the core after each drain."""
    crowd = Crowd(seed)
    for peer in [*crowd.agents, *crowd.clients]:
        crowd.connect(peer)
    for _ in range(STEPS):
        crowd.step()
