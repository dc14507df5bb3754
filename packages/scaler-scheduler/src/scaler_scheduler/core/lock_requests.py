"""Locks and semaphores that clients and tasks share by name: what sessions request. See ``lock_table``."""

from __future__ import annotations

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import LOCK_NAME_LIMIT_BYTES, LockAction, LockRequest, LockState
from scaler_scheduler.core import cancellation, lock_table
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.lock_table import QueuedLockRequest, Requests
from scaler_scheduler.core.locks import release, reply
from scaler_scheduler.core.state import SchedulerState

REQUESTS_LIMIT = 4096
"""Requests that one session may have, whether they hold locks or wait."""


def on_request(state: SchedulerState, client: ClientPeer, body: LockRequest, now: float) -> None:
    """A session asks for a lock, or releases one."""
    if body.kind not in lock_table.NOUNS:
        cancellation.end_with_reason(
            state, client, f"The kind {body.kind.name.lower()} is not requested like a lock.", now
        )
    elif body.action == LockAction.RELEASE:
        outcome = release(state, client.session, body.number, now)
        reply(state, client, body.kind, body.number, outcome, now)
    elif reason := _reason_to_refuse(body):
        reply(state, client, body.kind, body.number, LockState.REFUSED, now, reason)
    elif body.action == LockAction.ASK:
        _answer(state, client, body, now)
    else:
        _enter(state, client, body, now)


def _reason_to_refuse(body: LockRequest) -> str:
    """Return why the request is refused; empty if it can be met."""
    noun = lock_table.noun_of(body.kind)
    if len(body.name.encode()) > LOCK_NAME_LIMIT_BYTES:
        return f"The name of a {noun} has at most {LOCK_NAME_LIMIT_BYTES} bytes."
    if not lock_table.limit_of(body):
        return f"The limit of a {noun} is at least 1."
    return ""


def _answer(state: SchedulerState, client: ClientPeer, body: LockRequest, now: float) -> None:
    lock = state.locks.locks.get(lock_table.key_of(body))
    other = _other_limit(state, body)
    is_free = lock is None or lock.is_free
    if other:
        reply(state, client, body.kind, body.number, LockState.REFUSED, now, other)
    elif is_free and state.locks.is_quiet and _postpone(state, client, body):
        pass  # another session may be about to state that it holds it
    else:
        reply(state, client, body.kind, body.number, LockState.FREE if is_free else LockState.HELD, now)


def _postpone(state: SchedulerState, client: ClientPeer, body: LockRequest) -> bool:
    """Answer a question when all sessions had time to state their locks. Return False if there are too many."""
    questions = state.locks.questions.setdefault(client.session, [])
    has_room = len(questions) < REQUESTS_LIMIT
    if has_room:
        questions.append(body)
    return has_room


def on_tick(state: SchedulerState, now: float) -> None:
    """Sessions had time to state their locks: questions that were postponed are answered."""
    if state.locks.is_quiet or not state.locks.questions:
        return
    postponed, state.locks.questions = state.locks.questions, {}
    for session, questions in postponed.items():
        client = state.clients.get(session)
        if client is not None:
            for body in questions:
                _answer(state, client, body, now)


def _other_limit(state: SchedulerState, body: LockRequest) -> str:
    """Return a sentence if other requests for the semaphore have another limit; empty otherwise."""
    lock = state.locks.locks.get(lock_table.key_of(body))
    limit = lock_table.limit_of(body)
    if lock is None or lock.limit == limit:
        return ""
    return f"Others use it with the limit {lock.limit}, not {limit}. Use one limit for all."


def _enter(state: SchedulerState, client: ClientPeer, body: LockRequest, now: float) -> None:
    """A new request, or one that a session made before the scheduler was restarted."""
    table = state.locks
    requests = table.by_session.setdefault(client.session, Requests())
    if len(body.task_session) not in (0, ID_SIZE_BYTES):
        cancellation.end_with_reason(state, client, f"The session of a task has {ID_SIZE_BYTES} bytes.", now)
        return
    if body.number <= requests.last:
        outcome = lock_table.state_of(table, requests.by_number.get(body.number))
        reply(state, client, body.kind, body.number, outcome, now)
        return
    requests.last = body.number
    refusal = _other_limit(state, body)
    if len(requests.by_number) >= REQUESTS_LIMIT:
        refusal = f"This client already holds or waits for {REQUESTS_LIMIT} locks: release some first."
    if refusal:
        outcome = LockState.LOST if body.action == LockAction.RESTATE else LockState.REFUSED
        reply(state, client, body.kind, body.number, outcome, now, refusal)
        return
    outcome = lock_table.place(table, QueuedLockRequest(client.session, body), body.action)
    taken = f"The {lock_table.noun_of(body.kind)} was given to others while the scheduler was out of reach."
    reply(state, client, body.kind, body.number, outcome, now, taken if outcome == LockState.LOST else "")
