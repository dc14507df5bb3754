"""Columns and the hand-written Cap'n Proto codec of the hot messages (contract; the code is codec.pyx)."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scaler_protocol.messages import Envelope, ObjectKey, TaskOptions

TASKS_LIMIT: int
"""No message has more tasks: a task without arguments costs no bytes."""

HARD_LIMIT_BYTES: int
"""``encode`` refuses more. Messages are planned for MESSAGE_LIMIT_BYTES (``split``, ``fits``); the rest is room for
functions that ride along, and for a relayed message inside another."""

class MalformedMessage(ValueError): ...

class TaskRun:
    """Tasks ``first_task .. first_task + count - 1`` of one session that share function, keyword names and options.

    A task has ``arity`` slots: its positional arguments, then one per keyword name. ``slot(i, j)`` is the serialized
    argument, or an ObjectKey when it travels by reference. Immutable; ``slice`` shares the payload buffer.
    """

    session: bytes
    function: bytes  # digest
    function_name: str
    serializer: bytes  # digest, empty: default
    first_task: int
    count: int
    attempt: int
    arity: int
    keywords: tuple[str, ...]
    options: TaskOptions
    payload_bytes: int
    has_references: bool
    def __init__(
        self,
        session: bytes,
        function: bytes,
        function_name: str,
        serializer: bytes,
        first_task: int,
        attempt: int,
        keywords: tuple[str, ...],
        options: TaskOptions,
        tasks: Sequence[Sequence[bytes | ObjectKey]],
    ) -> None: ...
    def slot(self, task_index: int, slot_index: int) -> memoryview | ObjectKey: ...
    def slots(self, task_index: int) -> list[memoryview | ObjectKey]: ...
    def slot_bytes(self, task_index: int) -> list[bytes | ObjectKey]:
        """Like ``slots``, with bytes of their own instead of views."""
    def references(self) -> list[ObjectKey]: ...
    def uploads(self) -> list[ObjectKey]:
        """The references that name no task of the session."""
    def inputs(self) -> memoryview:
        """Graph nodes: pairs (task, task of this session whose result it needs), flat, in the order of slots, format
        Q."""
    def slice(self, start: int, stop: int) -> TaskRun: ...
    def with_attempt(self, attempt: int) -> TaskRun: ...
    def with_options(self, options: TaskOptions) -> TaskRun: ...
    def __eq__(self, other: object) -> bool: ...

class TaskRunBuilder:
    """Collects tasks one by one into a run; ``append`` is the submit path and costs about 0.1 us. ``fits`` says whether
    a task of so many bytes may join (same shape is the caller's to check; the message limit is this class's)."""

    first_task: int  # may be set until build
    count: int
    payload_bytes: int
    def __init__(
        self,
        session: bytes,
        function: bytes,
        function_name: str,
        serializer: bytes,
        first_task: int,
        arity: int,
        keywords: tuple[str, ...],
        options: TaskOptions,
    ) -> None: ...
    def append(self, slots: Sequence[bytes | ObjectKey]) -> None: ...
    def append_one(self, slot: bytes) -> None: ...
    def append_all(self, slots: list[bytes]) -> None:
        """One task of one slot for each."""
    def append_nodes(
        self,
        calls: array[int],
        ends: array[int],
        slots: array[int],
        tasks: array[int],
        data: list[bytes | ObjectKey],
        limit_bytes: int,
    ) -> int:
        """Nodes of a graph that is given as columns of 64 bits: one task for each of ``calls``. The slots of call c are
        ``slots[ends[c - 1]:ends[c]]``; one that is not negative is the result of that call, with the id
        ``tasks[slot]``; any other is ``data[~slot]``. Stops when the payload has ``limit_bytes``. Returns how many
        joined."""
    def build(self) -> TaskRun: ...

class ResultRun:
    """Results of tasks of one session, in the order they ended. Columns are packed little-endian."""

    session: bytes
    count: int
    payload_bytes: int
    def __init__(self, session: bytes, rows: Iterable[tuple[int, int, int, bytes, int, int, int]]) -> None:
        """rows: task, attempt, status, payload, duration and cpu time in microseconds, memory peak in bytes"""
    def task(self, index: int) -> int: ...
    def attempt(self, index: int) -> int: ...
    def status(self, index: int) -> int: ...
    def payload(self, index: int) -> memoryview: ...
    def payload_copy(self, index: int) -> bytes: ...
    def duration_us(self, index: int) -> int: ...
    def cpu_time_us(self, index: int) -> int: ...
    def memory_peak(self, index: int) -> int: ...
    def rows(self) -> Iterator[tuple[int, int, int, memoryview, int, int, int]]: ...
    def copied_rows(self) -> Iterator[tuple[int, int, bytes, int, int, int]]:
        """As rows, without the attempt, and each payload as bytes of its own."""
    @property
    def all_succeeded(self) -> bool: ...
    def mark(self, first_task: int, states: bytearray) -> int:
        """Set ``states[task - first_task]`` to 1 for each result, if all of them succeeded and each was 0. Returns the
        number of results; 0: some task is not among these, had ended before or did not succeed, and nothing was set."""
    def load_into(self, results: list[Any], shift: int, loads: Callable[[bytes], Any]) -> None:
        """``results[task - shift] = loads(payload)`` for each result."""
    @property
    def task_column(self) -> memoryview:
        """All tasks, format Q. Like the other columns it shares the run's memory."""
    @property
    def attempt_column(self) -> memoryview:
        """Format I."""
    @property
    def status_column(self) -> memoryview:
        """Format B."""
    @property
    def duration_column(self) -> memoryview:
        """Microseconds, format Q."""
    def slice(self, start: int, stop: int) -> ResultRun: ...
    def select(self, indices: Sequence[int]) -> ResultRun: ...
    def __eq__(self, other: object) -> bool: ...

class ResultRunBuilder:
    count: int
    payload_bytes: int
    def __init__(self, session: bytes) -> None: ...
    def append(  # the payload may be any contiguous buffer
        self, task: int, attempt: int, status: int, payload: bytes, duration_us: int, cpu_time_us: int, memory_peak: int
    ) -> None: ...
    def build(self) -> ResultRun: ...

def encode(envelope: Envelope) -> list[bytes]:
    """The message's frames: a Cap'n Proto message, then payload frames. Raises ValueError over the message limit."""

def decode(frames: Sequence[bytes]) -> Envelope:
    """Raises MalformedMessage, whatever the bytes are. Runs keep the payload frame alive and copy nothing."""

def split(runs: Iterable[TaskRun], limit_bytes: int = ...) -> Iterator[list[TaskRun]]:
    """Groups (and slices where one run is too large) so that each group is one message under the limit."""

def split_results(runs: Iterable[ResultRun], limit_bytes: int = ...) -> Iterator[list[ResultRun]]: ...
