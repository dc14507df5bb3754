"""Results that do not simply end their task."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import ObjectKey, ObjectRelease, Status
from scaler_scheduler.core import cancellation, dropped_tasks, lost_inputs, outbox, retry, timers, values
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import Action, ResultOutcome

_STOPPED = (Status.TIMED_OUT, Status.MEMORY_EXCEEDED)


def accept_without_client(state: SchedulerState, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
    """Results for an unknown client. It may come back after a restart of the scheduler."""
    if _may_be_claimed(state, agent, run.session, now):
        _keep(state, agent, run, delivery, now)
    else:
        drop_unclaimed(state, agent, run, range(run.count), now)


def accept_others(
    state: SchedulerState,
    client: ClientPeer,
    agent: Agent,
    run: ResultRun,
    delivery: Delivery,
    outcome: ResultOutcome,
    now: float,
) -> None:
    """Handle the rows that do not simply end their task; ``outcome`` is the answer of the table."""
    _, decisions, unknown = outcome
    if unknown and _may_be_claimed(state, agent, run.session, now):
        _keep(state, agent, run.select(unknown), delivery, now)
    elif unknown:
        drop_unclaimed(state, agent, run, unknown, now)
    for index, task, action in decisions:
        _RULES[action](state, client, agent, run, index, task, now)


def cancel_children_at_limits(state: SchedulerState, agent: Agent, run: ResultRun, now: float) -> None:
    """Tasks that were stopped at a time or memory limit: the tasks that they submitted in that attempt are
    cancelled."""
    statuses = bytes(run.status_column)
    if not any(status in statuses for status in _STOPPED):
        return
    for index, status in enumerate(statuses):
        if status in _STOPPED:
            task, attempt = run.task(index), run.attempt(index)
            cancellation.cancel_children_of_execution(state, agent, run.session, task, attempt, now)


def _keep(state: SchedulerState, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
    """Keep results for a client that may come back."""
    delivery.hold()
    state.unclaimed.add_results(agent, run, delivery, now)
    timers.arm_tick(state, now)


def _on_large(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """A task ended with a large result, which its agent holds."""
    client.has_stored = True
    client.large[task] = now
    client.large_bytes[task] = int.from_bytes(run.payload(index)[:8], "little")
    if task in client.fetching:
        values.fetch(state, agent, ObjectKey(client.session, task), client.session, True, now)


def drop_unclaimed(state: SchedulerState, agent: Agent, run: ResultRun, indices: Iterable[int], now: float) -> None:
    """No client waits for these results: their agent drops what it keeps of them, for the client or for other nodes."""
    tasks = [run.task(index) for index in indices]
    state.unclaimed.withdraw(agent, run.session, tasks)
    dropped_tasks.note(state, agent, run.session, tasks, now)
    held = _held_values(run, indices)
    cancellation.cancel_rows(agent, run.session, run.task_column, run.attempt_column, held)
    release_large(state, agent, run, held, now)


def release_large(state: SchedulerState, agent: Agent, run: ResultRun, indices: Iterable[int], now: float) -> None:
    """No client needs these results: their agent may drop the large ones."""
    statuses = run.status_column
    keys = [ObjectKey(run.session, run.task(index)) for index in indices if statuses[index] == Status.SUCCESS_LARGE]
    if keys:
        outbox.send(state, agent, ObjectRelease(tuple(keys)), now)


def _on_refused(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """Have the agent drop a large result of an attempt that does not count."""
    release_large(state, agent, run, [index], now)


def _on_discarded(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """A task that was being cancelled ended with a large result."""
    client.table.finish(task, Status.CANCELLED)
    client.row(task, Status.CANCELLED, attempt=run.attempt(index))
    outbox.send(state, agent, ObjectRelease((ObjectKey(client.session, task),)), now)


def _held_values(run: ResultRun, indices: Iterable[int]) -> list[int]:
    """The rows whose values their agent may hold: it keeps those of nodes of graphs and large results, and the rows do
    not say which tasks are nodes."""
    statuses = run.status_column
    return [index for index in indices if statuses[index] in (Status.SUCCESS, Status.SUCCESS_LARGE)]


def _may_be_claimed(state: SchedulerState, agent: Agent, session: bytes, now: float) -> bool:
    """The agent may still report what happened before a restart of the scheduler, or has reported these tasks."""
    return now < agent.attached_at + HOLD_SECONDS or state.unclaimed.has_tasks_of(session, agent)


_Rule = Callable[[SchedulerState, ClientPeer, Agent, ResultRun, int, int, float], None]

_RULES: dict[Action, _Rule] = {
    Action.KEEP_LARGE: _on_large,
    Action.DISCARD: _on_discarded,
    Action.DECIDE_RETRY: retry.on_failed,
    Action.DECIDE_INPUT: lost_inputs.on_missing,
    Action.DECIDE_DEATH: retry.on_worker_process_died,
    Action.DECIDE_STOPPED: retry.on_stopped,
    Action.REFUSE: _on_refused,
}
