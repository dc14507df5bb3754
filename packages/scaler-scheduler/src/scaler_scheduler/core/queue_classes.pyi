"""The run queue (contract of queue_classes.pyx).

A :class:`QueueClass` holds ranges of queued tasks: a level for each priority, the highest first, and in it the clients
in turn (``client_queues``). ``count`` is the number of tasks of the class that are QUEUED, reserved ones included; it
goes down where their state changes. What agents are given: ``takings``; which agent is asked first: ``allocator``.
"""

from typing import Any

from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.places import Places
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.task_columns import TaskColumns

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
        self, client: Any, table: TaskColumns, priority: int, first: int, stop: int, front: bool = False
    ) -> None: ...
    def empty(self) -> None:
        """Forget what is queued."""

    reserving: list[AgentLoad]
    def take_reserving(self) -> list[AgentLoad]: ...
    def waiting(
        self, limit: int, reserved: int
    ) -> tuple[dict[tuple[Any, FunctionLoad], tuple[int, float, int, RunRecord]], int]:
        """For monitors, by client and function: how many tasks wait here, since when, one of them, its run. At most
        ``limit`` runs are looked at; how many tasks are in others. ``reserved``: tasks that are counted here and wait
        for a certain agent."""
