"""The table of a client's tasks: all that happens to a task (contract of task_table.pyx).

A :class:`TaskTable` holds one client's tasks in columns, in pages that are freed when all their tasks have ended, and
is the only one that changes their states, but for handing out (``takings``). States and their legal transitions: see
``states``. Nodes of graphs have counters in ``graph``, which are kept here, too.
"""

from collections.abc import Sequence
from typing import Any

from scaler_protocol.codec import ResultRun
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.graph import Graph
from scaler_scheduler.core.graph_news import GraphNews
from scaler_scheduler.core.queue_classes import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.totals import Totals

Ranges = list[list[Any]]
"""[record, first task, stop] each."""

class TaskTable:
    session: bytes
    graphs: dict[int, Graph]
    prefers_holders: bool
    finished: int
    unfinished: int
    number: int
    """Names the session in event records."""
    def __init__(self, session: bytes, totals: Totals) -> None: ...
    def count(self, state: int) -> int: ...
    def state(self, task: int) -> int: ...
    def describe(self, task: int) -> tuple[int, int, int, int, int, RunRecord] | None:
        """(state, attempt, agent, deaths, losses, record) of an unfinished task."""

    def count_nodes(self, graph: Graph) -> tuple[int, int, int, int, int, int]:
        """Of a graph: how many nodes, and how many wait for inputs, are ready, run, are done, failed."""

    def record(self, task: int) -> RunRecord:
        """Of an unfinished task."""

    def append(self, record: RunRecord, state: int) -> bool: ...
    def append_graph(self, record: RunRecord, state: int) -> list[int] | None:
        """As append, for nodes of a graph; the tasks among them whose inputs cannot be had. None: not entered."""

    def break_off(self, tasks: Sequence[int], status: int) -> None: ...
    def take_news(self) -> GraphNews | None: ...
    def end_holds(self) -> None:
        """Nodes stated again after a restart may run, as far as their values are needed and nowhere."""

    def settle(self, graph: Graph, release: bool) -> None: ...
    def value_holder(self, task: int) -> int | None: ...
    def note_copy(self, task: int, agent: int) -> None: ...
    def copies_of(self, task: int) -> tuple[int, ...]: ...
    def lose_value(self, task: int, agent: int, losses_limit: int) -> str | None: ...
    def ready(self, first: int, stop: int) -> Ranges: ...
    def requeue(self, task: int) -> RunRecord | None:
        """None: a node of a graph that waits for its inputs, or has lost them."""

    def finish(self, task: int, status: int) -> None: ...
    def died(self, task: int) -> int: ...
    def accept(
        self, run: ResultRun, agent: AgentLoad
    ) -> tuple[list[int] | None, list[tuple[int, int, str]], list[int]] | None:
        """None: all count, forward as they are. Else (indices to forward, None for all; rows to decide; rows
        unknown)."""

    def claim(self, tasks: Sequence[int], attempts: Sequence[int], agent: AgentLoad) -> tuple[list[int], list[int]]: ...
    def withdrawn(
        self, tasks: Sequence[int], attempts: Sequence[int], agent: AgentLoad, was_asked: bool = False
    ) -> tuple[Ranges, list[int]]: ...
    def short_tasks(self, agent: int, limit_us: float) -> tuple[list[int], list[int]]: ...
    def lose(
        self, agent: int, blameless: bool, losses_limit: int, status: int
    ) -> tuple[Ranges, list[int], list[int]]: ...
    def cancel(
        self, tasks: Sequence[int] | None
    ) -> tuple[list[int], dict[int, tuple[list[int], list[int]]], dict[int, list[int]]]: ...
    def release(self, tasks: Sequence[int]) -> list[int]: ...
    def abandon(self, loads: dict[int, AgentLoad]) -> None: ...
    def check(self) -> None: ...
    def queued_by_class(self) -> dict[QueueClass, int]: ...
    def assigned_by_agent(self) -> dict[int, int]: ...
