"""The tasks that wait in a queue, for monitors (contract of waiting_tasks.pyx)."""

from typing import Any

from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import RunRecord

def waiting_tasks(
    queue: QueueClass, limit: int, reserved: int
) -> tuple[dict[tuple[Any, FunctionLoad], tuple[int, float, int, RunRecord]], int]:
    """Return, by client and function, how many tasks wait, since when, one of them, and its run; and how many tasks
    were not looked at. At most ``limit`` runs are looked at. ``reserved`` is the number of tasks that count in the
    queue but are reserved for one agent."""
