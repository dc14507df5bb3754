"""Timeouts that concern clients: absence, holds after a restart, large results that are not fetched."""

from __future__ import annotations

from scaler_protocol.messages import Output
from scaler_scheduler.core import (
    actor_calls,
    cancellation,
    definitions,
    notices,
    once_holds,
    outbox,
    requeue,
    stated_cancels,
)
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState


def look_at_client(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Do what is due for one client at each tick."""
    if client.gone_at is not None and now - client.gone_at >= state.settings.client_timeout_seconds:
        notices.log(state, f"Client {client.session.hex()[:8]} is gone: its tasks are cancelled", "WARNING")
        cancellation.end_client(state, client, now)
        return
    if client.holds.are_over(now):
        client.table.nodes.end_holds(False)
        for first, stop in client.holds.end():
            if actor_calls.may_have_started(state, client, first, stop, now):
                client.holds.keep(first, stop, now)
            elif actor_calls.were_lost(state, client, first, stop):
                actor_calls.fail_held(state, client, first, stop)
            else:
                actor_calls.note_made_again(state, client, first, stop, now)
                requeue.push(client, client.table.ready(first, stop))
    once_holds.look_at_held(state, client, now)
    if client.output_left_out_bytes and client.connection.is_open and not client.is_paused:
        outbox.send(state, client, Output(client.session, 0, 1, client.take_note_of_left_out()), now)  # to its stdout
    stated_cancels.forget(client, now)
    if client.unwanted:
        definitions.drop_unwanted(state, client, now)
    for task in [task for task in client.fetching if client.table.columns.state(task) == TaskState.ENDED]:
        client.forget(task)  # it ran again, and ended without a large result
    if client.large:
        _expire_large_results(state, client, now)
    if client.is_orphan and client.table.columns.unfinished == 0:
        cancellation.remove_client(state, client, now)


def _expire_large_results(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Drop large results that the client has not fetched in time."""
    limit = now - state.settings.object_retention_seconds
    expired = [task for task, at in client.large.items() if at <= limit and task not in client.fetching]
    if expired:
        cancellation.cancel(state, client, expired, now)
