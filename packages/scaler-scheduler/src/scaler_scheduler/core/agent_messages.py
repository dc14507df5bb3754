"""Messages of agents about themselves and about the output of tasks."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import AgentAttach, Blocked, Goodbye, Output
from scaler_scheduler.core import claims, lost_agents, notices, outbox, recording, starting_agents
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import DEPTH_LIMIT, LENT_LIMIT


def on_attach(state: SchedulerState, agent: Agent, body: AgentAttach, now: float) -> None:
    """An agent introduces itself: its worker processes, its capabilities, and the tasks that it has from before a
    restart."""
    if agent.has_introduced_itself:
        return
    agent.attach(body, state.settings.per_worker_queue_size, now)
    state.placement.add(agent)
    starting_agents.look_again(state)
    notices.log(state, f"Agent {agent.title()} joined with {agent.load.slots} workers")
    for column in body.holds:
        claims.claim(state, agent, column, now)
    recording.note_agent_joined(state, agent, now)
    state.placement.offer(agent)


def on_blocked(state: SchedulerState, agent: Agent, body: Blocked, now: float) -> None:
    """Tasks of this agent wait for tasks that they have submitted: it can run others meanwhile, at most so deep."""
    agent.load.lent = min(body.lent_slots, LENT_LIMIT)
    agent.load.lent_by_actors = min(body.lent_by_actors, agent.load.lent)
    is_limited = body.lent_slots and not body.any_depth
    agent.load.deepest = min(body.deepest, DEPTH_LIMIT) if is_limited else -1
    state.placement.offer(agent)


def on_goodbye(state: SchedulerState, agent: Agent, body: Goodbye, now: float) -> None:
    """An agent leaves. That does not count against its tasks."""
    notices.log(state, f"{notices.title(agent)} left")
    outbox.acknowledge(state, agent, now)
    outbox.ignore(state, agent.session)
    lost_agents.end_agent(state, agent, now)


def on_output(state: SchedulerState, agent: Agent, body: Output, now: float) -> None:
    """Output of a task for its client. It is left out while the client is paused."""
    client = state.clients.get(body.session)
    if client is None or not client.is_reachable:
        return
    if client.is_paused:
        client.output_left_out_bytes += len(body.data)
        return
    if client.output_left_out_bytes:
        body = replace(body, data=client.take_note_of_left_out() + body.data)
    client.sent(outbox.send(state, client, body, now), [], len(body.data) + len(body.warnings))
