"""Agents that leave cleanly: the values of tasks that only they have move to agents that stay.

| Event | Consequence |
|---|---|
| an agent says Leaving | it gets no tasks, and others must fetch its values (KeepValues), ``MOVES_LIMIT`` at a time |
| it was connected before a restart of the scheduler | the same, when it has had the time to report what it has |
| another agent has a value, which is not being read from the first one | from now on it is read there |
| another agent cannot take a value | the value stays, and is lost with its agent |
| all of a turn have moved | the next ones; also while tasks still run there, whose values may be needed, too |
| nothing is left that could move, and no task | the agent is told that it MayLeave |
| the agent that should keep a value goes | another one is asked |
| its store dies | another one is asked, or it again, once |
| a value is not needed any more, or lost | it does not move |
| nothing has arrived for ``PATIENCE_SECONDS`` | what is on its way is given up, and those agents are not asked again |
| the agent says Goodbye, or is lost | what no other agent has by then is lost, as with any agent |

An agent whose grace time ends goes without MayLeave. If no agent can take values, it may leave at once, and the values
are made again when they are needed. Objects that clients have sent do not move: their clients have them.

A host often leaves as a whole, so an agent that leaves by itself has its values moved to other hosts, if there are any,
to all of their agents in turn. If the agent was told to leave, its host stays. Then agents that share its store come
first, which have the bytes already, and one agent takes all values, if one has room for them: one that no worker
manager has started, or else the one with most values. Scaling drains the agents with fewest values first, so a value
that moves joins more of them, and none moves often.

The tables of tasks are searched for values once, and again when tasks of the agent have ended.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import cycle

from scaler_protocol.messages import (
    DEPARTURES_SINCE_MINOR,
    Drain,
    KeepValues,
    Leaving,
    MayLeave,
    ObjectKey,
    ObjectRelease,
)
from scaler_protocol.objects.free_space import fits
from scaler_scheduler.core import notices, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.departure_table import Departure
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState

MOVES_LIMIT = 32
"""Values of one agent that move at a time."""

PATIENCE_SECONDS = 60.0

RETRY_SECONDS = 5.0
"""If no agent can keep values, the scheduler looks for one again after this time, or when another agent joins."""


def drain(state: SchedulerState, agent: Agent, now: float) -> None:
    """Have an agent leave when its running tasks have ended and its values have moved."""
    agent.is_paused = agent.is_drained = True
    agent.drained_at = now
    outbox.send(state, agent, Drain(), now)
    state.placement.offer(agent)


def is_draining(agent: Agent) -> bool:
    """Return whether the agent has been told to leave, or has said that it leaves."""
    return agent.is_drained or agent.is_leaving


def on_leaving(state: SchedulerState, agent: Agent, body: Leaving, now: float) -> None:
    """An agent leaves, and has values. To say it again changes nothing."""
    if not agent.attached or agent.session in state.departures:
        return
    agent.is_leaving = True
    state.placement.offer(agent)
    state.departures[agent.session] = Departure(now, held=count_values(state) if agent.is_drained else ())
    advance(state, agent, now)


def on_kept(state: SchedulerState, keeper: Agent, key: ObjectKey, now: float) -> None:
    """An agent has fetched a value."""
    agent = _leaving_holder(state, keeper, key)
    if agent is not None:
        departure = state.departures[agent.session]
        departure.arrived[key] = True
        departure.progress_at = now
        advance(state, agent, now)


def on_refused(state: SchedulerState, keeper: Agent, key: ObjectKey, now: float) -> None:
    """An agent could not take a value, because it has no room."""
    agent = _leaving_holder(state, keeper, key)
    if agent is not None and key not in state.departures[agent.session].arrived:
        _give_up(state, state.departures[agent.session], key, now)


def on_copy_lost(state: SchedulerState, keeper: Agent, key: ObjectKey, now: float) -> None:
    """The store of an agent that has fetched a value, or was to, has died. It has another one soon. That is believed
    once for each value, so that no agent makes another one wait indefinitely."""
    agent = _leaving_holder(state, keeper, key)
    if agent is not None:
        departure = state.departures[agent.session]
        if key in departure.lost:
            _give_up(state, departure, key, now)
        else:
            departure.lost[key] = True
            _try_another(state, departure, key, now)


def _leaving_holder(state: SchedulerState, keeper: Agent, key: ObjectKey) -> Agent | None:
    """The agent that leaves, if this is a value of it that ``keeper`` is to keep."""
    client = state.clients.get(key.owner) if state.departures else None
    holder = client.table.nodes.value_holder(key.number) if client is not None else None
    agent = state.agent_by_index.get(holder) if holder is not None else None
    departure = state.departures.get(agent.session) if agent is not None else None
    return agent if departure is not None and departure.moves.get(key) == keeper.session else None


def advance(state: SchedulerState, agent: Agent, now: float) -> None:
    """Note what has moved and what will not, begin the next turn, and let the agent go when there is none. Each tick
    does this, too: what a departure waits for may have happened without a message."""
    departure = state.departures[agent.session]
    if departure.is_over or (agent.hello.epoch and now < agent.attached_at + 2 * HOLD_SECONDS):
        return  # it may still report what it had before a restart, and clients may still ask for that
    for key, target in list(departure.moves.items()):
        _look_at(state, agent, departure, key, state.agents.get(target), now)
    if not departure.moves:
        _begin_moves(state, agent, departure, now)
    if not departure.moves and not agent.load.outstanding and not state.unclaimed.has_tasks_at(agent):
        departure.is_over = True
        outbox.send(state, agent, MayLeave(), now)
        if departure.moved:
            notices.log(state, f"Agent {agent.title()} leaves: other agents keep {departure.moved} values of tasks")


def on_agent_lost(state: SchedulerState, agent: Agent, now: float) -> None:
    """An agent is gone for good. A value that its keeper has by now is read there, even if it was still read from this
    agent; the others are not awaited any more."""
    departure = state.departures.pop(agent.session, None)
    if departure is None:
        return
    for key, session in list(departure.moves.items()):
        keeper = state.agents.get(session)
        if key in departure.arrived and keeper is not None and _has_value(state, agent, key):
            _pass_on(state, agent, departure, key, keeper)
        else:
            _give_up(state, departure, key, now)


def put_off(state: SchedulerState, seconds: float) -> None:
    """Extend the patience with departures by the time in which the scheduler did not run."""
    for departure in state.departures.values():
        departure.progress_at += seconds


# ---- values on their way ---------------------------------------------------------------------------------------------


def _look_at(
    state: SchedulerState, agent: Agent, departure: Departure, key: ObjectKey, target: Agent | None, now: float
) -> None:
    """Update the record of a value that is to move."""
    if not _has_value(state, agent, key):
        _give_up(state, departure, key, now)
    elif target is None or target.is_leaving:
        _try_another(state, departure, key, now)
    elif key in departure.arrived and not state.relays.is_read(key):
        _pass_on(state, agent, departure, key, target)
    elif now - departure.progress_at >= PATIENCE_SECONDS:
        if key not in departure.arrived:
            departure.mute[target.session] = True
        _give_up(state, departure, key, now)


def _has_value(state: SchedulerState, agent: Agent, key: ObjectKey) -> bool:
    """Return whether the table of the client knows the agent as the one that has the value."""
    client = state.clients.get(key.owner)
    return client is not None and client.table.nodes.value_holder(key.number) == agent.index


def _pass_on(state: SchedulerState, agent: Agent, departure: Departure, key: ObjectKey, keeper: Agent) -> None:
    """Have readers of the value get it from its keeper from now on."""
    state.clients[key.owner].table.nodes.move_value(key.number, agent.index, keeper.index)
    departure.end(key)
    departure.moved += 1


def _give_up(state: SchedulerState, departure: Departure, key: ObjectKey, now: float) -> None:
    """Give up moving a value: it stays, and is lost with its agent."""
    _release_at_keeper(state, departure, key, now)
    departure.end(key)


def _try_another(state: SchedulerState, departure: Departure, key: ObjectKey, now: float) -> None:
    """A value does not move to this agent."""
    _release_at_keeper(state, departure, key, now)
    departure.try_again(key)


def _release_at_keeper(state: SchedulerState, departure: Departure, key: ObjectKey, now: float) -> None:
    """Release a value where it was to be kept. If it is of a graph, its table knows which agents may have it."""
    target = state.agents.get(departure.moves[key])
    client = state.clients.get(key.owner)
    known = client.table.columns.describe(key.number) if client is not None else None
    if client is None or known is None or known.record.graph is not None:
        return
    client.table.nodes.forget_copies_of(key.number)
    if target is not None and known.agent_index != target.index:
        outbox.send(state, target, ObjectRelease((key,)), now)


def _begin_moves(state: SchedulerState, agent: Agent, departure: Departure, now: float) -> None:
    """Ask other agents to keep the next values."""
    while not departure.moves and (departure.waiting or _find_values(state, agent, departure)):
        if now < departure.retry_at and departure.agents_seen == state.next_agent_index:
            return
        keepers = _keepers(state, agent, departure)
        if not keepers:
            departure.retry_at, departure.agents_seen = now + RETRY_SECONDS, state.next_agent_index
            return
        _order(state, agent, departure, keepers, now)


def _find_values(state: SchedulerState, agent: Agent, departure: Departure) -> bool:
    """Look for values that are new, if tasks have ended since the last time. Returns whether there are any."""
    if departure.outstanding != agent.load.outstanding:
        departure.outstanding = agent.load.outstanding
        for client in state.clients.values():
            departure.note_values(client.session, client.table.nodes.values_at(agent.index))
    return bool(departure.waiting)


def _order(state: SchedulerState, agent: Agent, departure: Departure, keepers: list[Agent], now: float) -> None:
    orders: dict[bytes, list[ObjectKey]] = {}
    for key, keeper in zip(_next_values(state, agent, departure), cycle(keepers), strict=False):
        departure.moves[key] = keeper.session
        state.clients[key.owner].table.nodes.note_copy(key.number, keeper.index)  # it is told when the value is freed
        orders.setdefault(keeper.session, []).append(key)
    for session, keys in orders.items():
        departure.progress_at = now
        outbox.send(state, state.agents[session], KeepValues(tuple(keys)), now)


def _next_values(state: SchedulerState, agent: Agent, departure: Departure) -> Iterator[ObjectKey]:
    """Return the next values that are to move, at most ``MOVES_LIMIT``."""
    given = 0
    while departure.waiting and given < MOVES_LIMIT:
        key = departure.waiting.popleft()
        if _has_value(state, agent, key):
            given += 1
            yield key


# ---- agents that keep values -----------------------------------------------------------------------------------------


def count_values(state: SchedulerState) -> Sequence[int]:
    """Return how many values each agent has, by its index."""
    counts = array("q", [0]) * state.next_agent_index
    for client in state.clients.values():
        client.table.nodes.count_values(counts)
    return counts


def can_move(state: SchedulerState, agent: Agent) -> bool:
    """Return whether another agent can keep the values of this one, if it is told to leave."""
    is_able = agent.hello.minor >= DEPARTURES_SINCE_MINOR
    return is_able and any(_has_room(each, agent) for each in _able(state, agent))


def _keepers(state: SchedulerState, agent: Agent, departure: Departure) -> list[Agent]:
    """Return the agents that are asked in turn to keep values."""
    able = [each for each in _able(state, agent) if each.session not in departure.mute]
    roomy = [each for each in able if _has_room(each, agent)]
    neighbours = [each for each in roomy or able if _share_a_store(each, agent)]
    others = [each for each in roomy or able if not _share_a_store(each, agent)]
    if roomy and agent.is_drained:
        return [_most_lasting(neighbours or others, departure.held)]
    return others or neighbours


def _most_lasting(agents: list[Agent], held: Sequence[int]) -> Agent:
    """The agent that scaling drains last. ``held``: how many values each has, by index."""
    return min(
        agents,
        key=lambda each: (bool(each.manager_name), -held[each.index] if each.index < len(held) else 0, -each.index),
    )


def _able(state: SchedulerState, agent: Agent) -> list[Agent]:
    """Return the agents that stay, as far as is known, and whose version can keep values."""
    return [
        each
        for each in state.agents.values()
        if each is not agent and each.is_available and each.load.slots and each.hello.minor >= DEPARTURES_SINCE_MINOR
    ]


def _share_a_store(one: Agent, other: Agent) -> bool:
    return bool(one.store) and one.store == other.store


def _has_room(keeper: Agent, agent: Agent) -> bool:
    """Return whether one store has room for all that is in the other one, as far as is known."""
    mine, theirs = agent.store_status, keeper.store_status
    if mine is None or not agent.store or _share_a_store(keeper, agent):
        return True
    if theirs is None or not keeper.store:
        return not mine.used_bytes + mine.spilled_bytes
    return fits(mine, theirs)
