"""Copies of large results that agents have fetched before a restart of the scheduler.

The table of a client knows which agents have copies of a result: they drop these when it is released. After a restart,
agents state their copies, perhaps before the client of the result has come back, or the agent that made it.
"""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey, ObjectRelease
from scaler_scheduler.core import absent_clients, outbox, timers
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState


def on_stated(state: SchedulerState, agent: Agent, key: ObjectKey, now: float) -> None:
    """An agent has a copy of a result. It may have fetched it just now."""
    client = state.clients.get(key.owner)
    nodes = client.table.nodes if client is not None else None
    if nodes is None or agent.index not in (nodes.value_holder(key.number), *nodes.copies_of(key.number)):
        state.stated_copies.setdefault(key.owner, {}).setdefault(key, {})[agent.session] = now
        timers.arm_tick(state, now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Look at the copies of which the tables do not know yet."""
    for owner, copies in list(state.stated_copies.items()):
        if not absent_clients.may_return(state, owner, now):
            _look_at_all(state, copies, now)
        if not copies:
            del state.stated_copies[owner]


def _look_at_all(state: SchedulerState, copies: dict[ObjectKey, dict[bytes, float]], now: float) -> None:
    for key, agents in list(copies.items()):
        for session, since in list(agents.items()):
            agent = state.agents.get(session)
            until = absent_clients.awaited_until(state, key.owner, since)
            if agent is None or (now >= until and _decide(state, agent, key, now)):
                del agents[session]
        if not agents:
            del copies[key]


def _decide(state: SchedulerState, agent: Agent, key: ObjectKey, now: float) -> bool:
    """Note a copy of a result that exists, and release one of a result that is not needed any more. False: it is not
    known yet where the result is."""
    client = state.clients.get(key.owner)
    if client is None or client.table.columns.state(key.number) in (TaskState.ENDED, TaskState.FREED):
        if client is not None and now < client.states_until:
            return False
        outbox.send(state, agent, ObjectRelease((key,)), now)
        return True
    holder = client.table.nodes.value_holder(key.number)
    if holder is not None and holder != agent.index:
        client.table.nodes.note_copy(key.number, agent.index)
    return holder is not None


def put_off(state: SchedulerState, seconds: float) -> None:
    """Extend all times by the time in which the scheduler did not run."""
    for copies in state.stated_copies.values():
        for agents in copies.values():
            for session in agents:
                agents[session] += seconds
