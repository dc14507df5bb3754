"""The tick, which looks at everything timed, and stalls, in which the scheduler itself did not run."""

from __future__ import annotations

from scaler_scheduler.core.settings import ALIVE_SECONDS, STALL_SECONDS, TICK_SECONDS
from scaler_scheduler.core.state import SchedulerState


def arm_tick(state: SchedulerState, now: float) -> None:
    """Set the time of the next tick, if it is not set."""
    if state.next_tick_at is None:
        state.next_tick_at = now + TICK_SECONDS


def has_stalled(state: SchedulerState, now: float) -> bool:
    """Return whether the scheduler itself did not run just now. It cannot say, then, when its peers were last heard."""
    note_stall(state, now)
    return now - state.stalled_at < ALIVE_SECONDS


def note_stall(state: SchedulerState, now: float) -> float:
    """Return how long the scheduler has not run, judged by how late the tick is."""
    late_seconds = 0.0 if state.next_tick_at is None else now - state.next_tick_at
    if late_seconds <= STALL_SECONDS:
        return 0.0
    state.stalled_at = now
    return late_seconds
