"""Cancels of tasks that the scheduler does not know because it has been restarted.

A client states its cancels again when the earlier scheduler had not acknowledged them. An agent may still have such a
task, queued or running, and may report it before or after the cancel. The agent is told to cancel the task at once,
without waiting until the client could no longer claim it.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import TaskColumn
from scaler_scheduler.core import absent_clients
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import STATED_CANCELS_LIMIT
from scaler_scheduler.core.state import SchedulerState


def on_cancel(state: SchedulerState, client: ClientPeer, tasks: Sequence[int], now: float) -> None:
    """A client that may still be stating what it has cancels these tasks."""
    client.states(now)
    if now >= client.states_until:
        return
    stated = client.stated_cancels
    for task in tasks[: STATED_CANCELS_LIMIT - len(stated)]:
        stated[task] = True
    for agent, held, attempts in state.unclaimed.take_holds_of(client.session, stated):
        agent.cancel(client.session, held, attempts)
        absent_clients.count_load(state, agent)
        state.placement.offer(agent)


def without_cancelled(client: ClientPeer, agent: Agent, column: TaskColumn, attempts: Sequence[int]) -> TaskColumn:
    """The tasks that an agent reports, without those that the client has cancelled: the agent is told to stop these."""
    stated = client.stated_cancels
    pairs = list(zip(column.tasks, attempts, strict=True))
    cancelled = [pair for pair in pairs if pair[0] in stated]
    if not cancelled:
        return TaskColumn(column.session, column.tasks, tuple(attempts))
    agent.cancel(column.session, [task for task, _ in cancelled], [attempt for _, attempt in cancelled])
    left = [pair for pair in pairs if pair[0] not in stated]
    return TaskColumn(column.session, tuple(task for task, _ in left), tuple(attempt for _, attempt in left))


def forget(client: ClientPeer, now: float) -> None:
    """Forget the cancels: agents have had the time to report what they have."""
    if client.stated_cancels and now >= client.states_until:
        client.stated_cancels = {}
