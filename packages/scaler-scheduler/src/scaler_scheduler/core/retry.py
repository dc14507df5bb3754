"""Decides whether a task that failed, that its agent stopped, or whose worker process died, runs again."""

from __future__ import annotations

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import Status
from scaler_scheduler.core import cancellation, requeue, task_endings, unstarted_cancels
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import CERTIFICATE_LIMIT_BYTES
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import DEATHS_LIMIT


def on_failed(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """A task failed. It runs again unless it has used up its retries."""
    record = client.table.columns.record(task)
    failures = client.failures[task] = client.failures.get(task, 0) + 1
    cancellation.cancel_children(state, client.session, task, now)
    if failures <= record.retries:
        requeue.requeue(client, task)
        return
    client.forget(task)
    client.table.finish(task, run.status(index))
    client.row(task, run.status(index), bytes(run.payload(index)), run.attempt(index))


def on_worker_process_died(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """The worker process of a task died. The task runs again unless that is forbidden, or has happened too often."""
    record = client.table.columns.record(task)
    certificates = client.certificates.setdefault(task, [])
    payload = bytes(run.payload(index))
    certificates.append(payload if 0 < len(payload) <= CERTIFICATE_LIMIT_BYTES else b"{}")
    cancellation.cancel_children(state, client.session, task, now)
    del certificates[:-DEATHS_LIMIT]
    if record.rerun and _may_run_again(client, record, task):
        requeue.requeue(client, task)
        return
    payload = b"[" + b",".join(certificates) + b"]"
    client.forget(task)
    client.table.finish(task, Status.PROCESSOR_DIED)
    client.row(task, Status.PROCESSOR_DIED, payload, run.attempt(index))


def on_stopped(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """An agent stopped a task that is not being cancelled: its client has asked for that if it had not started. Or an
    earlier scheduler had told the agent so while the client was away, and the agent reported the task to this one
    before it had stopped. Then it runs again unless that is forbidden."""
    cancellation.cancel_children(state, client.session, task, now)
    may_rerun = client.table.columns.record(task).rerun
    # Without may_rerun it is not known which came first, the cancel or the drop: the task may have started.
    is_wanted = unstarted_cancels.has_asked(client, task) and may_rerun
    if is_wanted or not state.forgotten.has(client.session, task):
        client.forget(task)
        client.table.finish(task, Status.CANCELLED)
        client.row(task, Status.CANCELLED, b"", run.attempt(index))
    elif may_rerun:
        requeue.requeue(client, task)
    else:
        client.table.finish(task, Status.WORKER_DIED)
        task_endings.report_failed(state, client, task, Status.WORKER_DIED, task_endings.DROPPED_TEXT)


def _may_run_again(client: ClientPeer, record: RunRecord, task: int) -> bool:
    """Count a death. The number of deaths is limited; an actor has its own number, of deaths and lost hosts."""
    deaths = client.table.died(task)
    if not record.hosts_actor:
        return deaths < DEATHS_LIMIT
    known = client.table.columns.describe(task)
    return known is not None and deaths + known.losses <= record.retries
