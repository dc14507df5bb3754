"""The queues of tasks that no agent has yet (contract of priority_queues.pyx).

A :class:`QueueClass` holds ranges of queued tasks: by priority, the highest first, and within one priority by client.
Next is the client whose share has the least virtual time (see ``fair_shares``); clients of one share take turns.
When the operator has set a period of aging, a client that waits for this long ranks one step of priority higher, and
keeps that rank until nothing of it is queued at that priority.

A range is not cut when one of its tasks ends or is assigned in another way: the reader of a range skips the tasks that
are not QUEUED any more. ``count`` is the number of tasks of the class that are QUEUED, reserved ones included; it is
decreased where their state changes. ``assignments`` decides what an agent is given, and ``placement`` which agent is
asked first.
"""

from typing import Any

class QueueClass:
    """Tasks that need the same capabilities and have the same depth: highest priority first, then by the shares of
    their clients, then oldest first."""

    demand: tuple[tuple[str, int], ...]
    depth: int
    priority: int
    count: int
    heap: list[tuple[tuple[bool, int, float, float], int, int, int]]
    workers: int
    """The worker processes of all agents that can have such tasks."""
    candidates: dict[int, int]
    served: dict[int, Any]
    """The loads of the agents that can have such tasks, with or without room, by the agent's index."""
    reserving: list[Any]
    """The loads of the agents for which something was reserved."""
    admitted: dict[bytes, None] | None
    """The sessions of the agents that may be given its tasks; None: those of all agents."""

    def __init__(
        self, demand: tuple[tuple[str, int], ...], depth: int, admitted: dict[bytes, None] | None = None
    ) -> None: ...
    def push_front(self, client: Any, table: Any, priority: int, first: int, stop: int) -> None:
        """Like ``push``, before all other tasks of the client of this priority."""

    def push(self, client: Any, table: Any, priority: int, first: int, stop: int) -> None:
        """Queue the tasks first .. stop - 1 of a client's table, which have just become QUEUED."""

    def ahead_of(self, table: Any, task: int) -> tuple[int, list[Any]]:
        """Return how many tasks of a client's table, and which other clients, are served before a task if nothing
        changes."""

    def count_ranges(self, table: Any) -> int:
        """Return how many clients and ranges ``ahead_of`` looks at, at most."""

    def move_share(self, table: Any) -> None:
        """Note that the client of a table belongs to another share."""

    def take_ranges(self) -> list[tuple[Any, int, int]]:
        """Remove everything that is queued. Returns (client, first, stop) of ranges, in which some tasks may not be
        queued any more."""

    def empty(self) -> None:
        """Empty the queue."""

    def take_reserving(self) -> list[Any]:
        """Return the agents' loads for which something was reserved since the last call."""
