"""Agents return tasks that they have not started: to work stealing, or because they are paused or leave."""

from __future__ import annotations

from scaler_protocol.messages import Withdraw, Withdrawn
from scaler_scheduler.core import absent_clients, outbox, requeue, task_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState

_ALL_TASKS = 0x7FFFFFFF


def ask_for_all(state: SchedulerState, agent: Agent, now: float) -> None:
    """Have a paused agent return what it has not started: now, or when it has answered what it was asked before."""
    if not agent.withdraw_pending:
        agent.withdraw_pending = True
        outbox.send(state, agent, Withdraw(_ALL_TASKS), now)


def _must_return(state: SchedulerState, agent: Agent, record: RunRecord) -> bool:
    """Return whether tasks will come back to the agent that has returned them: no other that can run them has room."""
    queue = record.queue
    if queue.admitted is None and not state.placement.is_scarce(queue):
        return False
    return not any(index != agent.index for index in queue.candidates)


def on_withdrawn(state: SchedulerState, agent: Agent, body: Withdrawn, now: float) -> None:
    """An agent returns tasks. They go to the front of their queues."""
    given = 0
    agent.is_leaving = agent.is_leaving or body.leaving
    for column in body.columns:
        given += len(column.tasks)
        if state.unclaimed:
            state.unclaimed.withdraw(agent, column.session, column.tasks)
            absent_clients.count_load(state, agent)
        client = state.clients.get(column.session)
        if client is None:
            continue
        ranges, cancelled = client.table.withdrawn(
            column.tasks, column.attempts, agent.load, to_any_agent=agent.withdraw_pending
        )
        given -= sum(stop - first for record, first, stop in ranges if _must_return(state, agent, record))
        requeue.push_front(client, ranges)
        state.actors.look_at_returned(client.session, ranges)
        task_endings.report_cancelled(state, client, cancelled)
    if agent.withdraw_pending:
        state.balancer.answered(agent, given, now)
    if agent.is_paused and not agent.is_leaving and body.columns and agent.load.queued():
        ask_for_all(state, agent, now)
    state.placement.offer(agent)
