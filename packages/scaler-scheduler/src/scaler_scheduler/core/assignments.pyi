"""The tasks that one agent is assigned in one turn (contract of assignments.pyx).

Each of the three functions assigns tasks to an agent until it is full, and returns task runs that are ready to be sent.
Nodes of a graph that wait only for tasks of this agent are assigned with them. A task that needs many bytes is assigned
to this agent or reserved for a better one.
"""

from scaler_protocol.codec import TaskRun
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.data_locations import DataLocations
from scaler_scheduler.core.priority_queues import QueueClass

def assign_queued(
    source: QueueClass,
    agent: AgentLoad,
    locations: DataLocations,
    share: int,
    now: float = 0.0,
    aging_seconds: float = 0.0,
    one_turn: bool = False,
    starts_only: bool = False,
) -> tuple[list[TaskRun], bool]:
    """Assign tasks of a class to an agent until it is full, or has ``share`` of them that last a while; or only for one
    turn of one client. ``starts_only``: only as many as it has free slots, and nothing is prefetched. The second value
    says whether the agent may be assigned more. A client that has waited for ``aging_seconds`` ranks a step of priority
    higher; 0: never."""

def assign_calls(source: QueueClass, agent: AgentLoad, locations: DataLocations) -> list[TaskRun]:
    """Assign all calls of an actor to the agent that has it, those of each client in order."""

def assign_reserved(agent: AgentLoad, locations: DataLocations) -> list[TaskRun]:
    """Assign to an agent the tasks that are reserved for it and for which it has room."""

def assign_deferred(agent: AgentLoad, locations: DataLocations) -> list[TaskRun]:
    """Assign to an agent the deferred nodes for which it has room; the others stay deferred."""
