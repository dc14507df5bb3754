"""The connection of a peer ended. The peer may come back."""

from __future__ import annotations

from scaler_scheduler.core import locks, named_values, timers
from scaler_scheduler.core.settings import (
    ALIVE_SECONDS,
    IDLE_ALIVE_SECONDS,
    RECONNECT_SECONDS,
    STALL_RECONNECT_SECONDS,
)
from scaler_scheduler.core.state import SchedulerState


def on_peer_lost(state: SchedulerState, peer: bytes, now: float) -> None:
    """The connection of ``peer`` ended. A client may come back within its timeout, an agent almost at once."""
    state.events.now = now
    state.ignored.pop(peer, None)
    client = state.clients.get(peer)
    if client is not None and client.connection.is_open and client.route is None:
        client.connection.is_open = False
        client.gone_at = now
        locks.on_connection_ended(state, peer)
        named_values.on_connection_ended(state, peer)
        timers.arm_tick(state, now)
    agent = state.agents.get(peer)
    if agent is not None and agent.connection.is_open:
        agent.connection.is_open = False
        silent_seconds = now - agent.heard_at
        if silent_seconds < ALIVE_SECONDS:
            agent.lost_at = now + (STALL_RECONNECT_SECONDS if timers.has_stalled(state, now) else RECONNECT_SECONDS)
        elif not agent.load.outstanding and silent_seconds < IDLE_ALIVE_SECONDS:
            agent.lost_at = now + STALL_RECONNECT_SECONDS
        state.placement.offer(agent)
        timers.arm_tick(state, now)
