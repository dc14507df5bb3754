"""Locks and semaphores of clients and tasks: how requests end, and when they are granted. See ``lock_table``."""

from __future__ import annotations

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import CoordinationKind, LockReply, LockState
from scaler_scheduler.core import lock_table, named_table, notices, outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.lock_table import LockKey, LockQueue, QueuedLockRequest
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState

RETURN_LIMIT_SECONDS = 5.0
"""Maximum time for which nothing is granted while sessions of an earlier scheduler return."""

_TASK_ENDED_TEXT = "The task that used this {} has ended."


# ---- how requests end ------------------------------------------------------------------------------------------------


def release(state: SchedulerState, session: bytes, number: int, now: float) -> LockState:
    """A session releases a lock, or gives up waiting for it."""
    requests = state.locks.by_session.get(session)
    request = requests.by_number.get(number) if requests is not None else None
    if request is None:
        return LockState.LOST
    _end(state, request, now)
    return LockState.RELEASED


def on_session_ended(state: SchedulerState, session: bytes, now: float) -> None:
    """Nothing more comes from this session: the locks that it holds are released."""
    state.locks.away.discard(session)
    requests = state.locks.by_session.pop(session, None)
    for request in lock_table.holders_last(state.locks, requests.by_number.values()) if requests is not None else ():
        if lock_table.holds(state.locks, request):
            _warn(state, request, _left_text(request), now)
        _end(state, request, now)


def _left_text(request: QueuedLockRequest) -> str:
    if not request.owner:
        return f"client {request.session.hex()[:8]}, which held it, is gone"
    task, _ = request.execution
    return f"task {task} of client {request.owner.hex()[:8]} closed its client without releasing it"


def on_results(state: SchedulerState, run: ResultRun, now: float) -> None:
    """Executions of tasks have ended, and with them the requests that they made."""
    executions = state.locks.by_task.get(run.session)
    if executions is None:
        return
    for execution in zip(run.task_column, run.attempt_column, strict=True):
        if execution in executions:
            for request in lock_table.holders_last(state.locks, executions.pop(execution)):
                _end_with_task(state, request, now)
    if not executions:
        state.locks.by_task.pop(run.session, None)


def _end_with_task(state: SchedulerState, request: QueuedLockRequest, now: float) -> None:
    if lock_table.holds(state.locks, request):
        task, _ = request.execution
        _warn(state, request, f"task {task} of client {request.owner.hex()[:8]} ended without releasing it", now)
    _end(state, request, now)
    client = state.clients.get(request.session)
    if client is not None:
        kind = request.lock[0]
        reply(
            state, client, kind, request.number, LockState.LOST, now, _TASK_ENDED_TEXT.format(lock_table.noun_of(kind))
        )


def _end(state: SchedulerState, request: QueuedLockRequest, now: float) -> None:
    """End a request. If it held the lock, the next request gets it."""
    table = state.locks
    lock = table.locks[request.lock]
    if lock.holders.pop(request.key, None) is None:
        del lock.waiting[request.key]
    elif lock_table.is_actor_name(request.lock):
        named_table.free(state.named, (int(CoordinationKind.VARIABLE), request.lock[1]))
    lock_table.forget(table, request)
    _grant(state, request.lock, lock, now)


def _grant(state: SchedulerState, key: LockKey, lock: LockQueue, now: float) -> None:
    """Grant a lock to the requests that have waited longest, as far as it is free."""
    table = state.locks
    while lock.is_free and not table.is_quiet and (request := lock_table.next_request(table, lock)) is not None:
        del lock.waiting[request.key]
        lock.holders[request.key] = request
        lock_table.remember(table, key, len(lock.holders))
        client = state.clients.get(request.session)
        if client is not None:
            reply(state, client, key[0], request.number, LockState.GRANTED, now)
    if not lock.holders and not lock.waiting:
        table.locks.pop(key, None)


# ---- ends of connections ---------------------------------------------------------------------------------------------


def on_connection_ended(state: SchedulerState, session: bytes) -> None:
    """The session may come back."""
    state.locks.away.add(session)


def on_connection_resumed(state: SchedulerState, session: bytes, now: float) -> None:
    """The session has come back."""
    table = state.locks
    table.away.discard(session)
    requests = table.by_session.get(session)
    names = dict.fromkeys(each.lock for each in requests.by_number.values()) if requests is not None else ()
    for key in names:
        _grant(state, key, table.locks[key], now)


# ---- after a restart -------------------------------------------------------------------------------------------------


def on_return(state: SchedulerState, now: float) -> None:
    """A session of an earlier scheduler has come back, and others may follow."""
    table = state.locks
    if table.is_quiet:
        latest = table.started_at + RETURN_LIMIT_SECONDS
        table.grants_from = max(table.grants_from, min(now + HOLD_SECONDS, latest))


def on_tick(state: SchedulerState, now: float) -> None:
    """Holders had time to state their locks: those that are free are granted."""
    table = state.locks
    if table.is_quiet and now >= table.grants_from:
        table.is_quiet = False
        for key, lock in list(table.locks.items()):
            _grant(state, key, lock, now)


def reply(
    state: SchedulerState, client: ClientPeer, kind: int, number: int, outcome: LockState, now: float, text: str = ""
) -> None:
    """Tell a client what became of one of its requests."""
    outbox.send(state, client, LockReply(CoordinationKind(kind), outcome, number, text), now)


def _warn(state: SchedulerState, request: QueuedLockRequest, why: str, now: float) -> None:
    if lock_table.is_actor_name(request.lock):
        return  # it needs no release: an actor ends with its client
    text = f"{lock_table.shown(request.lock)} is released: {why}."
    notices.warn(state, state.lock_warnings, text[0].upper() + text[1:], now)
