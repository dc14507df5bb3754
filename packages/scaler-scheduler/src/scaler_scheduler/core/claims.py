"""After a restart of the scheduler: what agents hold for clients that come back, or do not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import TaskColumn
from scaler_scheduler.core import absent_clients, cancellation, dropped_tasks, results, stated_cancels, timers
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.state import SchedulerState


def claim(state: SchedulerState, agent: Agent, column: TaskColumn, now: float) -> None:
    """An agent has these tasks of a client since before the restart. A client states its tasks in the order of their
    numbers: it does not wait any more for one that is lower than what it has stated."""
    client = state.clients.get(column.session)
    attempts = column.attempts or (1,) * len(column.tasks)
    if client is None:
        _keep(state, agent, column.session, column.tasks, attempts, now)
        return
    if client.stated_cancels:
        column = stated_cancels.without_cancelled(client, agent, column, attempts)
        attempts = column.attempts
    stale, unknown = client.table.claim(column.tasks, attempts, agent.load)
    ended = [index for index in unknown if column.tasks[index] < client.table.columns.next_task]
    dropped = [*stale, *ended]
    _drop(state, agent, column.session, _pick(column.tasks, dropped), _pick(attempts, dropped), now)
    unknown = [index for index in unknown if column.tasks[index] >= client.table.columns.next_task]
    if unknown:
        _keep(state, agent, column.session, _pick(column.tasks, unknown), _pick(attempts, unknown), now)


def _keep(
    state: SchedulerState, agent: Agent, session: bytes, tasks: tuple[int, ...], attempts: tuple[int, ...], now: float
) -> None:
    state.unclaimed.add_holds(agent, session, tasks, attempts, now)
    absent_clients.count_load(state, agent)
    timers.arm_tick(state, now)


def on_client_returned(
    state: SchedulerState, client: ClientPeer, now: float
) -> list[tuple[Agent, ResultRun, Delivery]]:
    """A client has submitted again what it had submitted before the restart. Returns the results that wait for it."""
    holds, results_kept = state.unclaimed.take(client.session)
    for agent, tasks, attempts in holds:
        claim(state, agent, TaskColumn(client.session, tasks, attempts), now)
        absent_clients.count_load(state, agent)
        state.placement.offer(agent)
    return results_kept


def expire(state: SchedulerState, now: float) -> None:
    """Clients did not come back in time: agents stop and forget what they have for them."""
    holds, results_kept = state.unclaimed.expire(now, partial(absent_clients.awaited_until, state))
    for agent, session, tasks, attempts in holds:
        dropped_tasks.note(state, agent, session, tasks, now)
        _drop(state, agent, session, tasks, attempts, now)
        absent_clients.count_load(state, agent)
    for agent, run, delivery in results_kept:
        results.drop_unclaimed(state, agent, run, range(run.count), now)
        delivery.release()


def _drop(
    state: SchedulerState, agent: Agent, session: bytes, tasks: Sequence[int], attempts: Sequence[int], now: float
) -> None:
    """Nothing waits for these executions, nor for what was submitted in them."""
    if not tasks:
        return
    agent.cancel(session, list(tasks), list(attempts))
    if state.lineage:
        for task, attempt in zip(tasks, attempts, strict=True):
            cancellation.cancel_children_of_execution(state, agent, session, task, attempt, now)


def _pick(values: Sequence[int], indices: list[int]) -> tuple[int, ...]:
    return tuple(values[index] for index in indices)
