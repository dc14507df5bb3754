"""Calls of actors: each goes to the agent that has the actor, or fails if the actor has ended.

The task that made the actor, its anchor, is placed like any other, and continues until the actor ends. Its agent says
when the actor takes calls. Until then, calls wait here; so an anchor that has not started can be moved like any task.
An anchor for which deep calls wait goes before tasks that are less deep (``actor_starts``).
After a restart of the scheduler, calls wait until it is known which calls agents have, because these come first.
"""

from __future__ import annotations

from scaler_protocol.messages import ActorsReady, Status, TaskOptions
from scaler_scheduler.core import absent_clients, actor_starts, dropped_tasks, withdrawals
from scaler_scheduler.core.actor_queues import ActorKey
from scaler_scheduler.core.agents import Agent, agents_with_actors
from scaler_scheduler.core.assignments import assign_calls
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.starting_agents import has_reported
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState

_READY_LIMIT = 65_536
"""The most actors that one agent may name."""

_RETURN_SECONDS = 5.0
"""After a start of the scheduler, the clients that make actors may need so long to come back."""

ENDED_TEXT = b"The actor has ended."
UNKNOWN_TEXT = b"The actor is unknown to this cluster: the client that made it has left, or is one of another cluster."
_ENDED = Status.WORKER_DIED, ENDED_TEXT
_UNKNOWN = Status.NOT_FOUND, UNKNOWN_TEXT
_UNCLAIMED_TEXT = (
    b"The scheduler was restarted, and the worker that had the actor did not come back in time. The call may have run."
)


def on_ready(state: SchedulerState, agent: Agent, body: ActorsReady, now: float) -> None:
    """An agent has made these actors, or has had them since before a restart of the scheduler."""
    for column in body.columns:
        for task, attempt in zip(column.tasks, column.attempts, strict=False):
            if len(agent.actors) < _READY_LIMIT:
                agent.actors[column.session, task] = attempt
                state.actors.look_at((column.session, task))
                if _was_lost(state, (column.session, task)):
                    dropped_tasks.note_actor_ready_again(state, agent, column.session, task, now)


def route(state: SchedulerState, now: float) -> list[Agent]:
    """Look at the queues of calls to which something has happened. Returns the agents that were given calls."""
    given: dict[int, Agent] = {}
    queues = list(state.actors.waiting)
    state.actors.waiting.clear()
    for queue in queues:
        key = state.actors.key_of(queue)
        agent = _agent_of(state, key)
        if agent is not None:
            # not those of clients that wait for reports of agents: their earlier calls come first
            agent.outbox.extend(assign_calls(queue, agent.load, state.placement.locations))
            given[agent.index] = agent
            state.actors.kept[queue] = None
        elif _has_ended(state, key, now):
            _fail_all(state, queue, *(_ENDED if key[0] in state.clients else _UNKNOWN))
            state.actors.drop(queue)
        elif queue in state.actors.depths:
            actor_starts.precede(state, queue, now)
    return [agent for agent in given.values() if agent.outbox]


def on_tick(state: SchedulerState, now: float) -> None:
    """Look at all calls that wait: their actors may have ended. Forget what agents have said of ended actors. Take back
    what waits behind actors."""
    state.actors.look_at_all()
    for agent in agents_with_actors(state.agents):
        _forget_ended(state, agent, now)
        is_held = agent.load.has_only_live_actors()  # what has come before they were made could start elsewhere
        if is_held and agent.load.queued() and agent.is_available and now >= agent.rest_until:
            withdrawals.ask_for_all(state, agent, now)


def _agent_of(state: SchedulerState, key: ActorKey) -> Agent | None:
    """Return the agent that takes calls of an actor now, or None."""
    client = state.clients.get(key[0])
    known = client.table.columns.describe(key[1]) if client is not None else None
    if client is None or known is None or known.state != TaskState.ASSIGNED:
        return None
    agent = state.agent_by_index[known.agent_index]
    return agent if agent.actors.get(key) == known.attempt else None


def _has_ended(state: SchedulerState, key: ActorKey, now: float) -> bool:
    """Return whether there is no such actor, or never was. After a restart, its client may come later than another
    caller."""
    client = state.clients.get(key[0])
    if client is None:
        may_return = absent_clients.may_return(state, key[0], now)
        return not may_return and now >= state.started_at + _RETURN_SECONDS
    known = client.table.columns.describe(key[1])
    return not _may_still_come(state, client, key, now) if known is None else not known.record.hosts_actor


def _may_still_come(state: SchedulerState, client: ClientPeer, key: ActorKey, now: float) -> bool:
    """Return whether an actor that is not known may be on its way from its client, which was overtaken by another one
    that has the handle. A client that is away has the full time when it comes back. Calls never overtake the actors
    of their own client."""
    if key[1] < client.table.columns.next_task:
        return False
    if client.gone_at is not None and key in state.actors.called_by_others:
        state.actors.called_by_others[key] = now
    since = state.actors.called_by_others.get(key)
    return since is not None and now < since + _RETURN_SECONDS


def may_have_started(state: SchedulerState, client: ClientPeer, first: int, stop: int, now: float) -> bool:
    """After a restart: return whether held tasks of one run are calls of an actor of which it is not known yet whether
    an agent has it, or whose agent has not said yet which calls it has, or results of which."""
    options = _options_of_held(client, first, stop)
    if options is None or not options.actor:
        return False
    owner = state.clients.get(options.actor_session or client.session)
    if owner is None:
        may_return = absent_clients.may_return(state, options.actor_session or client.session, now)
        return may_return or now < state.started_at + _RETURN_SECONDS
    known = owner.table.columns.describe(options.actor)
    if known is None or known.state != TaskState.ASSIGNED:
        return known is not None and known.state == TaskState.HELD
    return not has_reported(state.agent_by_index[known.agent_index], now)


def are_calls(client: ClientPeer, first: int, stop: int) -> bool:
    """After a restart: return whether held tasks of one run are calls of an actor."""
    options = _options_of_held(client, first, stop)
    return options is not None and bool(options.actor)


def were_lost(state: SchedulerState, client: ClientPeer, first: int, stop: int) -> bool:
    """After a restart: return whether held tasks of one run are calls of an actor that is being made again. Its lost
    instance may have had them, too."""
    options = _options_of_held(client, first, stop)
    return options is not None and _was_lost(state, (options.actor_session or client.session, options.actor))


def _was_lost(state: SchedulerState, key: ActorKey) -> bool:
    """Return whether an actor is not the first instance, as far as this scheduler knows or agents have reported."""
    owner = state.clients.get(key[0])
    known = owner.table.columns.describe(key[1]) if owner is not None else None
    return known is not None and known.record.hosts_actor and (known.losses > 0 or state.forgotten.has(*key))


def fail_held(state: SchedulerState, client: ClientPeer, first: int, stop: int) -> None:
    """Calls never run a second time."""
    for task in range(first, stop):
        if client.table.columns.state(task) == TaskState.HELD:
            _fail(state, client, task, Status.WORKER_DIED, _UNCLAIMED_TEXT)


def note_made_again(state: SchedulerState, client: ClientPeer, first: int, stop: int, now: float) -> None:
    """No agent has claimed these tasks of one run, which are queued now: perhaps they make actors."""
    options = _options_of_held(client, first, stop)
    for task in range(first, stop) if options is not None and options.hosts_actor else ():
        if client.table.columns.state(task) == TaskState.HELD:
            dropped_tasks.note_actor_made_again(state, client.session, task, now)


def _options_of_held(client: ClientPeer, first: int, stop: int) -> TaskOptions | None:
    columns = client.table.columns
    held = next((task for task in range(first, stop) if columns.state(task) == TaskState.HELD), None)
    return None if held is None else columns.record(held).run.options


def _fail_all(state: SchedulerState, queue: QueueClass, status: Status, text: bytes) -> None:
    for client, first, stop in queue.take_ranges():
        for task in range(first, stop):
            if (
                client.table.columns.state(task) == TaskState.QUEUED
                and client.table.columns.record(task).queue is queue
            ):
                _fail(state, client, task, status, text)


def _fail(state: SchedulerState, client: ClientPeer, task: int, status: Status, text: bytes) -> None:
    client.forget(task)
    client.table.finish(task, status)
    client.row(task, status, text)
    if state.events.is_on:
        state.events.failed(client.table.columns.number, task, status, text)
    state.clients_with_results[client.session] = client


def _forget_ended(state: SchedulerState, agent: Agent, now: float) -> None:
    """After a restart, the clients of actors may come later than their agents."""
    for key, attempt in list(agent.actors.items()):
        client = state.clients.get(key[0])
        known = client.table.columns.describe(key[1]) if client is not None else None
        is_here = known is not None and known.agent_index == agent.index and known.attempt == attempt
        is_held = known is not None and known.state == TaskState.HELD
        is_fresh = now < agent.attached_at + HOLD_SECONDS and (known is None or is_held)
        if not is_here and not is_fresh and (known is not None or not absent_clients.may_return(state, key[0], now)):
            del agent.actors[key]
            state.placement.offer(agent)
