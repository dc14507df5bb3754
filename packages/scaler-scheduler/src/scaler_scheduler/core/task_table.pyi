"""The table of a client's tasks: all that happens to a task (contract of task_table.pyx).

Results, agents that come and go, and cancels. A table is composed of its ``columns`` (``task_columns``), in pages that
are freed when all their tasks have ended, and the ``nodes`` of graphs (``node_table``), which use the columns too. Only
these three change the state of a task, except that ``assignments`` assigns it. ``states`` defines the states and the
transitions.
"""

from collections.abc import Sequence

from scaler_protocol.codec import ResultRun
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.census import Census
from scaler_scheduler.core.node_table import NodeTable
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import Ranges, RunRecord
from scaler_scheduler.core.states import ResultOutcome
from scaler_scheduler.core.task_columns import TaskColumns
from scaler_scheduler.core.totals import Totals

class TaskTable:
    columns: TaskColumns
    nodes: NodeTable
    def __init__(self, session: bytes, totals: Totals) -> None: ...
    def ready(self, first: int, stop: int) -> Ranges: ...
    def requeue(self, task: int) -> RunRecord | None:
        """None: a node of a graph that waits for its inputs, or has lost them."""

    def finish(self, task: int, status: int) -> None: ...
    def died(self, task: int) -> int: ...
    def count_loss(self, task: int) -> int: ...
    def await_inputs(self, task: int) -> None:
        """A task that is being decided waits, for its next attempt, until ``inputs_made``."""

    def awaits_inputs(self, task: int) -> bool:
        """Return whether it is not a node, and waits for lost results to be made again."""

    def inputs_made(self, tasks: Sequence[int]) -> Ranges:
        """Let those of these tasks that await inputs be queued."""

    def accept(self, run: ResultRun, agent: AgentLoad) -> ResultOutcome | None:
        """Take in a run of results. None: all of them count and may be forwarded as they are."""

    def claim(self, tasks: Sequence[int], attempts: Sequence[int], agent: AgentLoad) -> tuple[list[int], list[int]]: ...
    def withdrawn(
        self, tasks: Sequence[int], attempts: Sequence[int], agent: AgentLoad, to_any_agent: bool = False
    ) -> tuple[Ranges, list[int]]: ...
    def deepen(self, task: int, queue: QueueClass) -> RunRecord | None:
        """A queued task belongs to this class, which is deeper, from now on: push it there. Returns its record, which
        it shares with no other task; None: the task is not queued."""

    def actors(self) -> list[int]:
        """Return the numbers of the unfinished tasks that host actors."""

    def short_tasks(self, agent: int, limit_us: float) -> tuple[list[int], list[int]]: ...
    def unfinished_tasks(self, function: str | None = None) -> list[int]: ...
    def set_priority(self, function: str | None, priority: int) -> int:
        """The queued tasks, apart from calls of actors, get this priority; ``function``: only those of functions with
        this name. Their queues are to be built again. Returns how many tasks these are."""
    def lose(self, agent: int, losses_limit: int, status: int) -> tuple[Ranges, list[int], list[int]]:
        """The agent is gone without a goodbye, and its tasks may have started. Returns (ranges queued again, tasks
        ended with ``status``, tasks whose cancel this answers)."""

    def take_back(self, agent: int, losses_limit: int, status: int) -> tuple[Ranges, list[int], list[int]]:
        """The same after a goodbye: the agent has started none of the tasks that it still had, so nothing counts
        against them."""

    def cancel(
        self, tasks: Sequence[int] | None
    ) -> tuple[list[int], dict[int, tuple[list[int], list[int]]], dict[int, list[int]]]: ...
    def release(self, tasks: Sequence[int]) -> list[int]: ...
    def abandon(self, loads: dict[int, AgentLoad]) -> None: ...
    def recount(self, census: Census) -> None:
        """Recount the tasks from their states into ``census``, and compare the counts of this table with that."""

    def undecided(self) -> list[int]:
        """Return the tasks that a message has left DECIDING, because handling it raised an exception."""

    def push_queued(self, client: object) -> None:
        """Put every queued task into its queue. The queues must be empty."""

    def check(self) -> None: ...
