"""Agents return tasks that they have not started: to work stealing, or because they leave."""

from __future__ import annotations

from scaler_protocol.messages import Withdrawn
from scaler_scheduler.core import requeue, task_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState


def on_withdrawn(state: SchedulerState, agent: Agent, body: Withdrawn, now: float) -> None:
    """An agent returns tasks. They go to the front of their queues."""
    given = 0
    agent.is_leaving = agent.is_leaving or body.leaving
    for column in body.columns:
        given += len(column.tasks)
        if state.unclaimed:
            state.unclaimed.withdraw(agent, column.session, column.tasks)
        client = state.clients.get(column.session)
        if client is None:
            continue
        ranges, cancelled = client.table.withdrawn(column.tasks, column.attempts, agent.load, agent.withdraw_pending)
        requeue.push(client, ranges, True)
        task_endings.report_cancelled(state, client, cancelled)
    if agent.withdraw_pending:
        state.balancer.answered(agent, given, now)
    state.placement.offer(agent)
