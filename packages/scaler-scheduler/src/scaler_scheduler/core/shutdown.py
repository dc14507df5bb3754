"""The shutdown of the scheduler: a client requests it, or the process is told to stop."""

from __future__ import annotations

from scaler_protocol.messages import ShutdownReply, ShutdownRequest, Stop
from scaler_scheduler.core import admission, notices, outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Quit
from scaler_scheduler.core.settings import STOP_SECONDS
from scaler_scheduler.core.state import SchedulerState

PROTECTED_TEXT = "Scheduler is in protected mode. Can't shutdown"
NOT_ADMIN_TEXT = "This client's key may not shut the scheduler down: that needs admin.key"


def on_request(state: SchedulerState, client: ClientPeer, body: ShutdownRequest, now: float) -> None:
    """A client asks the scheduler to shut down."""
    if state.settings.protected:
        outbox.send(state, client, ShutdownReply(False, PROTECTED_TEXT), now)
        return
    if not admission.is_operator(state, client):
        outbox.send(state, client, ShutdownReply(False, NOT_ADMIN_TEXT), now)
        return
    outbox.send(state, client, ShutdownReply(True), now)
    state.shutdown_requested_by[client.session] = True
    notices.log(state, "Scheduler: a client has requested the shutdown")
    state.is_stopping = True
    state.quit_at = now + STOP_SECONDS
    for agent in state.agents.values():
        outbox.send(state, agent, Stop(), now)


def on_stop(state: SchedulerState, now: float, grace_seconds: float) -> None:
    """The process was told to stop: dispatch nothing more, and quit when running tasks have ended, or after
    ``grace_seconds``."""
    state.is_stopping = True
    state.quit_at = now + grace_seconds


def quit_when_done(state: SchedulerState, now: float) -> None:
    """Quit at the end of a turn while stopping, once nothing more is expected."""
    if state.shutdown_requested_by:
        waiting = any(
            state.clients[session].link.in_flight for session in state.shutdown_requested_by if session in state.clients
        )
        if not state.agents and not waiting:
            quit_now(state)
    elif not any(agent.load.outstanding for agent in state.agents.values()):
        if not any(client.connection.is_open and client.link.in_flight for client in state.clients.values()):
            quit_now(state)
        else:
            state.quit_at = min(state.quit_at or now + STOP_SECONDS, now + STOP_SECONDS)


def quit_now(state: SchedulerState) -> None:
    """Have the shell end the process."""
    state.quit_at = None
    if not state.has_quit:
        state.has_quit = True
        state.effects.append(Quit())
