"""Cancels of tasks that have not started.

The scheduler knows which tasks no agent has, and the agent of a task knows whether it has started. So tasks without an
agent end here, and the agents of the others are asked. An agent reports what it has cancelled as results, and names the
other tasks: they continue. The state of a task does not change while its agent is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import UNSTARTED_ONLY_SINCE_MINOR, Cancel, CancelRefused, TaskColumn
from scaler_scheduler.core import cancellation, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import STATED_CANCELS_LIMIT
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState

_WITHOUT_AGENT = (TaskState.WAITING, TaskState.QUEUED, TaskState.PENDING)


def on_cancel(state: SchedulerState, client: ClientPeer, tasks: Sequence[int], now: float) -> None:
    """A client cancels those of these tasks that have not started. Nodes of graphs count as started, and so do tasks
    that an agent may have from before a restart of the scheduler."""
    without_agent: list[int] = []
    refused: list[int] = []
    asked: dict[int, tuple[list[int], list[int]]] = {}
    for task in tasks:
        known = client.table.columns.describe(task)
        if known is None or known.record.graph is not None:
            refused.append(task)
        elif known.state in _WITHOUT_AGENT:
            without_agent.append(task)
        elif known.state == TaskState.ASSIGNED and _understands(state.agent_by_index[known.agent_index]):
            numbers, attempts = asked.setdefault(known.agent_index, ([], []))
            numbers.append(task)
            attempts.append(known.attempt)
            _note(state, client, task, now)
        else:
            refused.append(task)
    cancellation.cancel(state, client, without_agent, now)
    for index, (numbers, attempts) in asked.items():
        column = TaskColumn(client.session, tuple(numbers), tuple(attempts))
        outbox.send(state, state.agent_by_index[index], Cancel((column,), unstarted_only=True), now)
    _refuse(state, client, refused, False, now)


def on_refused(state: SchedulerState, agent: Agent, body: CancelRefused, now: float) -> None:
    """An agent did not cancel these tasks. Those that it does not have any more may have moved."""
    for column in body.columns:
        client = state.clients.get(column.session)
        if client is None:
            continue
        for task in column.tasks:
            client.asked_cancels.pop(task, None)
        moved = [task for task, attempt in _pairs(column) if not _is_with(client, agent, task, attempt)]
        stayed = [task for task, attempt in _pairs(column) if _is_with(client, agent, task, attempt)]
        _refuse(state, client, moved, True, now)
        _refuse(state, client, stayed, False, now)


def has_asked(client: ClientPeer, task: int) -> bool:
    """Return whether its agent was asked and has not refused, and forget it: the agent has cancelled the task."""
    return client.asked_cancels.pop(task, False)


def _note(state: SchedulerState, client: ClientPeer, task: int, now: float) -> None:
    """If an earlier scheduler may have had the task dropped, the result must tell both causes apart."""
    if now < client.states_until or client.session in state.forgotten:
        if len(client.asked_cancels) >= STATED_CANCELS_LIMIT:
            client.asked_cancels.clear()
        client.asked_cancels[task] = True


def _understands(agent: Agent) -> bool:
    return agent.hello.minor >= UNSTARTED_ONLY_SINCE_MINOR


def _pairs(column: TaskColumn) -> list[tuple[int, int]]:
    return list(zip(column.tasks, column.attempts, strict=False))


def _is_with(client: ClientPeer, agent: Agent, task: int, attempt: int) -> bool:
    known = client.table.columns.describe(task)
    return known is not None and known.attempt == attempt and known.agent_index == agent.index


def _refuse(state: SchedulerState, client: ClientPeer, tasks: Sequence[int], moved: bool, now: float) -> None:
    if tasks and client.is_reachable:
        outbox.send(state, client, CancelRefused((TaskColumn(client.session, tuple(tasks)),), moved), now)
