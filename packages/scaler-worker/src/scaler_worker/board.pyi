"""The memory that an agent shares with one of its processes (contract; the code and its rules are in board.pyx)."""

from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_worker.core.process_output import ProcessOutput

DISPATCHED: int
STARTED_CELL: int
WITHDRAWN: int
WINDOW: int
BOARD_BYTES: int

class DispatchedRun:
    """A run dispatched to a worker process: its tasks have the sequences ``first_sequence`` and following."""

    run: TaskRun
    session: bytes
    first_sequence: int
    count: int
    first_task: int
    attempt: int
    is_node: bool
    is_intermediate: bool
    unfinished: int
    def __init__(self, run: TaskRun, first_sequence: int) -> None: ...
    @property
    def end_sequence(self) -> int: ...

class Harvest:
    """The results of a worker process since the last harvest."""

    runs: list[ResultRun]
    totals: list[tuple[DispatchedRun, int, float]]  # tasks finished, seconds they took
    interrupted: list[tuple[DispatchedRun, int, int]]  # sequence, duration in microseconds; not among the runs
    large: list[tuple[DispatchedRun, int]]  # sequence; the bytes travel outside the board
    kept: list[tuple[TaskRun, int, int, bytes]]  # nodes of graphs: task, status, payload
    has_more: bool  # something about these tasks was sent outside the board

class Board:
    def __init__(self, memory: Any) -> None:
        """``memory``: a writable buffer of BOARD_BYTES, zero when new."""

    def room(self) -> int: ...
    def dispatch(self, first_sequence: int, count: int) -> None: ...
    def withdraw(self, sequence: int) -> bool: ...
    def withdraw_newest(self, first_sequence: int, end_sequence: int, limit: int) -> list[int]: ...
    def is_open(self, sequence: int) -> bool: ...
    @property
    def broken(self) -> str | None:
        """The impossible value that the worker process wrote, or None. After that nothing is read, and there is no
        room."""

    unordered: bool
    """The tasks that the process runs now may end in any order: they are calls of an actor."""

    def cell(self, sequence: int) -> int: ...
    def is_started(self, sequence: int) -> bool: ...
    @property
    def running(self) -> int | None: ...
    @property
    def started(self) -> float: ...
    @property
    def position(self) -> int: ...
    @property
    def harvested(self) -> int: ...
    output: ProcessOutput | None
    """Is told of each task that has printed, while its result is harvested."""

    def begin_read(self, stream: int) -> None:
        """The agent is about to read from this stream (1 or 2) of the worker process."""

    def end_read(self, stream: int, count: int) -> None: ...
    def read_bytes(self, stream: int) -> int: ...
    def output_mark(self, stream: int) -> int: ...
    def interrupt(self, sequence: int) -> None: ...
    def set_lease(self, until: float) -> None: ...
    def has_results(self) -> bool: ...
    def has_left_out_tasks(self) -> bool:
        """Return whether the process has gone past tasks that it had neither run nor lost to the agent: the board is
        broken then. For a board without results that were not harvested."""

    def harvest(self, dispatched: list[DispatchedRun], now: float, worker: int | None = None) -> Harvest:
        """Take the results. With ``worker``, each result run names that worker and states how long before ``now`` each
        task ended."""

    def interrupted(self) -> bool: ...
    def used_bytes(self) -> int: ...
