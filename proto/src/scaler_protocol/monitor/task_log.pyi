"""The tasks that have ended, the newest ones (contract; the code is task_log.pyx)."""

from collections.abc import Sequence

from scaler_protocol.monitor.records import EndedColumns

PAGE_ROWS: int
NO_WORKER: int
"""The worker of a task whose worker was not reported."""

NOT_ENDED: int
"""The value in ``TaskLog.endings`` of a task that has not ended, or is no longer held."""

LogRow = tuple[int, int, int, int, int, int, int, int]
"""task, ended_us, duration_us, session, function, worker, attempt, status. Times are microseconds, ``ended_us`` unix
time; session, function and worker are the model's indices."""

class TaskPage:
    """Up to ``PAGE_ROWS`` tasks as columns. A page never moves: its columns may be kept while it is still filled."""

    count: int
    earliest_start_us: int
    latest_end_us: int
    def column(self, name: str) -> memoryview:
        """Return a column without copying it: ``task``, ``ended_us``, ``duration_us``, ``session``, ``function``,
        ``worker``, ``attempt`` or ``status``."""

class TaskLog:
    """A log of at most ``capacity`` tasks, and up to a page more; older ones leave page by page. Each task that ever
    came has a serial number, from 0; ``first`` is that of the oldest one held, ``total`` counts all that came."""

    capacity: int
    total: int
    ended: int
    """The part of ``total`` that ended its task. The others are executions whose task was queued again."""

    first: int
    def __init__(self, capacity: int = 1_000_000) -> None: ...
    def __len__(self) -> int: ...
    def append(
        self,
        task: int,
        ended_us: int,
        duration_us: int,
        session: int,
        function: int,
        worker: int,
        attempt: int = 1,
        status: int = 0,
    ) -> None: ...
    def extend(
        self, session: int, function: int, worker: int, time_us: int, columns: EndedColumns, indices: Sequence[int]
    ) -> None:
        """The rows of an ENDED record. ``function`` and ``worker`` are for rows whose column says none; ``indices``, an
        array of type I, are the model's indices of the agent's workers."""
    def extend_stretch(
        self,
        session: int,
        function: int,
        worker: int,
        time_us: int,
        first: int,
        attempt: int,
        status: int,
        count: int,
        short: bool,
        columns: memoryview,
    ) -> None:
        """Tasks of a RAN record: durations and ages as they are in its body. ValueError when these are cut off."""
    def extend_steps(
        self,
        session: int,
        function: int,
        worker: int,
        time_us: int,
        first: int,
        attempt: int,
        status: int,
        count: int,
        steps: memoryview,
    ) -> None:
        """Tasks of a STEPPED record, with its body. ValueError when that is cut off or cannot be."""
    def place_parts(
        self, session: int, rows: list[tuple[int, int, int, int, int]]
    ) -> list[tuple[int, int, int, int, int]]:
        """Note the parts of executions that have just come: task, attempt, and microseconds of fetching, loading and
        storing, in the order of the executions. Returns the rows whose execution is here and took at least that
        long."""
    def running_us(self, serial: int) -> int:
        """The part of the duration of a row that is held in which its task was running."""
    def endings(self, session: int, first_task: int, count: int) -> bytearray:
        """The status of each of these tasks, or NOT_ENDED."""
    def pages(self) -> list[TaskPage]:
        """Oldest first."""
    def row(self, serial: int) -> LogRow | None:
        """None when that task is no longer held."""
    def query(
        self,
        sessions: Sequence[int] | None = None,
        functions: Sequence[int] | None = None,
        workers: Sequence[int] | None = None,
        statuses: Sequence[int] | None = None,
        task: int | None = None,
        any_of: bool = False,
        sort: str = "ended_us",
        ranks: Sequence[int] | None = None,
        first_ranked: int = 0,
        descending: bool = True,
        offset: int = 0,
        limit: int = 100,
        numbered: TaskNumbers | None = None,
        sort_numbers: TaskNumbers | None = None,
    ) -> tuple[list[int], int]:
        """Serial numbers of the rows ``offset`` to ``offset + limit`` among those that match every condition given
        (``any_of``: at least one), and how many match. ``sort`` names a column or is ``running_us``;
        ``ended_us`` means the order in which
        they came. ``ranks``, an array of type q, says what to sort by in place of the column's values, which are its
        indices from ``first_ranked`` on; those that it does not have come before all others. ``numbered``: the
        tasks that have a number there. ``sort`` ``number`` sorts by the numbers in ``sort_numbers``."""
    def clear(self) -> None: ...

class TaskNumbers:
    """A number for each of some tasks."""

    def add(self, session: int, firsts: Sequence[int], stops: Sequence[int], numbers: Sequence[int]) -> None:
        """The tasks of each range of a session, from ``firsts`` to before ``stops``, have the number in ``numbers``.
        Arrays of types Q, Q and q, in ascending order."""

def extent(workers: memoryview) -> tuple[int, bool]:
    """The highest number in a column of workers (u16; -1: it names none), and whether some are unknown."""
