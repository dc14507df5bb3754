"""After a restart of the scheduler: tasks with ``rerun=False`` are held until it is known which of them have started.

``starting_agents`` describes how clients learn the names of the agents that may have started some.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.ids import split_ids
from scaler_protocol.messages import (
    STARTING_AGENTS_LIMIT,
    AllReported,
    StartingAgents,
    Status,
)
from scaler_scheduler.core import cancellation, graph_progress, requeue, task_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.settings import HOLD_ONCE_SECONDS, HOLD_SECONDS
from scaler_scheduler.core.starting_agents import has_reported, takes_names
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState

MISSING_TEXT = (
    "The scheduler was restarted, and a worker that may have started this task did not come back within "
    f"{HOLD_ONCE_SECONDS:g} seconds. Look at what the task has done before you submit it again."
)


def on_stated(state: SchedulerState, client: ClientPeer, body: StartingAgents, now: float) -> None:
    """A client that has come back names the agents that may have started its tasks."""
    known = client.known_agents
    for session in split_ids(body.sessions):
        known.learn([session])
        known.awaited[session] = None
    if len(known) > STARTING_AGENTS_LIMIT:
        text = f"A client may name at most {STARTING_AGENTS_LIMIT} agents that may have started its tasks."
        cancellation.end_with_reason(state, client, text, now)
        return
    client.once_holds.extend(now)
    state.introductions[client.session] = client


def on_all_reported(state: SchedulerState, agent: Agent, body: AllReported, now: float) -> None:
    """An agent has said everything that it has from before a restart."""
    agent.has_reported = True


def look_at_held(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """End the hold of tasks with ``rerun=False`` if all agents that may have started some have reported, or if it has
    lasted for long enough."""
    known = client.known_agents
    for session in [each for each in known.awaited if _has_reported(state, each, now)]:
        del known.awaited[session]
    is_complete = takes_names(client) and not known.awaited
    if client.once_holds.are_over(now) or (is_complete and client.once_holds.have_lasted(HOLD_SECONDS, now)):
        _end_hold(state, client, now)


def _has_reported(state: SchedulerState, session: bytes, now: float) -> bool:
    agent = state.agents.get(session)
    return agent is not None and has_reported(agent, now)


def _end_hold(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Queue the tasks that no agent has reported. Those that may have started fail instead."""
    known = client.known_agents
    missing, known.awaited = list(known.awaited), {}
    ranges, nodes = client.once_holds.end(), client.table.nodes
    _note_started_nodes(state, client, bool(missing))
    for first, stop in ranges if missing else ():
        _fail_held(state, client, range(first, stop), MISSING_TEXT)
    for first, stop in ranges:
        requeue.push(client, client.table.ready(first, stop))
    nodes.end_holds(True)
    graph_progress.apply_changes(state, client, now, MISSING_TEXT)
    for session in missing:
        if session not in state.agents and known.lose(session):
            state.clients_to_part[client.session] = client


def _note_started_nodes(state: SchedulerState, client: ClientPeer, all_may_have: bool) -> None:
    """Held nodes of graphs that may have started end when their graph is looked at, if they are needed."""
    if not all_may_have and client.session not in state.forgotten:
        return
    for task in client.table.nodes.held_once():
        if all_may_have or state.forgotten.has(client.session, task):
            client.table.nodes.note_started(task)


def fail_dropped(state: SchedulerState, client: ClientPeer, first: int, stop: int) -> None:
    """A client has stated tasks again that must not start twice. Those that agents were told to drop fail at once, and
    not when their hold is over: if the scheduler is restarted meanwhile, the next one does not know of this."""
    if client.session in state.forgotten:
        dropped = [task for task in range(first, stop) if state.forgotten.has(client.session, task)]
        _fail_held(state, client, dropped, task_endings.DROPPED_TEXT)


def _fail_held(state: SchedulerState, client: ClientPeer, tasks: Iterable[int], text: str) -> None:
    """These of the held tasks may have started."""
    for task in tasks:
        if client.table.columns.state(task) == TaskState.HELD:
            client.table.finish(task, Status.WORKER_DIED)
            task_endings.report_failed(state, client, task, Status.WORKER_DIED, text)
