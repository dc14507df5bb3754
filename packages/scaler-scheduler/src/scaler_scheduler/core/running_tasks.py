"""The tasks that have run for a while, as agents report them, for monitors."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.messages import RunningTask
from scaler_protocol.monitor.messages import RunningTaskStatus
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState


def running_tasks_of(state: SchedulerState, agent: Agent, now: float) -> tuple[RunningTaskStatus, ...]:
    """Return the running tasks of the last heartbeat that have not ended since. Heartbeats give times on the clock of
    the agent."""
    beat = agent.heartbeat
    if beat is None or not beat.running_tasks:
        return ()
    agent_now = beat.sent_at + max(0.0, now - agent.heartbeat_at)
    rows = (_row(state, agent, each, agent_now) for each in beat.running_tasks)
    return tuple(row for row in rows if row is not None)


def executions_reported_by(agent: Agent) -> Iterator[tuple[RunningTask, float]]:
    """The tasks of the last heartbeat, and for how many seconds each of them had run then."""
    beat = agent.heartbeat
    if beat is not None:
        yield from ((running, max(0.0, beat.sent_at - running.started_at)) for running in beat.running_tasks)


def report_of(agent: Agent, session: bytes, task: int, attempt: int) -> tuple[RunningTask, float] | None:
    """Return what the last heartbeat says of an execution, and for how many seconds it had run then; None: nothing."""
    for running, seconds in executions_reported_by(agent):
        if (running.session, running.task, running.attempt) == (session, task, attempt):
            return running, seconds
    return None


def _row(state: SchedulerState, agent: Agent, task: RunningTask, agent_now: float) -> RunningTaskStatus | None:
    client = state.clients.get(task.session)
    known = client.table.columns.describe(task.task) if client is not None else None
    if client is None or known is None or known.attempt != task.attempt or known.agent_index != agent.index:
        return None
    record = known.record
    function, is_actor = record.function, record.hosts_actor
    return RunningTaskStatus(
        session=client.shown_id,
        function=function.name,
        digest=function.digest,
        task=task.task,
        attempt=task.attempt,
        worker=task.worker,
        pid=task.pid,
        seconds=max(0.0, agent_now - task.started_at),
        idle_seconds=max(0.0, agent_now - task.active_at),
        usual_seconds=function.duration_us / 1e6 if function.samples and not is_actor else 0.0,
        cpu_percent=task.cpu_percent,
        rss_bytes=task.rss_bytes,
        blocked=task.blocked,
        module=function.module,
        actor=is_actor,
        map_number=record.map.number if record.map is not None else 0,
        graph=record.graph.last if record.graph is not None else 0,
        actor_name=_actor_name(state, task.session, record),
        priority=record.priority,
    )


def _actor_name(state: SchedulerState, session: bytes, record: RunRecord) -> str:
    """Return the name of the actor that a run makes or calls; empty if there is none."""
    options = record.run.options
    if record.hosts_actor:
        return options.actor_name
    maker = state.clients.get(options.actor_session or session) if record.is_call else None
    known = maker.table.columns.describe(options.actor) if maker is not None else None
    return known.record.run.options.actor_name if known is not None else ""
