"""Clients and agents that mix what is legal with lies, at random and repeatable by seed.

Every message passes the codec both ways, as on the wire: what the codec refuses costs its sender the session, and what
the core wants sent must be something that can be encoded.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler_protocol.codec import MalformedMessage, ResultRun, TaskRun, decode, encode
from scaler_protocol.ids import digest
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    ActorsReady,
    AgentAttach,
    AllReported,
    Blocked,
    Body,
    Cancel,
    CancelRefused,
    Capability,
    Clear,
    ClusterInfoRequest,
    ControlAction,
    ControlRequest,
    CoordinationKind,
    DroppedTasks,
    EndProcess,
    Envelope,
    ExplainRequest,
    FunctionDefinition,
    Goodbye,
    Heartbeat,
    Hello,
    HostSoftware,
    Leaving,
    LockAction,
    LockRequest,
    LogLine,
    LogLines,
    ManagerReport,
    NamedAction,
    NamedRequest,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectsStored,
    ObjectStored,
    Output,
    OutputPiece,
    OutputReply,
    OutputRequest,
    Ping,
    PrintedOutput,
    ProfileReply,
    ProfileRequest,
    ReceivedBytes,
    Refused,
    Relay,
    RelayClosed,
    Results,
    Role,
    ShutdownRequest,
    StackReply,
    StackRequest,
    StartingAgents,
    Status,
    StoreAttached,
    StoreStatus,
    TaskColumn,
    TaskName,
    TaskOptions,
    Tasks,
    UnsentCalls,
    UnsentCount,
    Welcome,
    Withdraw,
    Withdrawn,
    WorkerStatus,
)
from scaler_scheduler.core.effects import Describe, Log, Quit, Send
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings

PICKLES = [b"one", b"two", b"three" * 20_000]
FUNCTIONS = [digest(pickle) for pickle in PICKLES]
"""The last one is so large that it travels as an object."""

EDGES = (0, 1, 2, 1022, 1023, 1024, 1025, 2**31, 2**32 - 1, 2**32, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
STORES = [name * 16 for name in (b"\1", b"\2", b"\0")]
CAPABILITIES = ("gpu", "arm", "disk")
OF_VARIABLES = [
    NamedAction.SET,
    NamedAction.CLEAR,
    NamedAction.READ,
    NamedAction.PEEK,
    NamedAction.WITHDRAW,
    NamedAction.RESTATE,
    NamedAction.RESTATE_CLEARED,
]
OF_QUEUES = [
    NamedAction.PUT,
    NamedAction.TRY_PUT,
    NamedAction.TAKE,
    NamedAction.TRY_TAKE,
    NamedAction.COUNT,
    NamedAction.RETURN,
    NamedAction.WITHDRAW,
]
NAMED_ACTIONS = {
    CoordinationKind.EVENT: OF_VARIABLES,
    CoordinationKind.VARIABLE: OF_VARIABLES,
    CoordinationKind.QUEUE: OF_QUEUES,
    CoordinationKind.PUBLISHED: [NamedAction.TRY_SET, NamedAction.CLEAR, NamedAction.PEEK, NamedAction.LIST],
}
"""Most actions that each kind of named value has."""

LARGE_PAYLOAD = (1 << 20).to_bytes(8, "little") + b"\1" * 16

Task = tuple[bytes, int, int]
"""Session, number, attempt."""


class Attacker:
    """One peer. What it knows of its link is right, unless it lies about that, too."""

    def __init__(self, attack: Attack, name: str, role: Role, via: Attacker | None = None) -> None:
        self.attack = attack
        self.chance = attack.chance
        self.session = name.encode().ljust(16, b".")
        self.role = role
        self.via = via
        self.link = Link()
        self.epoch = 0
        self.next_task = 1
        self.next_request = 0
        self.graph_first = 0
        self.held: list[Task] = []
        """Of an agent: what it was given."""

    def connect(self) -> None:
        chance = self.chance
        if chance.random() < 0.2:
            self.epoch = chance.choice([0, 0, 5])
        hello = Hello(
            self.role,
            self.session,
            self.epoch,
            self.link.received if chance.random() < 0.9 else chance.choice(EDGES),
            host="host",
            number=chance.choice([0, 1, 2**64 - 1]),
        )
        if self.via is not None and chance.random() < 0.8:
            parent = self.attack.some_task()
            values = {"parent_session": parent[0], "parent_task": parent[1], "parent_attempt": parent[2]}
            hello = Hello(
                hello.role,
                hello.session,
                hello.epoch,
                hello.received,
                **values,
                parent_depth=chance.choice([0, 1, 2**32 - 1]),
            )
        self.send(Envelope(hello))
        if self.role == Role.WORK and not self.link.sent:
            self.says(self.attach())

    def attach(self) -> AgentAttach:
        chance = self.chance
        names = tuple(f"w{index}" for index in range(chance.choice([0, 1, 1, 2, 3, 8])))
        amounts = [
            Capability(name, chance.choice([0, 1, 2, 2**63, 2**64 - 1]))
            for name in CAPABILITIES
            if chance.random() < 0.6
        ]
        holds = tuple(self.attack.column() for _ in range(chance.choice([0, 0, 1, 2])))
        return AgentAttach("agent", "host", 1, names, tuple(amounts), holds)

    def says(self, body: Body) -> None:
        envelope = self.link.wrap(body)
        if self.chance.random() < 0.01:
            envelope.sequence = self.chance.choice(EDGES)
        if self.chance.random() < 0.02:
            envelope.acknowledged = self.chance.choice(EDGES)
        self.send(envelope)

    def send(self, envelope: Envelope) -> None:
        if self.via is None:
            self.attack.feed(self.session, envelope)
        else:
            self.via.says(Relay(self.session, tuple(encode(envelope))))

    def hears(self, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, Welcome):
            self.epoch = body.epoch
            if not body.resumed:
                self.link, self.held = Link(), []
                return
            for again in self.link.resume(body.received):
                self.send(again)
            return
        if isinstance(body, Refused):
            return
        try:
            is_new = self.link.accept(envelope)
        except Exception:
            return  # a gap: it is for this peer to say Hello again
        if is_new and isinstance(body, Tasks):
            for run in body.runs:
                self.held += [(run.session, run.first_task + index, run.attempt) for index in range(run.count)]
        elif is_new and isinstance(body, Relay):
            nested = self.attack.peers.get(body.session)
            if nested is not None:
                nested.hears(decode(list(body.frames)))


class Attack:
    """Everybody, and a core that must bear them."""

    def __init__(self, seed: int, check_every: int = 1, **settings: Any) -> None:
        self.chance = random.Random(seed)
        self.now = 100.0
        self.check_every = check_every
        self.steps = 0
        values = {
            "address": "tcp://0.0.0.0:1",
            "session": b"scheduler.......",
            "epoch": 5,
            "client_timeout_seconds": 2.0,
            "worker_timeout_seconds": 4.0,
            "object_retention_seconds": 3.0,
            "max_number_of_tasks_waiting": self.chance.choice([-1, -1, 5]),
            "per_worker_queue_size": self.chance.choice([1, 4, 1000]),
        }
        self.core = SchedulerCore(Settings(**{**values, **settings}), self.now)  # type: ignore[arg-type]
        self.peers: dict[bytes, Attacker] = {}
        self.log: list[str] = []
        self.waiting: list[tuple[bytes, Envelope]] = []
        self.actors: list[tuple[bytes, int]] = []
        """The sessions and the numbers of tasks that make actors."""
        self.agents = [self._join(f"agent{index}", Role.WORK) for index in range(3)]
        self.clients = [self._join(f"client{index}", Role.SUBMIT) for index in range(3)]
        self.clients += [self._join(f"child{index}", Role.SUBMIT, self.agents[index % 2]) for index in range(3)]
        self.everybody = [*self.agents, *self.clients]
        for peer in self.everybody:
            peer.connect()
        self.drain()

    def _join(self, name: str, role: Role, via: Attacker | None = None) -> Attacker:
        peer = self.peers[name.encode().ljust(16, b".")] = Attacker(self, name, role, via)
        return peer

    # ---- one step --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        chance = self.chance
        for _ in range(chance.choice([1, 1, 1, 2, 5])):
            self._say_something()
        if chance.random() < 0.2:
            self.now += chance.choice([0.001, 0.02, 0.3, 1.1, 3.0])
            self.core.on_deadline(self.now)
        self.drain()

    def _say_something(self) -> None:
        roll = self.chance.random()
        peer = self.chance.choice(self.everybody)
        if roll < 0.02:
            peer.connect()
        elif roll < 0.03 and peer.via is None:
            self.core.on_peer_lost(peer.session, self.now)
        elif roll < 0.04 and peer.via is None:
            self.core.on_malformed(peer.session, "nonsense", self.now)
        elif roll < 0.08:
            peer.says(self.any_body(peer))
        elif peer.role == Role.SUBMIT:
            peer.says(self.client_body(peer))
        else:
            peer.says(self.agent_body(peer))

    def feed(self, session: bytes, envelope: Envelope) -> None:
        try:
            received = decode([bytes(frame) for frame in encode(envelope)])
        except MalformedMessage as error:
            self.core.on_malformed(session, str(error), self.now)
            return
        self.core.on_message(session, received, self.now)

    def drain(self) -> None:
        effects = self.core.take_effects(self.now)
        for effect in effects:
            if isinstance(effect, Send):
                frames = [bytes(frame) for frame in encode(effect.envelope)]
                peer = self.peers.get(effect.peer)
                if peer is not None and self.chance.random() < 0.99:
                    peer.hears(decode(frames))
            elif isinstance(effect, Describe):
                self.core.snapshot(self.now)
                self.core.on_described(b"described", self.now)
            else:
                assert isinstance(effect, (Log, Quit)), effect
        self.steps += 1
        if self.steps % self.check_every == 0:
            self.core.check()

    # ---- what they say ---------------------------------------------------------------------------------------------

    def number(self, near: int) -> int:
        roll = self.chance.random()
        if roll < 0.85:
            return self.chance.randint(max(0, near - 12), near + 1)
        return self.chance.choice(EDGES)

    def some_task(self) -> Task:
        """Of somebody, at times one that never was."""
        held = self.chance.choice(self.agents).held
        if held and self.chance.random() < 0.5:
            return self.chance.choice(held)
        client = self.chance.choice(self.clients)
        return client.session, self.number(client.next_task), self.chance.choice([0, 1, 1, 1, 2, 3, 2**32 - 1])

    def column(self) -> TaskColumn:
        session = self.some_task()[0]
        found = [self.some_task() for _ in range(self.chance.choice([0, 1, 2, 6]))]
        chosen = [task for task in found if task[0] == session or self.chance.random() < 0.2]
        attempts = tuple(task[2] for task in chosen) if self.chance.random() < 0.9 else ()
        return TaskColumn(session, tuple(task[1] for task in chosen), attempts)

    def key(self) -> ObjectKey:
        roll = self.chance.random()
        if roll < 0.2:
            return ObjectKey(self.chance.choice(FUNCTIONS), self.chance.choice([0, 0, 0, 1]))
        owner = self.chance.choice([*self.clients, *self.clients, *self.agents]).session
        number = self.some_task()[1] if roll < 0.7 else 2**64 - self.chance.randint(1, 4)
        return ObjectKey(owner, number)

    def options(self, **more: Any) -> TaskOptions:
        chance = self.chance
        capabilities = tuple(
            Capability(name, chance.choice([0, 1, 1, 2, 2**64 - 1])) for name in CAPABILITIES if chance.random() < 0.15
        )
        calls_actor = bool(self.actors) and chance.random() < 0.15
        session, actor = chance.choice(self.actors) if calls_actor else self._any_actor()
        return TaskOptions(
            actor_session=session,
            priority=chance.choice([0, 0, 0, 1, -(2**63), 2**63 - 1]),
            depth=chance.choice([0, 0, 0, 1, 70, 2**32 - 1]),
            retries=chance.choice([0, 0, 1, 2**32 - 1]),
            rerun=chance.random() < 0.8,
            hosts_actor=not calls_actor and chance.random() < 0.1,
            actor=actor,
            timeout_seconds=chance.choice([0.0, 0.0, 1e12]),
            memory_bytes=chance.choice([0, 2**64 - 1]),
            map_number=chance.choice([0, 0, 1, 2**32 - 1]),
            submitted_at=chance.choice([0.0, 0.0, 1.7e9, 1e12]),
            ready_at=chance.choice([0.0, 0.0, 1.7e9, 1e12]),
            capabilities=capabilities,
            **more,
        )

    def _any_actor(self) -> tuple[bytes, int]:
        chance = self.chance
        session = chance.choice(self.clients).session if chance.random() < 0.05 else b""
        return session, chance.choice([0, 0, 0, 1, 2, 2**64 - 1]) if chance.random() < 0.2 else 0

    def run(self, client: Attacker) -> TaskRun:
        chance = self.chance
        roll = chance.random()
        count = chance.choice([1, 1, 2, 3, 10, 40])
        first = client.next_task
        if roll < 0.06:
            first = min(self.number(client.next_task), 2**63 - 100)
        elif roll < 0.12:
            first += chance.choice([1, 7, 1024, 100_000])
        if first + count < 2**40:
            client.next_task = max(client.next_task, first + count)
        options, slots = self._shape(client, first, count)
        if options.hosts_actor and not options.actor and not options.graph:
            self.actors.append((client.session, first + chance.randrange(count)))
        session = client.session if chance.random() < 0.995 else chance.choice(self.clients).session
        return TaskRun(session, chance.choice(FUNCTIONS), "f", b"", first, 1, (), options, slots)

    def _shape(self, client: Attacker, first: int, count: int) -> tuple[TaskOptions, list[list[bytes | ObjectKey]]]:
        chance = self.chance
        if chance.random() < 0.5:
            slot: Callable[[int], bytes | ObjectKey] = lambda task: b"x" if chance.random() < 0.9 else self.key()  # noqa: E731
            arity = chance.choice([0, 1, 2])
            return self.options(), [[slot(first + index) for _ in range(arity)] for index in range(count)]
        if not client.graph_first or chance.random() < 0.2:
            client.graph_first = first
        last = chance.choice([first + count - 1, client.graph_first + 60, first + count + 5, 2**32 - 1, 1])
        arity = chance.choice([0, 1, 1, 2])
        slots = [
            [
                ObjectKey(client.session, self.number(first + index)) if chance.random() < 0.9 else self.key()
                for _ in range(arity)
            ]
            for index in range(count)
        ]
        return self.options(intermediate=chance.random() < 0.6, graph=last & 0xFFFFFFFF), slots

    def tasks(self, client: Attacker) -> Tasks:
        chance = self.chance
        runs = [self.run(client) for _ in range(chance.choice([0, 1, 1, 1, 2]))]
        named = chance.sample(range(3), chance.choice([0, 1, 3]))
        functions = [
            FunctionDefinition(FUNCTIONS[index], "f", PICKLES[index] if index < 2 else b"", len(PICKLES[index]))
            for index in named
        ]
        if chance.random() < 0.01:
            functions.append(FunctionDefinition(FUNCTIONS[0], "f", b"junk", 4))
        serializers = [replace(each, environment=chance.choice(["", "{}"])) for each in functions[:1]]
        parent = TaskName(*self.some_task(), chance.choice([0, 3, 2**32 - 1])) if chance.random() < 0.1 else None
        return Tasks(runs, functions, serializers, chance.random() < 0.15, parent)

    def chunk(self, key: ObjectKey) -> ObjectChunk:
        chance = self.chance
        if key.owner == FUNCTIONS[2] and chance.random() < 0.7:
            return ObjectChunk(key, len(PICKLES[2]), 0, PICKLES[2])
        offset = chance.choice([0, 0, 50, 2**40])
        return ObjectChunk(
            key,
            min(2**64 - 1, chance.choice([100, 100, 2**41, 2**48, 2**64 - 1]) + offset),
            offset,
            bytes(chance.choice([0, 50, 100])),
        )

    def client_body(self, client: Attacker) -> Body:
        chance = self.chance
        roll = chance.random()
        own = ObjectKey(client.session, 2**64 - chance.randint(1, 4))
        if roll < 0.45:
            return self.tasks(client)
        if roll < 0.6:
            numbers = tuple(self.number(client.next_task) for _ in range(chance.choice([0, 1, 3, 50])))
            return Cancel((TaskColumn(client.session, numbers), self.column()), chance.random() < 0.3)
        return self._one_of(
            lambda: self.chunk(own),
            lambda: self.chunk(own),
            lambda: self.chunk(self.key()),
            lambda: self.chunk(ObjectKey(FUNCTIONS[2], 0)),
            lambda: ObjectStored(own, 2**20, chance.choice(STORES)),
            lambda: ObjectStored(self.key(), chance.choice(EDGES), chance.choice(STORES)),
            lambda: ObjectsStored(
                chance.choice([own, self.key()]).owner,
                (own.number, self.key().number),
                (1, chance.choice(EDGES)),
                chance.choice(STORES),
            ),
            lambda: ObjectsStored(own.owner, (own.number,), (), chance.choice(STORES)),
            lambda: ObjectMissing(self.key(), "gone"),
            lambda: ObjectRequest(self.key(), chance.random() < 0.5, 0, chance.random() < 0.5),
            lambda: ObjectCredit(self.key(), chance.choice(EDGES)),
            lambda: ObjectRelease((self.key(), own, ObjectKey(chance.choice(FUNCTIONS), 0))),
            lambda: ExplainRequest(self.number(client.next_task)),
            lambda: StartingAgents(
                chance.choice([b"", bytes(16), self.key().owner * 3, b"x" * 17]), chance.choice([b"", bytes(16), b"y"])
            ),
            lambda: UnsentCalls(
                tuple(UnsentCount(FUNCTIONS[0], "f" * size, chance.choice([0, 2**32 - 1])) for size in (0, 1, 999))
            ),
            ClusterInfoRequest,
            Ping,
            Acknowledgement,
            lambda: Clear() if chance.random() < 0.3 else Ping(),
            lambda: Goodbye() if chance.random() < 0.2 else Ping(),
            ShutdownRequest,
            self.control,
            lambda: self.lock_request(client),
            lambda: self.lock_request(client),
            lambda: self.named_request(client),
            lambda: self.named_request(client),
            lambda: OutputRequest(
                chance.choice(EDGES), self.key().owner, chance.choice(EDGES), chance.choice(["", "w"])
            ),
            lambda: StackRequest(
                chance.choice(EDGES), self.key().owner, chance.choice(EDGES), chance.choice(["", "w"])
            ),
            lambda: ProfileRequest(
                chance.choice(EDGES), chance.choice([bytes(16), self.key().owner]), chance.choice([0, 1, 2**32 - 1])
            ),
        )

    def printed(self) -> OutputPiece:
        chance = self.chance
        return OutputPiece(
            self.key().owner, chance.choice(EDGES), 1, chance.choice([0, 0xFFFF]), chance.choice([0, 1, 255]),
            chance.choice(EDGES), "f", "w", chance.randbytes(9),
        )  # fmt: skip

    def control(self) -> ControlRequest:
        chance = self.chance
        target = chance.choice(["nobody", "", "x" * 2000, "\x1b[2J"])  # without keys it may control what exists
        action = chance.choice([*ControlAction, 255])
        return ControlRequest(chance.choice([0, 1, 2**64 - 1]), action, target, chance.choice([-1.0, 0.0, 0.5, 1e9]))

    def _asker(self) -> dict[str, Any]:
        """The fields that name the execution of a task, or none, as the one that asks."""
        session, task, attempt = self.some_task() if self.chance.random() < 0.5 else (b"", 0, 0)
        return {"task_session": session, "task": task, "attempt": attempt}

    def _request_number(self, client: Attacker) -> int:
        client.next_request += 1
        return client.next_request if self.chance.random() < 0.9 else self.chance.choice(EDGES)

    def _shared_name(self) -> str:
        return self.chance.choice("aaabb") if self.chance.random() < 0.95 else self.chance.choice(["", "x" * 2000])

    def lock_request(self, client: Attacker) -> LockRequest:
        chance = self.chance
        kinds = [CoordinationKind.LOCK, CoordinationKind.SEMAPHORE]
        kind = chance.choice(kinds if chance.random() < 0.97 else [*CoordinationKind, 255])
        action = chance.choice(list(LockAction)) if chance.random() < 0.97 else 255
        limit = chance.choice([1, 2]) if kind == CoordinationKind.SEMAPHORE else 0
        limit = limit if chance.random() < 0.95 else 2**32 - 1
        name = "" if action == LockAction.RELEASE else self._shared_name()
        return LockRequest(kind, action, self._request_number(client), name, limit=limit, **self._asker())

    def named_request(self, client: Attacker) -> NamedRequest:
        chance = self.chance
        kind, actions = chance.choice(list(NAMED_ACTIONS.items()))
        kind = kind if chance.random() < 0.98 else chance.choice([*CoordinationKind, 255])
        action = chance.choice(actions if chance.random() < 0.98 else [*NamedAction, 255])
        name = "" if action == NamedAction.WITHDRAW else self._shared_name()
        value = chance.choice([b"", b"v", bytes(70_000), bytes(300_000)])
        limit = chance.choice([0, 1, 2**32 - 1]) if kind == CoordinationKind.QUEUE else 0
        number, version = self._request_number(client), chance.choice([0, 1, *EDGES])
        return NamedRequest(kind, action, number, name, value, version, limit=limit, **self._asker())

    def results(self, agent: Attacker) -> Results:
        chance = self.chance
        runs: dict[bytes, list[tuple[Any, ...]]] = {}
        for _ in range(chance.choice([1, 2, 5, 20])):
            honest = bool(agent.held) and chance.random() < 0.8
            task = agent.held.pop(chance.randrange(len(agent.held))) if honest else self.some_task()
            status = (
                chance.choice([0] * 8 + [1] * 4 + list(Status)) if honest else chance.choice([*Status, 13, 200, 255])
            )
            payload = (
                chance.choice([LARGE_PAYLOAD, LARGE_PAYLOAD, b"", b"x"])
                if status == 1
                else chance.choice([b"", b"r", b"{}"])
            )
            duration = chance.choice([0, 10, 1000, 2**64 - 1])
            runs.setdefault(task[0], []).append(
                (task[1], task[2], status, payload, duration, duration, chance.choice([0, 5]))
            )
        found = [ResultRun(session, rows) for session, rows in runs.items()]
        for run in found:
            if chance.random() < 0.2:
                run.set_place(chance.choice([0, 1, 0xFFFE]), bytes(4 * run.count))
        return Results(found)

    def agent_body(self, agent: Attacker) -> Body:
        chance = self.chance
        roll = chance.random()
        if roll < 0.5:
            return self.results(agent)
        if roll < 0.6:
            return Withdrawn((self.column(),), chance.random() < 0.02)
        if roll < 0.65 and agent.held:
            task = agent.held.pop()
            return Withdrawn((TaskColumn(task[0], (task[1],), (task[2],)),))
        worker = WorkerStatus("w", 1, 1.0, 1, True, False, False)
        return self._one_of(
            agent.attach,
            lambda: Blocked(
                chance.choice([0, 1, 2**32 - 1]),
                chance.choice([0, 1, 2**32 - 1]),
                lent_by_actors=chance.choice([0, 1, 2**32 - 1]),
            ),
            lambda: Heartbeat(1.0, 0.0, 0.0, 0, 0, 0, (worker,)),
            lambda: ActorsReady((self.column(),)),
            lambda: StackReply(chance.choice([0, 1, 2, 2**64 - 1]), chance.random() < 0.5, "File"),
            lambda: OutputReply(chance.choice([0, 1, 2, 2**64 - 1]), chance.random() < 0.5, "", (self.printed(),)),
            lambda: PrintedOutput((self.printed(), self.printed())),
            lambda: LogLines(
                tuple(
                    LogLine(chance.choice(EDGES), chance.choice([0.0, -1.0, 1e12]), 255, "x" * size)
                    for size in (0, 5000)
                )
            ),
            lambda: Leaving(),
            AllReported,
            lambda: DroppedTasks(
                chance.choice(self.everybody).session, (0, chance.choice(EDGES)), chance.choice(EDGES)
            ),
            lambda: CancelRefused((self.column(),), chance.random() < 0.5),
            lambda: ProfileReply(
                chance.choice([0, 1, 2, 2**64 - 1]), chance.random() < 0.5, "", chance.choice([0, 1]), b"not compressed"
            ),
            lambda: HostSoftware(chance.choice(["h", ""]), "3.11", "x86-64-v3", ("numpy 2", "numpy")),
            lambda: RelayClosed(chance.choice(self.everybody).session),
            lambda: Relay(chance.choice(self.everybody).session, tuple(encode(Envelope(self.any_body(agent), 1)))),
            lambda: self.chunk(self.key()),
            lambda: self.chunk(self.key()),
            lambda: ObjectMissing(self.key(), "gone"),
            lambda: ObjectRequest(self.key(), chance.random() < 0.5),
            lambda: ObjectRequest(self.key(), chance.random() < 0.5),
            lambda: ObjectCredit(self.key(), chance.choice(EDGES)),
            lambda: ObjectLocations(self.key(), chance.choice(EDGES), ("tcp://a", "tcp://b")),
            lambda: ObjectStored(self.key(), chance.choice(EDGES), chance.choice(STORES)),
            lambda: ObjectsLost((self.key(), self.key())),
            lambda: StoreAttached(chance.choice(STORES), chance.choice(["", "tcp://a"])),
            lambda: StoreStatus(
                STORES[0],
                1,
                "",
                *[chance.choice(EDGES) for _ in range(10)],
                received_from=(ReceivedBytes("tcp://a", chance.choice(EDGES)),) * chance.choice([0, 1, 3]),
                largest_bytes=chance.choice(EDGES),
                owners=chance.randbytes(chance.choice((0, 8, 16, 16 * 70))),
            ),
            lambda: Output(chance.choice(self.clients).session, 1, 1, b"text"),
            lambda: ManagerReport(
                chance.choice(["", "cloud"]),
                (),
                *[chance.choice(EDGES) % 2**32 for _ in range(2)],
                *[chance.choice([-1.0, 0.0, 1.0, 60.0]) for _ in range(3)],
            ),
            Ping,
            Acknowledgement,
            lambda: Goodbye() if chance.random() < 0.1 else Ping(),
        )

    def _one_of(self, *makers: Callable[[], Body]) -> Body:
        return self.chance.choice(makers)()

    def any_body(self, peer: Attacker) -> Body:
        """Also what a peer of this role never says."""
        chance = self.chance
        return self._one_of(
            lambda: self.client_body(peer),
            lambda: self.agent_body(peer),
            lambda: Withdraw(2**32 - 1),
            lambda: EndProcess("w", chance.random() < 0.5),
            lambda: Welcome(b"w" * 16, 1),
            lambda: Cancel((self.column(), self.column())),
            lambda: CancelRefused((self.column(),)),
            lambda: Hello(chance.choice(list(Role)), peer.session),
            lambda: Results([]),
            lambda: Tasks([]),
        )
