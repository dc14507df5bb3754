"""The actors that agents have, or that wait for a worker, for monitors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import RunningTask
from scaler_protocol.monitor.messages import ActorStatus
from scaler_protocol.process_names import nested_name
from scaler_scheduler.core.actor_queues import ActorKey
from scaler_scheduler.core.agents import Agent, agents_with_actors
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS
from scaler_scheduler.core.task_facts import TaskFacts

ROWS_LIMIT = 200
"""Actors that monitors get: those with most unfinished calls."""

ACTORS_LOOKED_AT = 10_000
"""Actors, of all clients together, that are looked at for one snapshot."""

CALLS_LOOKED_AT = 100_000
"""Runs and calls, of all clients together, that are looked at for unfinished calls."""


def actors_of(state: SchedulerState, now: float) -> tuple[tuple[ActorStatus, ...], int]:
    """Return the actors with most unfinished calls, and how many actors there are."""
    agents = agents_with_actors(state.agents)
    if not agents and not state.actors and not state.actors.made:
        return (), 0
    keys = dict.fromkeys(key for agent in agents for key in agent.actors)
    keys.update(state.actors.made)
    keys.update(dict.fromkeys(map(state.actors.key_of, state.actors)))
    found = [(key, known) for key in islice(keys, ACTORS_LOOKED_AT) if (known := _anchor(state, key)) is not None]
    calls = _calls(state)
    found.sort(key=lambda entry: -calls.get(entry[0], (0, 0))[0])
    workers = dict(_workers(state, agents))
    rows = (_row(state, key, known, calls.get(key, (0, 0)), workers.get(key, ""), now) for key, known in found)
    return tuple(islice(rows, ROWS_LIMIT)), len(found)


def forget_ended(state: SchedulerState) -> None:
    """Forget the actors whose tasks have ended."""
    state.actors.made = {key: None for key in state.actors.made if _anchor(state, key) is not None}


def _anchor(state: SchedulerState, key: ActorKey) -> TaskFacts | None:
    """Return the facts about the task that makes an actor, or None if no task with this key makes one: clients choose
    the numbers in their calls."""
    client = state.clients.get(key[0])
    known = client.table.columns.describe(key[1]) if client is not None else None
    return known if known is not None and known.record.hosts_actor else None


def _calls(state: SchedulerState) -> dict[ActorKey, tuple[int, int]]:
    """Return how many calls of each actor are unfinished, and how many of these its agent has."""
    counted: dict[QueueClass, list[int]] = {}
    room = CALLS_LOOKED_AT
    for client in state.clients.values():
        if client.has_called and room > 0:
            room = client.table.columns.count_calls(counted, room)
    return {
        state.actors.key_of(queue): (counted[queue][0], counted[queue][1]) for queue in state.actors if queue in counted
    }


def _workers(state: SchedulerState, agents: list[Agent]) -> Iterator[tuple[ActorKey, str]]:
    """The names of the worker processes of the actors, as far as agents have reported what runs there."""
    for agent in agents:
        for task in agent.heartbeat.running_tasks if agent.heartbeat is not None else ():
            key = _actor_of(state, task)
            if key is not None:
                yield key, _process_name(agent, task.worker)


def _actor_of(state: SchedulerState, task: RunningTask) -> ActorKey | None:
    """Return the actor that a running task makes, or of which it is a call; None: neither."""
    client = state.clients.get(task.session)
    known = client.table.columns.describe(task.task) if client is not None else None
    if known is None or known.attempt != task.attempt:
        return None
    if known.record.hosts_actor:
        return task.session, task.task
    options = known.record.run.options
    return (options.actor_session or task.session, options.actor) if known.record.is_call else None


def _process_name(agent: Agent, worker: int) -> str:
    if worker < len(agent.worker_names):
        return agent.worker_names[worker]
    return "" if worker >= NO_WORKER else nested_name(agent.name, worker - len(agent.worker_names) + 1)


def _row(
    state: SchedulerState, key: ActorKey, known: TaskFacts, calls: tuple[int, int], worker: str, now: float
) -> ActorStatus:
    record, client = known.record, state.clients[key[0]]
    agent = state.agent_by_index.get(known.agent_index) if known.state in ON_HOSTS else None
    is_made = agent is not None and agent.actors.get(key) == known.attempt
    unfinished, on_host = calls
    running = min(on_host, max(1, record.run.options.max_concurrency)) if is_made else 0
    return ActorStatus(
        session=client.shown_id,
        task=key[1],
        function=record.function.name,
        host=agent.host if agent is not None else "",
        worker=worker if agent is not None else "",
        is_made=is_made,
        running=running,
        waiting=unfinished - running,
        restarts=known.deaths + known.losses,
        restarts_limit=record.retries,
        seconds=max(0.0, now - record.entered_at),
        module=record.function.module,
        name=record.run.options.actor_name,
    )
