"""A run that a client sent, kept until its last task has ended (contract of run_records.pyx).

What its tasks have in common, as numbers: tasks find it by their page. Numbers of clients are cut to what fits.
"""

from typing import Any

from scaler_protocol.codec import TaskRun
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.graph import Graph
from scaler_scheduler.core.map_loads import MapLoad
from scaler_scheduler.core.priority_queues import QueueClass

Ranges = list[list[Any]]
"""[record, first task, stop] each."""

class MessageMemory:
    """The memory of one message of tasks: its frames are kept until the last task of all its runs has ended."""

    size_bytes: int
    def __init__(self, size_bytes: int) -> None: ...

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
    """The number of times that the actor of a hosting task may be made again."""
    rerun: bool
    hosts_actor: bool
    is_call: bool
    """True for calls of an actor."""
    slots: int
    """The number of slots of each task: 0 for a call, which runs in the slot of its actor."""
    demand: tuple[tuple[str, int], ...]
    queue: QueueClass
    graph: Graph | None
    intermediate: bool
    map: MapLoad | None
    entered_at: float
    def __init__(self, run: TaskRun, function: FunctionLoad, queue: QueueClass, memory: MessageMemory) -> None: ...
    def join_map(self, load: MapLoad) -> None:
        """The tasks of the run are tasks of a map. That comes before the columns take them in."""

    def piece(self, first: int, stop: int, attempt: int) -> TaskRun: ...
