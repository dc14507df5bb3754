"""Messages of clients about tasks, and their questions."""

from __future__ import annotations

from scaler_protocol.messages import Cancel, Clear, ClusterInfoReply, ClusterInfoRequest, ExplainRequest, Goodbye
from scaler_scheduler.core import cancellation, explanation, object_release, outbox, stated_cancels, unstarted_cancels
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Describe
from scaler_scheduler.core.limits import DESCRIPTION_SECONDS
from scaler_scheduler.core.state import SchedulerState


def on_cancel(state: SchedulerState, client: ClientPeer, body: Cancel, now: float) -> None:
    """A client cancels tasks of its own."""
    for column in body.columns:
        if column.session == client.session and body.unstarted_only:
            unstarted_cancels.on_cancel(state, client, column.tasks, now)
        elif column.session == client.session:
            cancellation.cancel(state, client, column.tasks, now)
            stated_cancels.on_cancel(state, client, column.tasks, now)


def on_clear(state: SchedulerState, client: ClientPeer, body: Clear, now: float) -> None:
    """A client cancels all its tasks and releases its objects; the session continues."""
    cancellation.cancel(state, client, None, now)
    client.waiting.clear()
    client.holds.clear()
    client.once_holds.clear()
    object_release.release_objects(state, client, list(client.objects), now)


def on_goodbye(state: SchedulerState, client: ClientPeer, body: Goodbye, now: float) -> None:
    """A client leaves."""
    outbox.acknowledge(state, client, now)
    outbox.ignore(state, client.session)
    cancellation.end_client(state, client, now)


def on_explain(state: SchedulerState, client: ClientPeer, body: ExplainRequest, now: float) -> None:
    """A client asks why a task has not ended."""
    task = body.task
    outbox.send(state, client, explanation.answer(task, explanation.explain(state, client.session, task)), now)


def on_cluster_info_request(state: SchedulerState, client: ClientPeer, body: ClusterInfoRequest, now: float) -> None:
    """A client asks for a description of the cluster. A recent one is sent at once, and one that is being made goes to
    all who have asked for it meanwhile."""
    at, snapshot = state.description
    if now - at < DESCRIPTION_SECONDS:
        outbox.send(state, client, ClusterInfoReply(snapshot), now)
        return
    if not state.await_description:
        state.effects.append(Describe())
    state.await_description.append(client.session)


def on_described(state: SchedulerState, snapshot: bytes, now: float) -> None:
    """The shell has encoded the description that clients requested; empty: it is too large for a message."""
    state.description = now, snapshot
    sessions, state.await_description = state.await_description, []
    for session in sessions:
        client = state.clients.get(session)
        if client is not None:
            outbox.send(state, client, ClusterInfoReply(snapshot), now)
