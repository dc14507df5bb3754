"""Clients that were away while the scheduler was restarted: how long everything of theirs is kept for them.

A client may be stopped, or hold the GIL, while its scheduler is replaced. The new scheduler does not know it, but
agents and stores still have its tasks, results, actors and objects. It has as long to come back as a client whose
connection ends while the scheduler runs: ``client_timeout_seconds``, from the start of the scheduler. It is back when
it has begun to state what it has: a program that holds the GIL may need seconds from its Hello to the next message.

Meanwhile its running tasks and actors occupy workers. No table has them, so they are counted from heartbeats.
"""

from __future__ import annotations

from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState


def note_earlier_scheduler(state: SchedulerState) -> None:
    """A peer has been with an earlier scheduler, so there may be clients that are away."""
    if not state.absent.return_until:
        state.absent.return_until = state.started_at + state.settings.client_timeout_seconds


def may_return(state: SchedulerState, session: bytes, now: float) -> bool:
    """Return whether a client of an earlier scheduler is still to come, or to state what it has."""
    return _is_absent(state, session) and state.absent.may_return(session, now)


def awaited_until(state: SchedulerState, session: bytes, since: float) -> float:
    """Return until when something is kept for a client that does not claim it. ``since``: when the scheduler learned of
    it. A client that is here has a second from then, and as long as it goes on stating what it has."""
    until = since + HOLD_SECONDS
    if may_return(state, session, since):
        return max(until, state.absent.return_until)
    client = state.clients.get(session)
    return until if client is None else max(until, client.states_until)


def count_load(state: SchedulerState, agent: Agent) -> None:
    """Count the workers of an agent that run tasks of absent clients, or have actors of theirs. The last heartbeat
    names what each worker has executed for a second: a task, an actor, or a call of one."""
    if not state.unclaimed.has_tasks_at(agent):
        agent.load.set_unclaimed(0, 0)
        return
    running = agent.heartbeat.running_tasks if agent.heartbeat is not None else ()
    actors = sum(_is_absent(state, session) for session, _ in agent.actors)
    tasks = max(sum(_is_absent(state, each.session) for each in running), actors)
    agent.load.set_unclaimed(min(tasks, agent.load.slots + agent.load.lent), min(actors, agent.load.slots))


def _is_absent(state: SchedulerState, session: bytes) -> bool:
    client = state.clients.get(session)
    return client is None or not client.has_stated
