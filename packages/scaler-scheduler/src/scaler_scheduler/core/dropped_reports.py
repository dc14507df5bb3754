"""After a restart: agents report the tasks that an earlier scheduler had dropped (``dropped_tasks``)."""

from __future__ import annotations

from scaler_protocol.messages import DroppedTasks
from scaler_scheduler.core import actor_calls, once_holds
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState


def on_dropped(state: SchedulerState, agent: Agent, body: DroppedTasks, now: float) -> None:
    """The client of these tasks may state them later, or has stated them before."""
    if agent.has_reported:
        return
    state.forgotten.take_in(body)
    client = state.clients.get(body.session)
    if client is not None:
        _fail_held(state, client)


def _fail_held(state: SchedulerState, client: ClientPeer) -> None:
    for first, stop in client.once_holds.ranges():
        once_holds.fail_dropped(state, client, first, stop)
    for first, stop in client.holds.ranges():
        if actor_calls.are_calls(client, first, stop):
            once_holds.fail_dropped(state, client, first, stop)
