"""The end of the session of any peer, and the cost of a malformed message for its sender."""

from __future__ import annotations

from scaler_protocol.messages import RefusalReason, Refused
from scaler_scheduler.core import cancellation, lost_agents, notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState


def end_session(state: SchedulerState, peer: bytes, now: float) -> None:
    """End the session of any peer; a later Hello under its id begins a new one."""
    if peer in state.agents:
        lost_agents.lose_agent(state, state.agents[peer], now)
    elif peer in state.clients:
        cancellation.end_client(state, state.clients[peer], now)
        if peer in state.clients:
            cancellation.abandon(state, state.clients[peer], now)


def refuse_nested(state: SchedulerState, agent: Agent, session: bytes, text: str, now: float) -> None:
    """A message of a nested client is malformed or raised: its session ends, if this agent relays it."""
    client = state.clients.get(session)
    if session in state.agents or (client is not None and client.route != agent.session):
        return  # it is none of this agent's
    outbox.refuse(state, session, Refused(RefusalReason.MALFORMED, text), agent.session)
    if client is not None:
        cancellation.end_client(state, client, now)


def on_malformed(state: SchedulerState, peer: bytes, text: str, now: float) -> None:
    """The data received over the connection of ``peer`` is not a message: the session ends."""
    if peer in state.ignored:
        return
    notices.warn(state, state.malformed_warnings, f"A message from {peer.hex()[:8]} is malformed: {text}", now)
    outbox.refuse(state, peer, Refused(RefusalReason.MALFORMED, f"The message is malformed: {text}"), None)
    end_session(state, peer, now)
