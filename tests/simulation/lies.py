"""Messages of the right shape with any content: real names where they do not belong, and absurd numbers."""

from __future__ import annotations

import enum
import functools
import random
import types
import typing
from collections import deque
from typing import Any

from scaler_protocol import messages
from scaler_protocol.codec import MalformedMessage, ResultRun, TaskRun, decode, encode
from scaler_protocol.messages import (
    UPLOAD_NUMBER,
    Body,
    Capability,
    Envelope,
    FunctionDefinition,
    Hello,
    ManagerReport,
    ObjectKey,
    Ping,
    Relay,
    Results,
    Role,
    Status,
    TaskColumn,
    TaskName,
    TaskOptions,
    Tasks,
)

NUMBERS = (0, 1, 2, 3, 5, 100, 2**20, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
REALS = (0.0, 0.001, 1.0, 1e6, -1.0, 1e300, float("inf"), float("nan"))
TIMES = (0.0, 0.001, 1.7e9, 1e12)
TEXTS = ("", "gpu", "short", "tcp://10.0.0.1:1", "größe\x1b[31m\nline", "x" * 300)
DATA = (b"", b"{}", b"\0" * 8, b"\0" * 24, b"\xff" * 40, b"[]", b"x" * 600)
NAME_BYTES = 16
RECENT = 64
TRIES = 4
ROUNDS = 4
"""An item of a tuple that is still made after so many others."""

SERIALIZERS = (b"environment a...", b"environment b...")

NAMES = {"session", "actor_session", "owner", "store", "parent_session", "digest", "function", "serializer", "cluster"}
TASKS = {"task", "tasks", "parent_task"}
ATTEMPTS = {"attempt", "attempts", "parent_attempt"}


class Lore:
    """What liars know: sessions, tasks, functions and stores that there are, and those they made up."""

    def __init__(self) -> None:
        self.sessions: deque[bytes] = deque(maxlen=RECENT)
        self.tasks: deque[int] = deque([1, 2, 3], maxlen=RECENT)
        self.held: deque[tuple[bytes, int, int]] = deque(maxlen=RECENT)
        """Session, task and attempt of tasks that were handed to a liar."""

        self.functions: list[bytes] = [name.encode().ljust(NAME_BYTES, b"\0") for name in ("short", "long", "other")]

    def learn(self, envelope: Envelope) -> None:
        """From what a liar was told."""
        if isinstance(envelope.body, Tasks):
            for run in envelope.body.runs:
                self.sessions.append(run.session)
                if run.function not in self.functions[-RECENT:]:
                    self.functions.append(run.function)
                for task in range(run.first_task, run.first_task + min(run.count, 8)):
                    self.tasks.append(task)
                    self.held.append((run.session, task, run.attempt))


class Lies:
    """``chance`` decides everything, so that bytes of a fuzzer can, too."""

    def __init__(self, chance: random.Random, lore: Lore, session: bytes) -> None:
        self.chance = chance
        self.lore = lore
        self.session = session
        self._next_task = 1

    def body(self, kinds: typing.Sequence[type]) -> Body:
        """One of these kinds that can be written, or a Ping."""
        for _ in range(TRIES):
            body = self.make(self.chance.choice(kinds))
            try:
                encode(Envelope(body))
            except (ValueError, TypeError):
                continue
            return body
        return Ping()

    def make(self, kind: type) -> Any:
        if kind is Tasks:
            return self.some_tasks()
        if kind is Results:
            return Results([self.result_run() for _ in range(self.chance.randint(1, 2))])
        if kind is Relay:
            return Relay(self.name(), self.relayed_frames())
        if kind is ManagerReport and self.chance.random() < 0.8:
            return self.manager_report()
        return self.value_of(kind)

    def manager_report(self) -> ManagerReport:
        """Mostly one that is accepted."""
        chance = self.chance
        bounds = sorted(chance.choice([0, 1, 2, 8, 10_000, 2**32 - 1]) for _ in range(2))
        return ManagerReport(
            chance.choice(["cloud", "other", *TEXTS]), (), bounds[0], bounds[1],
            cost_per_worker_hour=chance.choice(REALS), target_seconds=chance.choice([60.0, 0.001, *REALS]),
            cool_down_seconds=chance.choice([0.0, 60.0, *REALS]), starting=self.number(), running=self.number(),
        )  # fmt: skip

    def hello(self, role: Role) -> Hello:
        """Mostly that of an honest peer."""
        hello = Hello(role=role, session=self.session, token=b"", distribution_version="1", python_version="3")
        if self.chance.random() < 0.3:
            return typing.cast(Hello, self.value_of(Hello))
        if self.chance.random() < 0.3:
            parent = self.chance.choice([self.session, self.name()]), self.task(), self.attempt()
            hello = messages.Hello(
                role=role, session=self.session, token=b"", parent_session=parent[0], parent_task=parent[1],
                parent_attempt=parent[2], parent_depth=self.chance.choice([0, 1, 5, 2**32 - 1]),
            )  # fmt: skip
        return hello

    def relayed_frames(self) -> tuple[bytes, ...]:
        if self.chance.random() < 0.2:
            return (self.chance.randbytes(self.chance.randint(0, 40)),)
        body = self.hello(Role.SUBMIT) if self.chance.random() < 0.4 else self.body(FROM_CLIENTS)
        try:
            return tuple(encode(Envelope(body, self.chance.randint(0, 6), 0)))
        except ValueError:
            return (b"",)

    # ---- runs --------------------------------------------------------------------------------------------------

    def some_tasks(self) -> Tasks:
        chance = self.chance
        runs = [self.task_run() for _ in range(chance.randint(1, 3))]
        digests = {run.function: run.function_name for run in runs}
        functions = [FunctionDefinition(digest, name, b"pickle", 6, "", name) for digest, name in digests.items()]
        if chance.random() < 0.2:
            functions = [FunctionDefinition(self.name(), "junk", chance.choice(DATA), self.number()) for _ in range(2)]
        parent = None
        if chance.random() < 0.15:
            parent = TaskName(self.name(), self.task(), self.attempt(), chance.choice([0, 1, 2**32 - 1]))
        serializers = []
        if chance.random() < 0.3:
            texts = [
                "", "{}", '{"variables":{"A":"1"}}', '{"requirements":["-e /"]}', '{"requirements":["numpy"]}',
                '{"requirements":["numpy","x"],"working_directory":"/"}', '{"variables":{"SCALER_HOME":"x"}}',
                "[" * 2000,
            ]  # fmt: skip
            named = [run.serializer for run in runs if run.serializer]
            serializers = [FunctionDefinition(each, "s", b"pickle", 6, chance.choice(texts)) for each in named]
        return Tasks(runs, functions, serializers, chance.random() < 0.15, parent)

    def task_run(self) -> TaskRun:
        chance = self.chance
        count, arity = chance.randint(1, 5), chance.randint(0, 3)
        first = self._next_task
        if chance.random() < 0.3:
            first = min(self.task(), 2**62)
        else:
            self._next_task += count
            self.lore.tasks.append(first)
        slots = [[self.slot(first + index) for _ in range(arity)] for index in range(count)]
        owner = self.session if chance.random() < 0.9 else self.name()
        attempt = 1 if chance.random() < 0.9 else self.attempt()
        function, name = chance.choice(self.lore.functions), chance.choice(TEXTS)
        serializer = b"" if chance.random() < 0.8 else chance.choice(SERIALIZERS)
        return TaskRun(owner, function, name, serializer, first, attempt, (), self.options(first), slots)

    def slot(self, task: int) -> bytes | ObjectKey:
        roll = self.chance.random()
        if roll < 0.5:
            return self.chance.choice(DATA)
        if roll < 0.8:
            return ObjectKey(self.session, max(0, task - self.chance.randint(0, 4)))
        return self.key()

    def options(self, first: int) -> TaskOptions:
        chance = self.chance
        if chance.random() < 0.4:
            return TaskOptions()
        capabilities = (Capability(chance.choice(["gpu", "linux", ""]), chance.choice(NUMBERS)),)
        return TaskOptions(
            priority=chance.choice([0, 1, -1, 2**63 - 1, -(2**63)]),
            depth=chance.choice([0, 0, 1, 2**32 - 1]),
            retries=chance.choice([0, 1, 2**32 - 1]),
            rerun=chance.random() < 0.8,
            timeout_seconds=chance.choice([0.0, 0.5, 1e6]),
            memory_bytes=chance.choice([0, 1, 2**64 - 1]),
            capabilities=capabilities if chance.random() < 0.2 else (),
            intermediate=chance.random() < 0.2,
            graph=chance.choice([0, 0, (first + 2) & 0xFFFFFFFF, 1, 2**32 - 1]),
            shares_values=chance.random() < 0.2,
            grows=chance.random() < 0.2,
            hosts_actor=chance.random() < 0.1,
            actor=chance.choice([0, 0, 0, 0, self.task()]),
            actor_session=chance.choice([b"", b"", self.name()]),
            **_derived_options(first),
        )

    def result_run(self) -> ResultRun:
        chance = self.chance
        named = list(self.lore.held)[-8:]
        session = chance.choice(named)[0] if named and chance.random() < 0.8 else self.name()
        rows = []
        for _ in range(chance.randint(0, 4)):
            own = [each for each in named if each[0] == session]
            task, attempt = chance.choice(own)[1:] if own and chance.random() < 0.7 else (self.task(), self.attempt())
            status = chance.choice([*Status, 13, 255])
            rows.append((task, attempt, status, chance.choice(DATA), self.number(), self.number(), self.number()))
        return ResultRun(session, rows)

    # ---- values of fields --------------------------------------------------------------------------------------

    def value_of(self, kind: type, name: str = "", round: int = 0) -> Any:
        """Of a class of messages, or of the type of a field."""
        if typing.get_origin(kind) in (tuple, list):
            return self.items(typing.get_args(kind)[0], name, round)
        if typing.get_origin(kind) in (types.UnionType, typing.Union):
            return self.value_of(typing.get_args(kind)[0], name, round)
        if kind is ObjectKey:
            return self.key()
        if kind is TaskColumn:
            return self.column()
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self.chance.choice(list(kind))
        if kind in _PLAIN:
            return self.plain(kind, name)
        return kind(**{name: self.value_of(hint, name, round + 1) for name, hint in _fields(kind)})

    def items(self, kind: type, name: str, round: int) -> tuple[Any, ...]:
        count = self.chance.randint(0, 3) if round < ROUNDS else 0
        return tuple(self.value_of(kind, name, round + 1) for _ in range(count))

    def plain(self, kind: type, name: str) -> Any:
        if kind is bytes:
            return self.name() if name in NAMES else self.chance.choice(DATA)
        if kind is int:
            return self.task() if name in TASKS else self.attempt() if name in ATTEMPTS else self.number()
        if kind is float:
            return self.chance.choice(REALS)
        return self.chance.choice(TEXTS) if kind is str else self.chance.random() < 0.5

    def name(self) -> bytes:
        """Of a session, mostly, or of something else that has 16 bytes."""
        roll = self.chance.random()
        if roll < 0.4 or not self.lore.sessions:
            return self.session
        if roll < 0.9:
            return self.chance.choice(self.lore.sessions)
        return self.chance.choice([bytes(NAME_BYTES), self.chance.randbytes(NAME_BYTES), *self.lore.functions])

    def task(self) -> int:
        return self.chance.choice(self.lore.tasks) if self.chance.random() < 0.8 else self.number()

    def attempt(self) -> int:
        return self.chance.choice([1, 1, 1, 0, 2, 3, 2**32 - 1])

    def number(self) -> int:
        return self.chance.choice(NUMBERS)

    def key(self) -> ObjectKey:
        number = self.chance.choice([self.task(), UPLOAD_NUMBER, 2**64 - 1, 2**64 - 2, 0])
        return ObjectKey(self.name(), number)

    def column(self) -> TaskColumn:
        tasks = tuple(self.task() for _ in range(self.chance.randint(0, 4)))
        attempts = tuple(self.attempt() for _ in tasks) if self.chance.random() < 0.7 else ()
        return TaskColumn(self.name(), tasks, attempts)


def _derived_options(first: int) -> dict[str, Any]:
    """Return further options, which follow from the number of the first task: decisions of their own would give all
    others, and so the inputs that fuzzers have kept, another meaning."""
    number = NUMBERS[first % len(NUMBERS)] & 0xFFFFFFFF
    return {
        "stream_output": first % 3 == 1,
        "profiling": first % 5 == 1,
        "max_concurrency": number & 0xFFFF,
        "map_number": first % 4,
        "map_tasks": number,
        "submitted_at": TIMES[first % len(TIMES)],
        "ready_at": TIMES[number % len(TIMES)],
        "actor_name": ("", "ledger", "\u202e\0" * 200)[first % 3],
    }


@functools.cache
def _fields(kind: type) -> list[tuple[str, Any]]:
    """Names and types of the fields of a message."""
    hints = typing.get_type_hints(kind, vars(messages))
    return [(name, hint) for name, hint in hints.items() if name in getattr(kind, "__dataclass_fields__", hints)]


_PLAIN = (bytes, int, float, str, bool)
ALL: tuple[type, ...] = typing.get_args(Body)
_SCHEDULER_ONLY = {"Welcome", "Refused", "WhoAreYou", "Withdraw", "ResultsReleased", "HeartbeatEcho", "Stop", "Drain"}
_SCHEDULER_ONLY |= {"ManagerOrder", "EndProcess", "KeepValues", "MayLeave"}
_AGENT_ONLY = {
    "Results",
    "AgentAttach",
    "Withdrawn",
    "Heartbeat",
    "Blocked",
    "Relay",
    "RelayClosed",
    "StoreAttached",
    "ActorsReady",
    "ManagerReport",
    "Leaving",
    "AllReported",
}
FROM_CLIENTS = tuple(each for each in ALL if each.__name__ not in _SCHEDULER_ONLY | _AGENT_ONLY | {"Hello"})
FROM_AGENTS = tuple(each for each in ALL if each.__name__ not in _SCHEDULER_ONLY | {"Hello", "Clear", "Tasks"})
FROM_SCHEDULERS = tuple(each for each in ALL if each.__name__ not in _AGENT_ONLY - {"Results", "Relay"} | {"Hello"})


def mutated(frames: list[bytes], chance: random.Random) -> list[bytes]:
    """A few bits of the first frame turned."""
    head = bytearray(frames[0])
    for _ in range(chance.randint(1, 4)):
        if head:
            head[chance.randrange(len(head))] ^= 1 << chance.randrange(8)
    return [bytes(head), *frames[1:]]


def read(frames: list[bytes]) -> Envelope | None:
    try:
        return decode(frames)
    except MalformedMessage:
        return None
