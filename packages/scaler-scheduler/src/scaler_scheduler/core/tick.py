"""Periodic checks, and timers that are due."""

from __future__ import annotations

from scaler_scheduler.core import (
    actor_calls,
    claims,
    client_timeouts,
    count_check,
    draining,
    faults,
    heartbeat,
    housekeeping,
    limit_checks,
    lock_requests,
    locks,
    lost_inputs,
    named_requests,
    notices,
    object_messages,
    orphaned_objects,
    outbox,
    outputs,
    profile_requests,
    shutdown,
    stacks,
    stalls,
    starting_agents,
    stated_copies,
    timers,
    values,
)
from scaler_scheduler.core.agents import due_agents
from scaler_scheduler.core.settings import IDLE_TICKS, PATIENCE_SECONDS, TICK_SECONDS
from scaler_scheduler.core.state import SchedulerState


def on_deadline(state: SchedulerState, now: float) -> None:
    """Time has passed: handle everything that is due."""
    state.events.now = now
    if state.next_tick_at is not None and now >= state.next_tick_at:
        stalled_seconds = timers.note_stall(state, now)
        if stalled_seconds:
            stalls.put_off(state, stalled_seconds, now)
        state.next_tick_at = None
        _tick(state, now)
    if state.quit_at is not None and now >= state.quit_at:
        shutdown.quit_now(state)
    if state.warn_at is not None and now >= state.warn_at:
        notices.warn_of_repetitions(state, now)


def _tick(state: SchedulerState, now: float) -> None:
    """Look at everything timed. The next tick comes even if this one fails."""
    try:
        _look_at_all(state, now)
    finally:
        if state.agents or state.clients or state.unclaimed:
            timers.arm_tick(state, now)


def _look_at_all(state: SchedulerState, now: float) -> None:
    """Look at every peer, then at everything that is timed for all of them."""
    due = due_agents(state.agents, int(now / TICK_SECONDS), IDLE_TICKS)
    faults.for_each(state, due, heartbeat.look_at_agent, now)
    faults.for_each(state, list(state.clients.values()), client_timeouts.look_at_client, now)
    claims.expire(state, now)
    actor_calls.on_tick(state, now)
    leaving = [state.agents[session] for session in state.departures if session in state.agents]
    faults.for_each(state, leaving, draining.advance, now)
    lost_inputs.on_tick(state, now)
    values.on_tick(state, now)
    stated_copies.on_tick(state, now)
    locks.on_tick(state, now)
    lock_requests.on_tick(state, now)
    named_requests.on_tick(state, now)
    stacks.on_tick(state, now)
    outputs.on_tick(state, now)
    starting_agents.look_again(state)
    profile_requests.on_tick(state, now)
    if state.objects.unstated:
        object_messages.expire(state, now)
    if state.objects.awaited:
        patience_seconds = max(state.settings.client_timeout_seconds, PATIENCE_SECONDS)
        outbox.send_all(state, state.objects.lose_patience(now, patience_seconds), now)
    orphaned_objects.on_tick(state, now)
    housekeeping.keep_house(state, now)
    limit_checks.on_tick(state, now)
    count_check.on_tick(state, now)
