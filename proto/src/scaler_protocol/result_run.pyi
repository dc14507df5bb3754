"""Columns of results (contract; the code is result_run.pyx)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

class ResultRun:
    """Results of tasks of one session, in the order they ended. Columns are packed little-endian."""

    session: bytes
    count: int
    payload_bytes: int
    worker: int
    """The worker of its agent that made the results, counted from 0; 65535: unknown."""
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
        """Like rows, without the attempt, and each payload as bytes of its own."""
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
    @property
    def cpu_time_column(self) -> memoryview:
        """Microseconds, format Q."""
    @property
    def age_column(self) -> memoryview | None:
        """Microseconds from the end of each execution until the run was made, format I, a copy. None: unknown."""
    def set_place(self, worker: int, ages: bytes) -> None:
        """Say which worker made the results, and how long ago. Not part of a run's equality."""
    parts: bytes | None
    """The parts of some durations besides running: for each, in ascending order, four u32: its row, and microseconds of
    fetching and loading arguments and of storing the result."""

    def set_parts(self, parts: bytes) -> None: ...
    def forget_parts(self) -> None: ...
    def forget_place(self) -> None: ...
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
