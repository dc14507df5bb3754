"""Agents that leave in good order: the values of tasks that only they have move to agents that stay.

| Event | Consequence |
|---|---|
| an agent says Leaving | other agents are told to fetch its values (KeepValues), ``MOVES_LIMIT`` at a time |
| another agent has a value, which is not being read from the first one | from now on it is read there |
| all of a turn have moved | the next ones; also while tasks still run there, whose values may be needed, too |
| nothing is left that could move, and no task | the agent is told that it MayLeave |
| the agent that should keep a value goes | another one is asked |
| a value is not needed any more, or lost | it does not move |
| nothing has arrived for ``PATIENCE_SECONDS`` | the values that are on their way are given up |
| the agent says Goodbye, or is lost | what has not moved is lost, as with any agent |

An agent whose grace time ends goes without MayLeave. If no agent can take values, it may leave at once, and the values
are made again when they are needed. Objects that clients have sent do not move: their clients have them. The agents of
other hosts are preferred, because a host often leaves as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from scaler_protocol.messages import (
    DEPARTURES_SINCE_MINOR,
    KeepValues,
    Leaving,
    MayLeave,
    ObjectKey,
    ObjectRelease,
)
from scaler_scheduler.core import notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.departure_table import Departure
from scaler_scheduler.core.state import SchedulerState

MOVES_LIMIT = 32
"""Values of one agent that move at a time."""

PATIENCE_SECONDS = 60.0


def on_leaving(state: SchedulerState, agent: Agent, body: Leaving, now: float) -> None:
    """An agent leaves, and has values."""
    if agent.attached and agent.session not in state.departures:
        state.departures[agent.session] = Departure(now)
        advance(state, agent, now)


def on_kept(state: SchedulerState, keeper: Agent, key: ObjectKey, now: float) -> None:
    """An agent has fetched a value."""
    for session, departure in list(state.departures.items()):
        if departure.moves.get(key) == keeper.session:
            departure.arrived[key] = True
            departure.progress_at = now
            advance(state, state.agents[session], now)


def advance(state: SchedulerState, agent: Agent, now: float) -> None:
    """Note what has moved and what will not, begin the next turn, and let the agent go when there is none. Each tick
    does this, too: what a departure waits for may have happened without a message."""
    departure = state.departures[agent.session]
    for key, target in list(departure.moves.items()):
        _look_at(state, agent, departure, key, state.agents.get(target), now)
    if not departure.moves:
        _begin_moves(state, agent, departure, now)
    if not departure.moves and not agent.load.outstanding:
        del state.departures[agent.session]
        outbox.send(state, agent, MayLeave(), now)
        if departure.moved:
            notices.log(state, f"Agent {agent.title()} leaves: other agents keep {departure.moved} values of tasks")


def on_agent_lost(state: SchedulerState, agent: Agent, now: float) -> None:
    """An agent is gone for good. What it did not pass on in time is not awaited any more."""
    departure = state.departures.pop(agent.session, None)
    if departure is None:
        return
    for key in list(departure.moves):
        _give_up(state, departure, key, now)


def put_off(state: SchedulerState, seconds: float) -> None:
    """The scheduler did not run meanwhile."""
    for departure in state.departures.values():
        departure.progress_at += seconds


def _look_at(
    state: SchedulerState, agent: Agent, departure: Departure, key: ObjectKey, target: Agent | None, now: float
) -> None:
    """See what has become of a value that is to move."""
    client = state.clients.get(key.owner)
    if client is None or client.table.nodes.value_holder(key.number) != agent.index:
        _give_up(state, departure, key, now)
    elif target is None or target.is_leaving:
        departure.tried[key.owner].discard(key.number)
        _give_up(state, departure, key, now)
    elif key in departure.arrived and not state.relays.is_read(key):
        client.table.nodes.move_value(key.number, agent.index, target.index)
        departure.end(key)
        departure.moved += 1
    elif now - departure.progress_at >= PATIENCE_SECONDS:
        _give_up(state, departure, key, now)


def _give_up(state: SchedulerState, departure: Departure, key: ObjectKey, now: float) -> None:
    """A value does not move. If it is of a graph, its table knows which agents may have it; otherwise it is released
    where it was to be kept."""
    target = state.agents.get(departure.moves[key])
    departure.end(key)
    client = state.clients.get(key.owner)
    known = client.table.columns.describe(key.number) if client is not None else None
    if client is None or known is None or known[5].graph is not None:
        return
    client.table.nodes.forget_copies_of(key.number)
    if target is not None and known[2] != target.index:
        outbox.send(state, target, ObjectRelease((key,)), now)


def _begin_moves(state: SchedulerState, agent: Agent, departure: Departure, now: float) -> None:
    """Ask other agents to keep the next values."""
    keepers = _keepers(state, agent)
    if not keepers:
        return
    orders: dict[bytes, list[ObjectKey]] = {}
    for key, keeper in zip(_values(state, agent, departure), cycle(keepers), strict=False):
        departure.begin(key, keeper.session)
        orders.setdefault(keeper.session, []).append(key)
    for session, keys in orders.items():
        departure.progress_at = now
        outbox.send(state, state.agents[session], KeepValues(tuple(keys)), now)


def _values(state: SchedulerState, agent: Agent, departure: Departure) -> Iterator[ObjectKey]:
    """The next values that are to move, ``MOVES_LIMIT`` at most."""
    left = MOVES_LIMIT
    for client in state.clients.values():
        tasks = client.table.nodes.values_at(agent.index, departure.tried.get(client.session, ()), left)
        yield from [ObjectKey(client.session, task) for task in tasks]
        left -= len(tasks)
        if not left:
            return


def _keepers(state: SchedulerState, agent: Agent) -> list[Agent]:
    """The agents that can keep values: of other hosts, if there are any."""
    able = [
        each
        for each in state.agents.values()
        if each is not agent and each.is_available and each.load.slots and each.hello.minor >= DEPARTURES_SINCE_MINOR
    ]
    return [each for each in able if not each.store or each.store != agent.store] or able
