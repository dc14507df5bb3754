"""Columns of tasks (contract; the code is task_run.pyx)."""

from array import array
from collections.abc import Sequence

from scaler_protocol.messages import ObjectKey, TaskOptions

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
    names_bytes: int
    """The maximum size of its names and options in a message: each part of a run carries them."""

    frame_bytes: int
    """Size of the frames in which its columns and its payload are, and which it keeps in memory."""
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
    def fits(self, size: int) -> bool:
        """Return whether a task of so many bytes may join and the message stays under its limit."""

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
