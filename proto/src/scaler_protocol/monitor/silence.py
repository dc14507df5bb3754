"""Agents that the scheduler has not heard from for a while: their hosts get no new tasks."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.monitor.format import format_duration
from scaler_protocol.monitor.messages import AgentStatus, PeerState, Snapshot


def is_silent(state: PeerState) -> bool:
    """The scheduler has not heard from the agent for a while."""
    return state not in (PeerState.CONNECTED, PeerState.PAUSED)


def silent_agents(snapshot: Snapshot | None) -> list[AgentStatus]:
    """Return the silent agents, those that have been silent for the longest time first."""
    agents = snapshot.agents if snapshot is not None else ()
    silent = [agent for agent in agents if is_silent(agent.state)]
    return sorted(silent, key=lambda agent: -agent.silent_seconds)


def silence_text(agents: Sequence[AgentStatus]) -> str:
    """Return a sentence about silent agents; empty if there are none."""
    if not agents:
        return ""
    first, seconds = agents[0], format_duration(agents[0].silent_seconds)
    if len(agents) == 1:
        return f"the agent on {first.host} (pid {first.pid}) has been silent for {seconds}"
    return f"{len(agents)} agents are silent, the one on {first.host} (pid {first.pid}) for {seconds}"
