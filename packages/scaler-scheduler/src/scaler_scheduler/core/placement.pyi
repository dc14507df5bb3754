"""Chooses the agent that is assigned a task (contract of placement.pyx).

Tasks that need the same capabilities at the same depth share a queue class. Each class keeps a heap of the agents
that have room: agents with a free slot first, then the least loaded. An entry is stale when its agent has changed
since; a full agent has no entry. So a turn costs nothing for an agent that it does not touch.

Workers with **scarce** capabilities are kept for the tasks that need them. A class is scarcer than another one if at
most half as many workers can run its tasks: it is served first, whatever priorities and shares say, because workers
remain for the other one. While it waits, tasks of the other class may start on free workers with its capabilities, but
nothing more of them is sent there. Among agents with a free slot, a task prefers those whose capabilities that it does
not need are common.

A task that needs large objects, and whose turn comes at an agent that lacks some of them, is reserved for another agent
if it would start earlier there in spite of what that agent has to do (``Assignment.better``). The reservation lasts at
most as long as moving the bytes would take; after that the first agent with room takes the task. So a task never waits
much longer than it would have if the best agent had been known.
"""

from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.data_locations import DataLocations
from scaler_scheduler.core.known_agents import KnownAgents
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.task_table import TaskTable

Demand = tuple[tuple[str, int], ...]

class Placement:
    """All queue classes, and the agents that serve them. ``next_at``: when the next reservation ends."""

    locations: DataLocations
    next_at: float | None
    classes: dict[tuple[Demand, int, KnownAgents | None], QueueClass]
    agents: dict[int, Agent]
    serving: Agent | None
    """The agent that was given something last: should that raise, it is the one that may have lost tasks."""

    def __init__(self, locations: DataLocations, aging_seconds: float = 0.0) -> None: ...
    @property
    def queued(self) -> int:
        """The number of tasks in the queues."""

    @property
    def free(self) -> int:
        """The number of queued tasks that are not reserved for an agent; approximate."""

    def is_scarce(self, queue: QueueClass) -> bool:
        """Return whether at most half of all workers can run the tasks of a class."""

    def queue_class(
        self, demand: Demand, depth: int, owner: KnownAgents | None = None, admitted: dict[bytes, None] | None = None
    ) -> QueueClass:
        """Return the queue class of such tasks. It is made when first needed. ``owner``: of the client whose
        tasks it has, which only the agents whose sessions are ``admitted`` get; None: tasks of any client."""

    def forget_owner(self, owner: KnownAgents) -> None:
        """Forget the classes of a client that has no tasks any more."""

    def add(self, agent: Agent) -> None: ...
    def remove(self, agent: Agent) -> None: ...
    def join_store(self, agent: Agent, store: bytes) -> None:
        """The agent's host has another store."""

    def offer(self, agent: Agent) -> None:
        """The agent's load, or whether it may be used, has changed. The next allocation considers it."""

    def move_share(self, table: TaskTable) -> None:
        """Note that the client of a table belongs to another share."""

    def keep_classes(self, needed: dict[QueueClass, None]) -> None:
        """Forget the empty classes that are not ``needed``: no task will enter them again."""

    def rebuild(self, tables: list[tuple[ClientPeer, TaskTable]]) -> None:
        """Queue the queued tasks of these tables again: an entry may have been lost on its way."""
