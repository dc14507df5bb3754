"""The end of an agent: its tasks return to the queues, and the sessions that it relayed are cut off."""

from __future__ import annotations

from collections.abc import Callable

from scaler_protocol.messages import Status
from scaler_scheduler.core import (
    cancellation,
    draining,
    outbox,
    recording,
    requeue,
    starting_agents,
    task_endings,
    values,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import LOSSES_LIMIT
from scaler_scheduler.core.task_table import TaskTable

_EndInTable = Callable[[TaskTable, int, int, int], tuple[list, list[int], list[int]]]
"""The method of a table of tasks for the end of an agent: ``lose`` or ``take_back``."""


def lose_agent(state: SchedulerState, agent: Agent, now: float) -> None:
    """An agent is gone for good, without a goodbye: its tasks may have started, and the loss counts against them."""
    recording.note_agent_gone(state, agent, False, now)
    _remove(state, agent, TaskTable.lose, now)


def end_agent(state: SchedulerState, agent: Agent, now: float) -> None:
    """An agent has said goodbye: it has started none of the tasks that it still had, so nothing counts against them."""
    recording.note_agent_gone(state, agent, True, now)
    _remove(state, agent, TaskTable.take_back, now)


def _remove(state: SchedulerState, agent: Agent, end: _EndInTable, now: float) -> None:
    del state.agents[agent.session]
    del state.agent_by_index[agent.index]
    state.agents_with_cancels.pop(agent.index, None)
    agent.connection.is_open = False
    state.placement.remove(agent)
    state.software.remove(agent.session)
    leave_store(state, agent)
    outbox.send_all(state, state.objects.forget_agent(agent.session), now)
    state.transfers.forget_agent(agent.session)
    state.unknown_owners.pop(agent.session, None)
    draining.on_agent_lost(state, agent, now)
    starting_agents.on_agent_gone(state, agent, now)
    values.forget_reader(state, agent.session, now)
    lost_reads = values.forget_holder(state, agent.session, now)
    nested = [client for client in state.clients.values() if client.route == agent.session]
    ended = [(client, _take_from(state, client, agent, end)) for client in list(state.clients.values())]
    recording.note_agent_removed(state)
    for read in lost_reads:
        values.read_on(state, read, now)
    # Only now, when nothing is with the lost agent any more: children are ended as clients are.
    for client, died in ended if state.lineage else ():
        for task in died:
            cancellation.cancel_children(state, client.session, task, now)
        cancellation.cancel_stale_children(state, client, now)
    for client in nested:
        if client.session in state.clients:
            cancellation.orphan(state, client, now)


def leave_store(state: SchedulerState, agent: Agent) -> None:
    """Remove an agent from those that share its object store."""
    others = state.agents_by_store.get(agent.store, [])
    if agent in others:
        others.remove(agent)
        if not others:
            del state.agents_by_store[agent.store]


def _take_from(state: SchedulerState, client: ClientPeer, agent: Agent, end: _EndInTable) -> list[int]:
    """Queue the tasks of a client again that the agent had. Returns the tasks that fail instead."""
    ranges, died, cancelled = end(client.table, agent.index, LOSSES_LIMIT, Status.WORKER_DIED)
    requeue.push_front(client, ranges)
    task_endings.report_cancelled(state, client, cancelled)
    for task in died:
        task_endings.report_failed(state, client, task, Status.WORKER_DIED)
    for _, first, stop in ranges:
        for task in client.large and [task for task in client.large if first <= task < stop]:
            del client.large[task]
            client.large_bytes.pop(task, None)
    return died
