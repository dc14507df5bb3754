"""Tasks that agents are told to drop because their client is away: they may have started, and must not start twice.

The client states them again when it comes back, and they fail then (``once_holds``). Only agents can tell the next
scheduler of them, so agents are told, before they drop anything, and say so when they report to a scheduler that does
not know them.

| Event | Told |
|---|---|
| an agent drops what it has reported for a client that is away | this agent: the client waits for its report |
| a client is given up | all agents: no one knows which of them have had its calls |
| an actor is made again after a restart, because its agent is away | all agents: one of them gets it |
| an agent has an actor again that was lost | this agent: calls that the lost one may have had never go to this one |
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import STARTING_AGENTS_SINCE_MINOR, DroppedTasks
from scaler_scheduler.core import outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState


def note(state: SchedulerState, agent: Agent, session: bytes, tasks: Sequence[int], now: float) -> None:
    """An agent is about to be told to drop these tasks, or their results. It answers with results, which are dropped,
    too, but need not be noted again."""
    new = tuple(task for task in tasks if not state.forgotten.has(session, task))
    if new:
        state.forgotten.add(session, new)
        _tell(state, agent, DroppedTasks(session, new), now)


def note_given_up(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Agents are about to be told to drop all tasks of a client that has tasks with ``rerun=False``, or calls."""
    if not client.known_agents.demands and not client.has_called:
        return
    below = client.table.columns.next_task
    state.forgotten.add_below(client.session, below)
    for agent in state.agents.values() if client.gone_at is not None else ():  # others do not come back
        _tell(state, agent, DroppedTasks(client.session, below=below), now)


def note_actor_made_again(state: SchedulerState, session: bytes, task: int, now: float) -> None:
    """An actor is queued again, and any agent may get it."""
    state.forgotten.add(session, (task,))
    for agent in state.agents.values():
        _tell(state, agent, DroppedTasks(session, (task,)), now)


def note_actor_ready_again(state: SchedulerState, agent: Agent, session: bytes, task: int, now: float) -> None:
    """An agent has an actor that was lost before. It may have joined since then."""
    state.forgotten.add(session, (task,))
    _tell(state, agent, DroppedTasks(session, (task,)), now)


def _tell(state: SchedulerState, agent: Agent, body: DroppedTasks, now: float) -> None:
    if agent.hello.minor >= STARTING_AGENTS_SINCE_MINOR:
        outbox.send(state, agent, body, now)
