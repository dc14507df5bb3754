"""Cancels of tasks that the scheduler does not know, because it has been restarted since.

A client states again what it cancelled and an earlier scheduler did not acknowledge. An agent may still have such a
task, queued or running, and may say so before or after: it is told to cancel it at once, and does not wait until the
time is over in which the client could have claimed the task.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import TaskColumn
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.limits import STATED_CANCELS_LIMIT
from scaler_scheduler.core.state import SchedulerState


def on_cancel(state: SchedulerState, client: Client, tasks: Sequence[int], now: float) -> None:
    """A client that may still be stating what it has cancels these."""
    if now >= client.states_until:
        return
    stated = client.stated_cancels
    for task in tasks[: STATED_CANCELS_LIMIT - len(stated)]:
        stated[task] = True
    for agent, held, attempts in state.unclaimed.take_holds_of(client.session, stated):
        agent.cancel(client.session, held, attempts)


def without_cancelled(client: Client, agent: Agent, column: TaskColumn, attempts: Sequence[int]) -> TaskColumn:
    """What an agent says it holds, without what the client has cancelled: it is told."""
    stated = client.stated_cancels
    pairs = list(zip(column.tasks, attempts, strict=True))
    cancelled = [pair for pair in pairs if pair[0] in stated]
    if not cancelled:
        return TaskColumn(column.session, column.tasks, tuple(attempts))
    agent.cancel(column.session, [task for task, _ in cancelled], [attempt for _, attempt in cancelled])
    left = [pair for pair in pairs if pair[0] not in stated]
    return TaskColumn(column.session, tuple(task for task, _ in left), tuple(attempt for _, attempt in left))


def forget(client: Client, now: float) -> None:
    """Agents have said by now what they hold."""
    if client.stated_cancels and now >= client.states_until:
        client.stated_cancels = {}
