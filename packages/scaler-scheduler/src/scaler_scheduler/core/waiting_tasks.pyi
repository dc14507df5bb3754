"""The tasks that wait, for monitors (contract of waiting_tasks.pyx)."""

from typing import Any

from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.task_columns import TaskColumns

Waiting = tuple[int, float, int, RunRecord, int, int]
"""The number of tasks that wait, since when, the one that has waited for longest, its run, and the lowest and the
highest priority of all."""

def waiting_tasks(queue: QueueClass, limit: int, reserved: int) -> tuple[dict[tuple[Any, FunctionLoad], Waiting], int]:
    """Return, by client and function, what waits, and how many tasks were not looked at. At most ``limit`` runs are
    looked at. ``reserved`` is the number of tasks that count in the queue but are reserved for one agent."""

def tasks_outside_queues(
    columns: TaskColumns, limit: int
) -> tuple[dict[tuple[int, FunctionLoad], Waiting], dict[int, int], int]:
    """Return, by state and function, what is PENDING, HELD or WAITING; by state, how many tasks were not looked at; and
    what is left of ``limit``: so many runs of few tasks are looked at."""
