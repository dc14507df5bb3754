"""An agent's core on a stage: a scheduler that says what the test says, processes that run when the test says so."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun, decode, encode
from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.ids import digest
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Envelope,
    FunctionDefinition,
    Hello,
    ObjectKey,
    Ping,
    Results,
    Role,
    TaskOptions,
    Tasks,
    Welcome,
)
from scaler_worker.board import BOARD_BYTES, Board
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import DispatchTasks, Interrupt, Kill, StartWorkerProcess
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.worker import WorkerCore
from scaler_worker.worker_process.errors import ObjectMissingError
from scaler_worker.worker_process.runner import Runner

CLIENT = b"C" * 16
AGENT = b"A" * 16


def nothing(*arguments: Any) -> None:
    return None


def definition(function: Callable[..., Any]) -> FunctionDefinition:
    data = pickle.dumps(function)
    return FunctionDefinition(digest(data), function.__qualname__, data, len(data))


def run_of(
    count: int,
    *,
    first: int = 0,
    function: Callable[..., Any] = nothing,
    options: TaskOptions | None = None,
    session: bytes = CLIENT,
    attempt: int = 1,
    slots: Sequence[Any] | None = None,
) -> TaskRun:
    """Tasks of one argument: their number, or ``slots``."""
    values = slots if slots is not None else range(first, first + count)
    tasks = [[value if isinstance(value, ObjectKey) else pickle.dumps(value)] for value in values]
    known = definition(function)
    return TaskRun(session, known.digest, known.name, b"", first, attempt, (), options or TaskOptions(), tasks)


class DictStore:
    """Objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, bytearray] = {}
        self.results: dict[tuple[int, int], bytes] = {}

    def create(self, key: ObjectKey, size: int) -> None:
        self.objects[key] = bytearray(size)

    def write(self, key: ObjectKey, offset: int, data: bytes) -> None:
        self.objects[key][offset : offset + len(data)] = data

    def read(self, key: ObjectKey, offset: int, size: int) -> bytes:
        return bytes(self.objects[key][offset : offset + size])

    def size(self, key: ObjectKey) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def catch_up(self, number: int) -> None:
        """Nothing is sent beside the boards of these worker processes."""

    def name_result(self, number: int, sequence: int, key: ObjectKey) -> bool:
        """False: the worker process has put it into the host's store."""
        data = self.results.pop((number, sequence), None)
        if data is None:
            return False
        self.objects[key] = bytearray(data)
        return True

    def drop(self, key: ObjectKey) -> None:
        self.objects.pop(key, None)


class StageWorkerProcess:
    """What a worker process does, in this process and only when told to."""

    def __init__(self, number: int, store: DictStore) -> None:
        self.number = number
        self.memory = bytearray(BOARD_BYTES)
        self.board = Board(self.memory)
        self.pending: list[TaskRun] = []
        self._values: list[tuple[int, DispatchTasks]] = []
        self.notified = 0
        self._store = store
        self._functions: dict[bytes, FunctionDefinition] = {}
        self.runner = Runner(self.board, self)
        self.during: Callable[[], None] = nothing
        self.while_waiting: Callable[[], None] | None = None
        self.shielded: set[int] = set()

    def take(self, tasks: Tasks) -> None:
        decoded = decode(encode(Envelope(tasks))).body
        self._functions.update({each.digest: each for each in decoded.functions})
        self.pending.extend(decoded.runs)

    def take_over(self, effect: DispatchTasks) -> None:
        if effect.values is not None:
            self._values.append((len(self.pending), effect))
        self.take(effect.tasks)

    def show_function(self, name: str, client: bytes = b"") -> None:
        pass

    def use_modules(self, run: object) -> None:
        pass

    def is_shielded(self, thread: int) -> bool:
        return thread in self.shielded

    def advise(self, error: BaseException) -> None:
        pass

    def flush_output(self) -> None:
        pass

    def stream_output(self, whether: bool) -> None:
        pass

    def memory_peak(self, reset: bool) -> int:
        return 0

    def wake(self) -> None:
        """A wait for tasks is over."""
        self.runner.woken()

    def run(self) -> None:
        """Everything dispatched so far, and the values it needs, in the order in which they came."""
        runs, self.pending = self.pending, []
        values, self._values = self._values, []
        start = 0
        for position, effect in values:
            self.runner.run_tasks(runs[start:position])
            self.runner.forget_values(effect.watermark)
            self.runner.take_values(effect.values)
            start = position
        self.runner.run_tasks(runs[start:])
        self.runner.tell()

    def function(self, run: TaskRun) -> Any:
        return pickle.loads(self._functions[run.function].payload)

    def serializer(self, run: TaskRun) -> Any:
        return None

    def object(self, key: ObjectKey) -> bytes:
        if key not in self._store.objects:
            raise ObjectMissingError(str(key))
        return bytes(self._store.objects[key])

    def notify(self) -> None:
        self.notified += 1

    def keep_large(self, key: ObjectKey, sequence: int, payload: bytes) -> tuple[bytes, bytes | None]:
        self._store.results[self.number, sequence] = payload
        return len(payload).to_bytes(8, "little"), payload

    def unmap_unused(self) -> None:
        """It maps nothing."""

    def wait(self, seconds: float) -> None:
        assert self.while_waiting is not None, "nothing makes room"
        self.while_waiting()


class Stage:
    """``now`` moves only when the test moves it. Effects are carried out by ``turn``."""

    def __init__(
        self, workers: int = 2, *, welcome: bool = True, handshake: PeerHandshake | None = None, **settings: Any
    ) -> None:
        self.now = time.monotonic() + 1e6  # the runner reads the real clock, and must find its lease valid
        self.store = DictStore()
        names = tuple(f"w{index}" for index in range(workers))
        hello = Hello(Role.WORK, AGENT, host="stage", pid=1)
        self.core = WorkerCore(AgentSettings("agent", names, **settings), hello, self.store, self.now, handshake)
        self.processes: dict[int, StageWorkerProcess] = {}
        self.sent: list[Envelope] = []
        self.effects: list[Any] = []
        self.link = Link()
        self.turn()
        self.ready()
        if welcome:
            self.connect()

    # ---- the scheduler ---------------------------------------------------------------------------------------

    def connect(self, epoch: int = 1, resumed: bool = False, received: int = 0) -> None:
        self.core.on_connected(b"", self.now)
        self.turn()
        self.welcome(epoch, resumed, received)

    def welcome(self, epoch: int = 1, resumed: bool = False, received: int = 0) -> None:
        hello = self.bodies(Hello)[-1]
        if not resumed:
            self.link = Link()
        self.say_raw(Welcome(b"S" * 16, epoch, received, resumed, number=hello.number))

    def say(self, body: Any) -> None:
        self.core.on_message(SCHEDULER, self.link.wrap(body), self.now)
        self.turn()

    def say_raw(self, body: Any) -> None:
        self.core.on_message(SCHEDULER, Envelope(body), self.now)
        self.turn()

    def give(self, *runs: TaskRun, function: Callable[..., Any] = nothing) -> None:
        self.say(Tasks(list(runs), [definition(function)]))

    def bodies(self, kind: type) -> list[Any]:
        return [envelope.body for envelope in self.sent if isinstance(envelope.body, kind)]

    def results(self) -> dict[int, tuple[int, bytes]]:
        """Status and payload by task, over everything sent."""
        runs: list[ResultRun] = [run for results in self.bodies(Results) for run in results.runs]
        return {row[0]: (row[2], bytes(row[3])) for run in runs for row in run.rows()}

    # ---- the world -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        for effect in self.core.take_effects(self.now):
            self.effects.append(effect)
            if isinstance(effect, Send):
                self.sent.append(effect.envelope)
            elif isinstance(effect, StartWorkerProcess):
                self.processes[effect.number] = StageWorkerProcess(effect.number, self.store)
            elif isinstance(effect, DispatchTasks):
                self.processes[effect.number].take_over(effect)
        self.core.check()

    def ready(self) -> None:
        for number, process in self.processes.items():
            if self.core.slots.processes[number].board is None:
                self.core.on_worker_process_started(number, process.board, 1000 + number, self.now)
                self.core.on_worker_process_ready(number, self.now)
        self.turn()

    def run(self, number: int) -> None:
        """Let one worker process finish what it has."""
        self.processes[number].run()
        self.core.on_worker_process_news(number, self.now)
        self.turn()

    def run_all(self, limit: int = 1000) -> None:
        """Until nobody has anything."""
        for _ in range(limit):
            waiting = [number for number, each in self.processes.items() if each.pending]
            if not waiting:
                return
            for number in waiting:
                self.run(number)
        raise AssertionError("it does not end")

    def die(self, number: int, **certificate: Any) -> None:
        del self.processes[number]
        self.core.on_worker_process_died(number, certificate, self.now)
        self.turn()
        self.ready()

    def pass_time(self, seconds: float, *, heard: bool = True) -> None:
        """In steps, as a scheduler that pings would have it."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.1)
            if heard:
                self.core.on_message(SCHEDULER, Envelope(Ping()), self.now)
            deadline = self.core.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.core.on_deadline(self.now)
            self.turn()

    def count(self, kind: type) -> int:
        return sum(1 for effect in self.effects if isinstance(effect, kind))

    @property
    def interrupts(self) -> int:
        return self.count(Interrupt)

    @property
    def kills(self) -> int:
        return self.count(Kill)
