"""A simulated worker process: the shared board and the loop that claims and runs tasks, in virtual time.

The board has the interface of ``scaler_worker.board.Board`` and its rules: whoever changes the cell of a task first
has claimed it; what was finished is there although the worker process died; nothing starts after the lease.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import INLINE_LIMIT_BYTES, UPLOAD_NUMBER, ObjectKey, Status, TaskName
from scaler_worker.core.effects import DispatchTasks
from tests.simulation.graphs import LARGE, result_of
from tests.simulation.locks import LOCKER, Critical, Keeper
from tests.simulation.nested import PARENT, Family, NestedClient
from tests.simulation.troupe import ACTOR, FAILING, Instance, Troupe
from tests.simulation.world import World

DURATIONS_SECONDS = {
    "short": (0.00002, 0.001),
    "long": (0.15, 0.5),
    "large": (0.0005, 0.02),
    "hungry": (0.05, 0.5),
    "gpu": (0.15, 0.5),
    "millisecond": (0.001, 0.001),
    "brief": (0.02, 0.02),
    "once": (0.05, 1.0),
    "endless": (1e6, 1e6),
    ACTOR: (0.0005, 0.05),
}
KeepLarge = Callable[[int, int, ObjectKey, bytes], bytes]

STUBBORN_SHARE = 0.1
LEASE_POLL_SECONDS = 0.01
TELL_SECONDS = 0.005
DISPATCHED, STARTED, WITHDRAWN = 0, 1, 2
WINDOW = 16384


class Agent(Protocol):
    nested: dict[bytes, NestedClient]
    keeper: Keeper
    troupe: Troupe
    nested_client: type[NestedClient]

    def on_news(self, process: SimulatedWorkerProcess) -> None: ...

    def on_memory(self, process: SimulatedWorkerProcess) -> None: ...

    def stored(self, key: ObjectKey) -> bytes | None: ...


class SimulatedHarvest:
    def __init__(self) -> None:
        self.runs: list[ResultRun] = []
        self.totals: list[tuple[Any, int, float]] = []
        self.interrupted: list[tuple[Any, int, int]] = []
        self.large: list[tuple[Any, int]] = []
        self.kept: list[tuple[Any, int, int, bytes]] = []
        self.has_more = False


class SimulatedBoard:
    """What agent and worker process share."""

    def __init__(self) -> None:
        self.position = 0
        self.harvested = 0
        self.harvested_at = 0.0
        self.running: int | None = None
        self.started = 0.0
        self.lease_until = float("inf")
        self.to_interrupt: set[int] = set()
        self.broken: str | None = None
        self.unordered = False
        self._next = 0
        self._open: dict[int, bool] = {}
        self._cells: dict[int, int] = {}
        self._records: deque[tuple[int, int, bytes, float]] = deque()

    # ---- the agent's side --------------------------------------------------------------------------------------

    def room(self) -> int:
        return WINDOW - (self._next - min([self.position, *self._open]))

    def dispatch(self, first_sequence: int, count: int) -> None:
        for sequence in range(first_sequence, first_sequence + count):
            self._cells[sequence] = DISPATCHED
            self._open[sequence] = True
        self._next = first_sequence + count

    def is_open(self, sequence: int) -> bool:
        return sequence in self._open

    def withdraw(self, sequence: int) -> bool:
        if self._cells.get(sequence) != DISPATCHED:
            return False
        self._cells[sequence] = WITHDRAWN
        del self._open[sequence]
        return True

    def withdraw_newest(self, first_sequence: int, end_sequence: int, limit: int) -> list[int]:
        taken: list[int] = []
        for sequence in range(end_sequence - 1, first_sequence - 1, -1):
            if len(taken) == limit or self._cells.get(sequence) == STARTED:
                break
            if self.withdraw(sequence):
                taken.append(sequence)
        return taken

    def cell(self, sequence: int) -> int:
        return self._cells.get(sequence, DISPATCHED)

    def is_started(self, sequence: int) -> bool:
        return self.is_open(sequence) and self.cell(sequence) != DISPATCHED

    def interrupt(self, sequence: int) -> None:
        if not self.unordered:
            self.to_interrupt.clear()
        self.to_interrupt.add(sequence)

    def set_lease(self, until: float) -> None:
        self.lease_until = until

    def has_results(self) -> bool:
        return bool(self._records)

    def has_left_out_tasks(self) -> bool:
        return False

    def harvest(self, dispatched: list[Any], now: float, worker: int | None = None) -> SimulatedHarvest:
        harvest = SimulatedHarvest()
        self.harvested_at = now
        while self._records:
            sequence, status, payload, seconds = self._records.popleft()
            entry = next(each for each in dispatched if each.first_sequence <= sequence < each.end_sequence)
            entry.unfinished -= 1
            del self._open[sequence]
            if not self.unordered:
                self.harvested = sequence + 1
            harvest.totals.append((entry, 1, seconds))
            if status == Status.CANCELLED:
                harvest.interrupted.append((entry, sequence, int(seconds * 1e6)))
                continue
            task = entry.first_task + sequence - entry.first_sequence
            if status == Status.SUCCESS_LARGE:
                harvest.large.append((entry, sequence))
            if entry.is_node:
                harvest.kept.append((entry.run, task, status, payload))
                payload = b"" if entry.is_intermediate and status == Status.SUCCESS else payload
            row = (task, entry.attempt, status, payload, int(seconds * 1e6), 0, 0)
            harvest.runs.append(ResultRun(entry.session, [row]))
        return harvest

    # ---- the worker process's side ----------------------------------------------------------------------------------

    def claim(self, sequence: int) -> bool:
        self.position = sequence + 1
        if self._cells.get(sequence) != DISPATCHED:
            return False
        self._cells[sequence] = STARTED
        return True

    def append(self, sequence: int, status: int, payload: bytes, seconds: float) -> None:
        self._records.append((sequence, status, payload, seconds))


class Execution:
    """A task, or call, that has started and not ended. ``is_stuck``: it does not care about signals."""

    def __init__(self, sequence: int, name: TaskName, argument: bytes, started: float) -> None:
        self.sequence = sequence
        self.name = name
        self.argument = argument
        self.started = started
        self.is_stuck = False
        self.family: Family | Critical | None = None


class SimulatedWorkerProcess:
    """Claims and runs what was dispatched to it, in order: a task at a time, or as many calls as its actor runs.
    ``executions`` counts by argument who was started how often, ``keep_large`` puts large results where they stay."""

    def __init__(
        self, world: World, agent: Agent, number: int, executions: dict[bytes, int], keep_large: KeepLarge
    ) -> None:
        self.number = number
        self.board = SimulatedBoard()
        self.alive = True
        self._world = world
        self._agent = agent
        self._executions = executions
        self._keep_large = keep_large
        self._waiting: deque[tuple[int, TaskRun | None, int, DispatchTasks | None]] = deque()
        self._own_values: dict[tuple[bytes, int], tuple[int, bytes]] = {}
        self._received_values: dict[tuple[bytes, int], bytes] = {}
        self._objects: dict[tuple[bytes, int], bytes] = {}
        self._next_sequence = 0
        self._told_at = world.now
        self._untold = False
        self._executing: dict[int, Execution] = {}
        self._concurrency = 1
        self._clients: list[NestedClient] = []
        self._resting: list[NestedClient] = []
        self._instance: Instance | None = None
        self._constructor = -1

    def dispatch(self, effect: DispatchTasks, objects: dict[ObjectKey, bytes]) -> None:
        self._objects.update(objects)
        if effect.values is not None:
            self._waiting.append((0, None, 0, effect))
        for run in effect.tasks.runs:
            for index in range(run.count):
                self._waiting.append((self._next_sequence, run, index, None))
                self._next_sequence += 1
        self._go_on()

    def drop_objects(self, keys: list[ObjectKey]) -> None:
        for key in keys:
            self._objects.pop(key, None)

    def _take_values(self, effect: DispatchTasks) -> None:
        own = self._own_values.items()
        self._own_values = {key: value for key, value in own if value[0] >= effect.watermark}
        self._received_values = {
            (run.session, task): bytes(payload)
            for run in effect.values or ()
            for task, _, _, payload, _, _, _ in run.rows()
        }

    def _value(self, key: ObjectKey) -> bytes | None:
        if key in self._own_values:
            return self._own_values[key][1]
        value = self._received_values.get(key, self._objects.get(key))
        return value if value is not None else self._agent.stored(key)

    def interrupt(self) -> None:
        """The signal arrives; some tasks do not care."""
        for sequence in sorted(self.board.to_interrupt & self._executing.keys()):
            execution = self._executing.get(sequence)
            if self.alive and execution is not None:
                execution.is_stuck = execution.is_stuck or self._world.chance.random() < STUBBORN_SHARE
                if not execution.is_stuck:
                    self._end(execution, Status.CANCELLED, b"")

    @property
    def running_arguments(self) -> list[bytes]:
        return [execution.argument for execution in self._executing.values()]

    @property
    def running_name(self) -> tuple[bytes, int, int] | None:
        """Session, task and attempt of what runs."""
        return next((execution.name[:3] for execution in self._executing.values()), None)

    def die(self) -> None:
        self.alive = False
        self._waiting.clear()
        if self._instance is not None:
            self._instance.die(self._world.now)
        for client in self._clients:
            client.end()

    def _go_on(self) -> None:
        while self.alive and len(self._executing) < self._concurrency and self._waiting:
            if self._world.now > self.board.lease_until:
                self._world.after(LEASE_POLL_SECONDS, self._go_on)
                return
            sequence, run, index, values = self._waiting.popleft()
            if values is not None:
                self._take_values(values)
            elif run is not None and self.board.claim(sequence):
                self._start(sequence, run, index)
        if self.alive and not self._executing and self._untold:
            self._tell()

    def _start(self, sequence: int, run: TaskRun, index: int) -> None:
        first, *others = run.slot_bytes(index) or [b""]
        if not is_sound(run, first, others):  # a scheduler has lied
            self.board.append(sequence, Status.EXCEPTION, b"", 0.0)
            self._untold = True
            return
        argument = bytes(first)  # type: ignore[arg-type]
        inputs = [self._value(key) for key in others]  # type: ignore[arg-type]
        if None in inputs:
            lost = [key for key, value in zip(others, inputs, strict=True) if value is None]
            is_upload = any(key.number >= UPLOAD_NUMBER for key in lost)  # type: ignore[union-attr]
            has_failed = is_upload or not run.options.graph  # a node goes back
            self.board.append(sequence, Status.OBJECT_MISSING if has_failed else Status.CANCELLED, b"lost", 0.0)
            self._untold = True
            return
        name = TaskName(run.session, run.first_task + index, run.attempt, run.options.depth)
        execution = self._begin(sequence, name, argument)
        value = name[:2] if run.options.graph or run.function_name == LARGE else None
        result = result_of(argument, inputs)  # type: ignore[arg-type]
        if run.options.hosts_actor:
            self._make_actor(execution, max(1, run.options.max_concurrency))
            return
        if run.options.actor and self._instance is not None:
            result = self._instance.call(run.session, name.task, argument, result)
        if run.function_name in (PARENT, LOCKER):
            self._use_client(execution, run.function_name, result, value)
            return
        seconds = self._world.between(*DURATIONS_SECONDS[run.function_name])
        self._world.after(seconds, lambda: self._end(execution, Status.SUCCESS, result, value))
        if run.options.memory_bytes:
            self._world.after(seconds / 2, lambda: self._use_memory(execution))

    def _make_actor(self, execution: Execution, concurrency: int) -> None:
        self._constructor = execution.sequence
        self._instance = self._agent.troupe.make(execution.argument, self._world.now)
        status = Status.EXCEPTION if FAILING in execution.argument else Status.SUCCESS

        def end() -> None:
            self._concurrency = concurrency if status == Status.SUCCESS else 1
            self._end(execution, status, b"")

        self._world.after(self._world.between(*DURATIONS_SECONDS[ACTOR]), end)

    def _use_memory(self, execution: Execution) -> None:
        """More than the task that runs may."""
        if self.alive and execution.sequence in self._executing:
            self._agent.on_memory(self)

    def _use_client(self, execution: Execution, function: str, result: bytes, value: tuple[bytes, int] | None) -> None:
        def done(failure: bytes) -> None:
            if failure:
                self._end(execution, Status.EXCEPTION, failure)
            else:
                self._end(execution, Status.SUCCESS, result, value)

        name, argument = execution.name, execution.argument
        if not self._resting:
            self._resting.append(self._agent.nested_client(self._world, self._agent, name))
            self._clients.append(self._resting[-1])
        client = self._resting.pop()
        times = self._executions[argument]
        if function == LOCKER:
            execution.family = client.use_lock(self._agent.keeper, name, argument, times, done)
        else:
            execution.family = client.run(name, argument, times, done)

    def _leave_family(self, execution: Execution) -> None:
        """The task has ended; its client goes on with another one if nothing is left."""
        family, execution.family = execution.family, None
        if family is not None:
            family.leave()
            if family.client.may_stay():
                self._resting.append(family.client)

    def _begin(self, sequence: int, name: TaskName, argument: bytes) -> Execution:
        self._executions[argument] = self._executions.get(argument, 0) + 1
        execution = self._executing[sequence] = Execution(sequence, name, argument, self._world.now)
        if not self.board.unordered:
            self.board.running = sequence
            self.board.started = self._world.now
        return execution

    def _end(self, execution: Execution, status: Status, payload: bytes, name: tuple[bytes, int] | None = None) -> None:
        sequence = execution.sequence
        if not self.alive or self._executing.get(sequence) is not execution:
            return
        self._leave_family(execution)
        if sequence == self._constructor and status != Status.SUCCESS and self._instance is not None:
            self._instance.die(self._world.now)  # there is no actor, and the process goes on with other tasks
            self._instance = None
        if name is not None:
            self._own_values[name] = sequence, payload
            if len(payload) > INLINE_LIMIT_BYTES:
                status = Status.SUCCESS_LARGE
                payload = self._keep_large(self.number, sequence, ObjectKey(*name), payload)
        del self._executing[sequence]
        if status == Status.EXCEPTION and sequence in self.board.to_interrupt:
            status, payload = Status.CANCELLED, b""  # whatever it says instead
        self.board.append(sequence, status, payload, self._world.now - execution.started)
        self.board.running = None
        self._untold = True
        if self._world.now - max(self._told_at, self.board.harvested_at) >= TELL_SECONDS:
            self._tell()
        self._go_on()

    def _tell(self) -> None:
        self._untold = False
        self._told_at = self._world.now
        self._agent.on_news(self)


def is_sound(run: TaskRun, argument: bytes | ObjectKey, others: list[bytes | ObjectKey]) -> bool:
    """Whether simulated clients submit such tasks: a name, then objects."""
    is_known = run.function_name in DURATIONS_SECONDS or run.function_name in (PARENT, LOCKER)
    return is_known and isinstance(argument, bytes) and all(isinstance(each, ObjectKey) for each in others)
