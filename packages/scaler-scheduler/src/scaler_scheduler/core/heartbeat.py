"""Decides whether agents are alive: heartbeats, pings, leases, and what follows when an agent is silent."""

from __future__ import annotations

from scaler_protocol.messages import Heartbeat, HeartbeatEcho, Ping
from scaler_scheduler.core import absent_clients, lost_agents, notices, outbox, requeue
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.settings import (
    ATTACH_SECONDS,
    IDLE_PING_SECONDS,
    IDLE_SUSPECT_SECONDS,
    PING_SECONDS,
    RELIEF_SECONDS,
    SHORT_TASK_US,
    SUSPECT_SECONDS,
    TICK_SECONDS,
)
from scaler_scheduler.core.state import SchedulerState


def on_heard(state: SchedulerState, agent: Agent, now: float) -> None:
    """A message came from an agent: it is alive."""
    agent.heard_at = now
    agent.excused_seconds = 0.0
    if agent.suspect:
        agent.suspect = agent.is_relieved = False
        notices.log(state, f"{notices.title(agent)} is back")
        state.placement.offer(agent)


def on_heartbeat(state: SchedulerState, agent: Agent, body: Heartbeat, now: float) -> None:
    """The regular report of an agent. The echo lets the agent measure the round trip, which its next
    report contains."""
    agent.heartbeat, agent.heartbeat_at = body, now
    if not body.workers_unchanged:
        agent.workers = body.workers
    if body.lag_seconds > 0:
        agent.load.note_round_trip(body.lag_seconds)
    if state.unclaimed or agent.load.unclaimed:
        absent_clients.count_load(state, agent)
    outbox.send(state, agent, HeartbeatEcho(body.sent_at, state.events.is_on), now)


def look_at_agent(state: SchedulerState, agent: Agent, now: float) -> None:
    """Check an agent at each tick: give up one whose lease has ended, stop using a silent one, ping one that was sent
    nothing."""
    is_idle = agent.load.outstanding == 0
    if is_idle:
        agent.idle_at = now
    silent_seconds = now - (agent.heard_at if is_idle else max(agent.heard_at, agent.idle_at)) - agent.excused_seconds
    if (agent.lost_at is not None and now >= agent.lost_at) or silent_seconds >= _timeout_seconds(state, agent):
        notices.log(state, f"{notices.title(agent)} is lost", "WARNING")
        lost_agents.lose_agent(state, agent, now)
        return
    if silent_seconds >= (IDLE_SUSPECT_SECONDS if is_idle else SUSPECT_SECONDS) and not agent.suspect:
        agent.suspect = True
        notices.log(state, f"{notices.title(agent)} has been silent for {silent_seconds:.1f} s", "WARNING")
        state.placement.offer(agent)
    if silent_seconds >= RELIEF_SECONDS and not agent.is_relieved:
        agent.is_relieved = True
        _relieve(state, agent, now)
    ping_seconds = IDLE_PING_SECONDS if is_idle and agent.has_introduced_itself else PING_SECONDS
    if agent.connection.is_open and now - agent.connection.sent_at >= ping_seconds - TICK_SECONDS / 2:
        outbox.send(state, agent, Ping(), now)


def _relieve(state: SchedulerState, agent: Agent, now: float) -> None:
    """Queue the short tasks of a silent agent again. Longer ones may be running there, and stay. When the agent is
    back, it is told to cancel what it still has of them."""
    for client in list(state.clients.values()):
        tasks, attempts = client.table.short_tasks(agent.index, SHORT_TASK_US)
        if tasks:
            ranges, _ = client.table.withdrawn(tasks, attempts, agent.load)
            requeue.push_front(client, ranges)
            agent.cancel(client.session, tasks, attempts)


def _timeout_seconds(state: SchedulerState, agent: Agent) -> float:
    """Return how long the agent may be silent."""
    limit = state.settings.worker_timeout_seconds
    if not agent.has_introduced_itself:
        return min(limit, ATTACH_SECONDS)
    return limit if agent.load.outstanding else max(limit, IDLE_SUSPECT_SECONDS)
