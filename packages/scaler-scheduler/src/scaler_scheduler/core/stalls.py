"""The consequences of a stall, a time in which the scheduler itself did not run.

It may have been stopped, its machine suspended, or it was busy. Messages of its peers wait in its sockets meanwhile, so
their silence proves nothing. A stall is noticed when a tick comes late, and everything that measures the time of peers
is put off by its length. The sockets are read before the next tick, so each peer has as much time as it would have had.
"""

from __future__ import annotations

from scaler_scheduler.core import draining, orphaned_objects, stated_copies
from scaler_scheduler.core.settings import STALL_RECONNECT_SECONDS
from scaler_scheduler.core.state import SchedulerState


def put_off(state: SchedulerState, seconds: float, now: float) -> None:
    """The scheduler did not run for ``seconds``, until now."""
    for agent in state.agents.values():
        agent.excused_seconds += seconds
        agent.attached_at += seconds
        if agent.lost_at is not None and agent.lost_at <= now:
            agent.lost_at = now + STALL_RECONNECT_SECONDS
    for client in state.clients.values():
        if client.gone_at is not None and client.gone_at <= now - seconds:
            client.gone_at += seconds
        client.holds.put_off(seconds)
        client.once_holds.put_off(seconds)
        client.states_until += seconds
    state.unclaimed.put_off(seconds)
    state.absent.put_off(seconds, now)
    state.objects.put_off(seconds)
    draining.put_off(state, seconds)
    stated_copies.put_off(state, seconds)
    orphaned_objects.put_off(state, seconds)
