"""Locks that clients and tasks share by name: what sessions request. See ``lock_table``."""

from __future__ import annotations

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import LOCK_NAME_LIMIT_BYTES, LockAction, LockRequest, LockState
from scaler_scheduler.core import client_endings, lock_table
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.lock_table import QueuedLockRequest, Requests
from scaler_scheduler.core.locks import release, reply
from scaler_scheduler.core.state import SchedulerState

REQUESTS_LIMIT = 4096
"""Requests that one session may have, whether they hold locks or wait."""

_TAKEN_TEXT = "The lock was given to others while the scheduler was out of reach."


def on_request(state: SchedulerState, client: ClientPeer, body: LockRequest, now: float) -> None:
    """A session asks for a lock, or releases one."""
    table = state.locks
    if body.action == LockAction.RELEASE:
        reply(state, client, body.number, release(state, client.session, body.number, now), now)
    elif len(body.name.encode()) > LOCK_NAME_LIMIT_BYTES:
        text = f"The name of a lock has at most {LOCK_NAME_LIMIT_BYTES} bytes."
        reply(state, client, body.number, LockState.REFUSED, now, text)
    elif body.action == LockAction.ASK:
        lock = table.locks.get(body.name)
        is_held = lock is not None and lock.holder is not None
        reply(state, client, body.number, LockState.HELD if is_held else LockState.FREE, now)
    else:
        _enter(state, client, body, now)


def _enter(state: SchedulerState, client: ClientPeer, body: LockRequest, now: float) -> None:
    """A new request, or one that a session made before the scheduler was restarted."""
    table = state.locks
    requests = table.by_session.setdefault(client.session, Requests())
    if len(body.task_session) not in (0, ID_SIZE_BYTES):
        client_endings.expel(state, client, f"The session of a task has {ID_SIZE_BYTES} bytes.", now)
        return
    if body.number <= requests.last:
        reply(state, client, body.number, lock_table.state_of(table, requests.by_number.get(body.number)), now)
        return
    requests.last = body.number
    if len(requests.by_number) >= REQUESTS_LIMIT:
        text = f"This client already holds or waits for {REQUESTS_LIMIT} locks: release some first."
        reply(state, client, body.number, LockState.REFUSED, now, text)
        return
    outcome = lock_table.place(table, QueuedLockRequest(client.session, body), body.action)
    reply(state, client, body.number, outcome, now, _TAKEN_TEXT if outcome == LockState.LOST else "")
