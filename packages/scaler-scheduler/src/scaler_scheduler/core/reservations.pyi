"""Tasks that are kept for the agent that has their bytes (contract of reservations.pyx).

A reserved task is QUEUED, counts in its class and has left its ranges; its agent's column says whose it is. When its
time is over, or its agent cannot take it, it is put back before the others of its class, and any agent with room takes
it.
"""

from typing import Any

from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.task_table import TaskTable

class Reservation:
    """A queued task that only the agent that has its bytes may take, until ``until``. ``client``: whose it is.
    ``raised``: the steps of priority that its client was raised when it was reserved."""

    until: float
    client: Any
    table: TaskTable
    task: int
    raised: int
    record: RunRecord

def end_reservations(agent: AgentLoad, now: float) -> float:
    """Let the reservations that have waited until ``now`` wait among the others again. The time when the next one will
    have."""
