"""Ranges of queued tasks by client, and clients in turn (contract of client_queues.pyx).

Ranges are not cut when a task in them ends or is given out otherwise: whoever takes from the front skips what is not
QUEUED any more. Compiled code only: see client_queues.pxd.
"""

from scaler_scheduler.core.task_columns import TaskColumns

class ClientQueue:
    """The ranges of one client at one level, oldest first."""

    table: TaskColumns

class Level:
    """All clients that have tasks of one priority, in turn."""

    priority: int
