"""The columns of a client's tasks (contract of task_columns.pyx).

Tasks are looked up, entered and counted here. ``node_table`` and ``task_table``, which hold these columns, decide
what becomes of them. A task has an entry in each column while it is unfinished; the record of its run is kept as long.
"""

from scaler_scheduler.core.fair_shares import Share
from scaler_scheduler.core.map_loads import MapLoad, MapTable
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.task_facts import TaskFacts
from scaler_scheduler.core.totals import Totals

class TaskColumns:
    session: bytes
    share: Share
    finished: int
    """Tasks that have ended."""

    failed: int
    """The finished tasks that neither succeeded nor were cancelled."""

    canceled: int
    unfinished: int
    next_task: int
    """The least number that a new task may have: numbers only increase, so that none is used twice."""
    held_bytes: int
    """Memory that the unfinished tasks take, about."""
    maps: MapTable
    number: int
    """Names the session in event records."""
    def __init__(self, session: bytes, totals: Totals) -> None: ...
    def count(self, state: int) -> int: ...
    def state(self, task: int) -> int: ...
    def describe(self, task: int) -> TaskFacts | None:
        """Return the facts about an unfinished task; None for any other task."""

    def record(self, task: int) -> RunRecord:
        """Return the record of the run that an unfinished task belongs to. Raises KeyError for any other task."""

    def queued_between(self, first: int, stop: int) -> int:
        """Return how many of the tasks first .. stop - 1 are queued."""

    def queues(self) -> dict[QueueClass, None]:
        """Return the queue classes of the unfinished tasks."""

    def count_maps(self, loads: list[MapLoad], room: int) -> tuple[list[tuple[int, int]], int]:
        """Return how many tasks of each map are unfinished and how many of these an agent has, and what is left of
        ``room``: so many tasks are looked at, in about as many nanoseconds. A run that has no room counts by the tasks
        that have not left the columns, among them those with large results, and what is behind it as a whole."""

    def count_calls(self, counted: dict[QueueClass, list[int]], room: int) -> int:
        """Add to ``counted``, by the queue of their actor, how many calls are unfinished and how many of these an agent
        has. Looks at about ``room`` runs and calls, and returns what is left of it."""

    def runs_with_uploads(self, limit: int) -> list[RunRecord]:
        """Unfinished runs whose tasks need objects that a client has sent, at most ``limit``."""

    def tell_all_submitted(self, limit: int, names_limit_bytes: int) -> int:
        """Tell monitors of all runs with unfinished tasks, in order, unless they are more than ``limit``; stop when the
        recorder has written ``names_limit_bytes`` bytes of names. Returns how many runs it told of."""

    def leave(self) -> None:
        """Subtract the unfinished tasks from the totals, because the columns are dropped."""

    def append(self, record: RunRecord, state: int) -> bool:
        """False, and nothing changed: not all of the tasks have new numbers."""
