"""Objects in stores whose owners have left.

When a client leaves, all agents are told to have their stores drop what is left of it. A store misses this while none
of its agents is connected: one of them was killed, or was away for too long. Its objects may be such that no agent
knows of, so each store names the owners of its objects from time to time. An owner that is not a client has
time to become one, as clients return after a restart of the scheduler.
"""

from __future__ import annotations

from scaler_protocol.ids import split_ids
from scaler_protocol.limits import OWNERS_LIMIT
from scaler_protocol.messages import ObjectRelease
from scaler_scheduler.core import absent_clients, outbox, timers
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState

UNKNOWN_SECONDS = 5.0


def on_owners(state: SchedulerState, agent: Agent, owners: bytes, now: float) -> None:
    """The store of an agent's host has objects of ``owners``, 16 bytes each, and perhaps of more."""
    before = state.unknown_owners.pop(agent.session, {})
    absent = [owner for owner in split_ids(owners)[:OWNERS_LIMIT] if owner not in state.clients]
    unknown = {owner: before.get(owner, _kept_until(state, owner, now)) for owner in absent}
    if unknown:
        state.unknown_owners[agent.session] = unknown
        timers.arm_tick(state, now)


def _kept_until(state: SchedulerState, owner: bytes, now: float) -> float:
    may_return = absent_clients.may_return(state, owner, now)
    return (state.absent.return_until if may_return else now) + UNKNOWN_SECONDS


def on_tick(state: SchedulerState, now: float) -> None:
    """Have the objects of owners that have not become clients dropped."""
    for session, unknown in list(state.unknown_owners.items()):
        for owner in [owner for owner, until in unknown.items() if until <= now]:
            del unknown[owner]
            if owner not in state.clients:
                outbox.send(state, state.agents[session], ObjectRelease((), owner), now)
        if not unknown:
            del state.unknown_owners[session]


def put_off(state: SchedulerState, seconds: float) -> None:
    """Extend all deadlines by the time in which the scheduler did not run."""
    for unknown in state.unknown_owners.values():
        for owner in unknown:
            unknown[owner] += seconds
