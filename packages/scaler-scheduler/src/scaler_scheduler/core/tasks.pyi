"""Task tables, loads of agents and functions, and run queues: all work that is done once per task.

Contract of tasks.pyx. A :class:`TaskTable` holds one client's tasks in columns, in pages that are freed when all
their tasks have ended; a :class:`QueueClass` holds ranges of queued tasks. States and their rules: see ``states``.
"""

from collections.abc import Sequence
from typing import Any

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_scheduler.core.events import Recorder
from scaler_scheduler.core.graph import Graph

Ranges = list[list[Any]]
"""[record, first task, stop] each."""

class Totals:
    """How many tasks ended with each status, over all tables."""

    events: Recorder
    def outcome(self, status: int) -> int: ...

class FunctionLoad:
    """How long tasks of one function take, and how many there are. ``total_us``: of all executions together."""

    digest: bytes
    name: str
    duration_us: float
    samples: int
    total_us: float
    unfinished: int
    finished: int
    estimate_us: int
    def __init__(self, digest: bytes, name: str) -> None: ...
    def outcome(self, status: int) -> int: ...
    def observe(self, total_us: float, number: int) -> None: ...

class AgentLoad:
    """What an agent has, in counts and in estimated microseconds. ``outstanding`` and ``load_us`` change only with
    its tasks."""

    index: int
    slots: int
    lent: int
    deepest: int
    ceiling: int
    outstanding: int
    load_us: int
    moving_us: int
    """How long what its tasks need would take to move elsewhere, over all of them."""
    resources: dict[str, int]
    deferred: list[tuple[TaskTable, int]]
    """Nodes of graphs that go to this agent when it has room."""
    reserved: dict[QueueClass, list[tuple[float, int, Reservation]]]
    """Tasks that only this agent may take, because it has their bytes; a heap each, by the time when that ends."""
    reserved_count: int
    has_own: bool
    """Something is deferred or reserved."""
    reserved_us: int
    session: bytes
    store: bytes
    is_available: bool
    progress_at: float
    """When a task ended there last."""
    def __init__(self, index: int, slots: int, ceiling: int, resources: dict[str, int] | None = None) -> None: ...
    def has_room(self, depth: int) -> bool: ...
    def queued_us(self) -> int: ...
    def budget_us(self, depth: int) -> int: ...
    def queued(self) -> int: ...
    def waiting_us(self, now: float) -> float: ...
    def end_reservations(self, now: float) -> float: ...
    def key(self, depth: int) -> tuple[bool, float, float]: ...
    def fits(self, demand: tuple[tuple[str, int], ...]) -> int: ...

class Reservation:
    """A queued task that only the agent that has its bytes may take, until ``until``. ``client``: whose it is."""

    until: float
    client: Any
    table: TaskTable
    task: int
    record: RunRecord

class Places:
    """Which agents there are, and where the bytes are that tasks need. ``objects``: those that clients sent, by key;
    ``bytes_per_us``: how fast they move between hosts."""

    by_index: dict[int, AgentLoad]
    by_session: dict[bytes, AgentLoad]
    by_store: dict[bytes, list[AgentLoad]]
    bytes_per_us: float
    def __init__(self, objects: dict[Any, Any], bytes_per_us: float) -> None: ...
    def add(self, agent: AgentLoad) -> None: ...
    def remove(self, agent: AgentLoad) -> None: ...

class RunRecord:
    """A run that a client sent, kept until its last task has ended."""

    run: TaskRun
    first: int
    stop: int
    remaining: int
    function: FunctionLoad
    depth: int
    priority: int
    retries: int
    rerun: bool
    demand: tuple[tuple[str, int], ...]
    queue: QueueClass
    graph: Graph | None
    intermediate: bool
    entered_at: float
    def __init__(self, run: TaskRun, function: FunctionLoad, queue: QueueClass) -> None: ...
    def piece(self, first: int, stop: int, attempt: int) -> TaskRun: ...

class GraphNews:
    """What became of nodes of graphs while something else was handled."""

    ready: Ranges
    cancels: dict[int, tuple[list[int], list[int]]]
    """By agent: tasks and attempts that are to stop there, or whose values are not needed."""
    cascaded: list[int]
    """Those among them that may run: an input of theirs ended without a value."""
    ended: list[int]
    """Ended with CANCELLED, for the client to hear of."""
    died: list[tuple[int, int]]
    """(task, status) of what ended otherwise, for the client to hear of."""
    delivered: list[int]
    """Large results that the client needs no more."""
    wishes: dict[int, list[int]]
    """By agent: ready nodes most of whose inputs it holds."""

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

class QueueClass:
    """Tasks that need the same capabilities and have the same depth: highest priority first, clients in turn, oldest
    first."""

    demand: tuple[tuple[str, int], ...]
    depth: int
    priority: int
    count: int
    heap: list[tuple[tuple[bool, float, float], int, int]]
    candidates: dict[int, int]
    served: dict[int, AgentLoad]
    """Those that can have such tasks, with or without room."""
    def __init__(self, demand: tuple[tuple[str, int], ...], depth: int, places: Places) -> None: ...
    def push(
        self, client: Any, table: TaskTable, priority: int, first: int, stop: int, front: bool = False
    ) -> None: ...
    def take(self, agent: AgentLoad, share: int) -> tuple[list[TaskRun], bool]: ...
    reserving: list[AgentLoad]
    def take_reserving(self) -> list[AgentLoad]: ...
    def waiting(self, limit: int) -> tuple[dict[tuple[Any, FunctionLoad], tuple[int, float, int, RunRecord]], int]:
        """For monitors, by client and function: how many tasks wait here, since when, one of them, its run. At most
        ``limit`` runs are looked at; how many tasks are in others."""

def take_reserved(agent: AgentLoad) -> list[TaskRun]:
    """Assign to an agent what is reserved for it and it has room for."""

def take_deferred(agent: AgentLoad) -> list[TaskRun]:
    """Assign to an agent the deferred nodes that it has room for; the others stay deferred."""
