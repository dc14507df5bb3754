"""Tasks that end in the scheduler, without a result of an agent: their clients are told."""

from __future__ import annotations

from scaler_protocol.messages import Status
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState

LOST_TEXT = "The worker that had this task was lost."
DROPPED_TEXT = (
    "Workers have dropped this task, or were lost with it, while its client was away. Look at what the task has done "
    "before you submit it again."
)
MISSING_TEXT = "The result of another task that this one needs is not there."


def report_failed(
    state: SchedulerState, client: ClientPeer, task: int, status: int, lost_text: str = LOST_TEXT
) -> None:
    """A task ended without a result because its agent or an input was lost. ``lost_text`` says how the agent was
    lost."""
    text = (lost_text if status == Status.WORKER_DIED else MISSING_TEXT).encode()
    client.forget(task)
    client.row(task, status, text)
    if state.events.is_on:
        state.events.failed(client.table.columns.number, task, status, text)
    state.clients_with_results[client.session] = client


def report_cancelled(state: SchedulerState, client: ClientPeer, tasks: list[int]) -> None:
    """These tasks ended because they were cancelled."""
    for task in tasks:
        client.forget(task)
        client.row(task, Status.CANCELLED)
    if tasks:
        state.clients_with_results[client.session] = client
