"""Locks that clients and tasks share by name, as rules over one state.

The holder of a lock is a request: a session and the number that the session gave the request. Requests for a lock are
granted in the order in which they came. A request ends when its session releases it, when its session ends, or with
the execution of the task that made it.

The state is soft. After a restart the sessions state again which requests hold locks, and until ``grants_from``
nothing else is granted. A session that comes later keeps a lock only when this scheduler has never granted it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import (
    LOCK_NAME_LIMIT_BYTES,
    CoordinationKind,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
)
from scaler_scheduler.core.settings import HOLD_SECONDS

if TYPE_CHECKING:
    from scaler_protocol.codec import ResultRun
    from scaler_scheduler.core.clients import Client
    from scaler_scheduler.core.endings import Endings

REQUESTS_LIMIT = 4096
"""Requests that one session may have, whether they hold locks or wait."""

REMEMBERED_LIMIT = 50_000
"""Names of locks that are known to have been granted; beyond it every name counts as granted."""

RETURN_LIMIT_SECONDS = 5.0
"""While sessions of an earlier scheduler keep coming, nothing is granted for at most this long."""

_SHOWN_CHARACTERS = 100
_TASK_ENDED_TEXT = "The task that used this lock has ended."
_TAKEN_TEXT = "The lock was given to others while the scheduler was out of reach."

Execution = tuple[int, int]
"""A task's number and attempt."""


class Request:
    """A session's request to hold a lock. ``owner`` and ``execution`` name the task that made it, if one did."""

    __slots__ = ("session", "number", "name", "owner", "execution")

    def __init__(self, session: bytes, body: LockRequest) -> None:
        self.session = session
        self.number = body.number
        self.name = body.name
        self.owner = body.task_session
        self.execution = (body.task, body.attempt)

    @property
    def key(self) -> tuple[bytes, int]:
        return self.session, self.number


class LockQueue:
    """One lock. It exists while a request holds it or waits for it."""

    __slots__ = ("holder", "waiting")

    def __init__(self) -> None:
        self.holder: Request | None = None
        self.waiting: dict[tuple[bytes, int], Request] = {}


class Requests:
    """Those of one session. ``last`` is the highest number that it has used."""

    __slots__ = ("last", "by_number")

    def __init__(self) -> None:
        self.last = 0
        self.by_number: dict[int, Request] = {}


class Coordination:
    """Everything that is known of locks."""

    def __init__(self, now: float) -> None:
        self.started_at = now
        self.grants_from = now + HOLD_SECONDS
        self.is_quiet = True
        self.locks: dict[str, LockQueue] = {}
        self.by_session: dict[bytes, Requests] = {}
        self.by_task: dict[bytes, dict[Execution, list[Request]]] = {}
        """Requests made in tasks, by the session and the execution of the task. Stays the same object."""
        self.granted: dict[int, bool] = {}
        """By the hash of the name: names can be long."""

    def check(self) -> None:
        """Assert every invariant."""
        seen = 0
        for name, lock in self.locks.items():
            assert lock.holder is not None or lock.waiting, name
            assert lock.holder is not None or self.is_quiet, name
            for request in _requests_of(lock):
                assert request.name == name
                assert self.by_session[request.session].by_number[request.number] is request
                assert not request.owner or request in self.by_task[request.owner][request.execution]
                seen += 1
        assert seen == sum(len(each.by_number) for each in self.by_session.values())
        in_tasks = [each for of_owner in self.by_task.values() for found in of_owner.values() for each in found]
        assert all(self.by_session[each.session].by_number[each.number] is each for each in in_tasks)


# ---- what sessions say -----------------------------------------------------------------------------------------------


def on_request(core: Endings, client: Client, body: LockRequest, now: float) -> None:
    """A session asks for a lock, or lets go of one."""
    state = core.coordination
    if body.action == LockAction.RELEASE:
        _reply(core, client, body.number, _release(core, client.session, body.number, now), now)
    elif len(body.name.encode()) > LOCK_NAME_LIMIT_BYTES:
        text = f"The name of a lock has at most {LOCK_NAME_LIMIT_BYTES} bytes."
        _reply(core, client, body.number, LockState.REFUSED, now, text)
    elif body.action == LockAction.ASK:
        lock = state.locks.get(body.name)
        is_held = lock is not None and lock.holder is not None
        _reply(core, client, body.number, LockState.HELD if is_held else LockState.FREE, now)
    else:
        _enter(core, client, body, now)


def _enter(core: Endings, client: Client, body: LockRequest, now: float) -> None:
    """A new request, or one that a session had before the scheduler was restarted."""
    state = core.coordination
    requests = state.by_session.setdefault(client.session, Requests())
    if len(body.task_session) not in (0, ID_SIZE_BYTES):
        core._expel(client, f"The session of a task has {ID_SIZE_BYTES} bytes.", now)
        return
    if body.number <= requests.last:
        _reply(core, client, body.number, _state_of(state, requests.by_number.get(body.number)), now)
        return
    requests.last = body.number
    if len(requests.by_number) >= REQUESTS_LIMIT:
        text = f"This client already holds or waits for {REQUESTS_LIMIT} locks: release some first."
        _reply(core, client, body.number, LockState.REFUSED, now, text)
        return
    outcome = _place(state, Request(client.session, body), body.action)
    _reply(core, client, body.number, outcome, now, _TAKEN_TEXT if outcome == LockState.LOST else "")


def _place(state: Coordination, request: Request, action: LockAction) -> LockState:
    """Let the request hold its lock, or wait for it, or neither."""
    lock = state.locks.get(request.name)
    is_free = lock is None or lock.holder is None
    if action == LockAction.RESTATE:
        if not is_free or (not state.is_quiet and _was_granted(state, request.name)):
            return LockState.LOST
        _hold(state, request)
        return LockState.GRANTED
    if is_free and not state.is_quiet:
        _hold(state, request)
        return LockState.GRANTED
    if action == LockAction.TRY:
        return LockState.DENIED
    _add(state, request).waiting[request.key] = request
    return LockState.WAITING


def _state_of(state: Coordination, request: Request | None) -> LockState:
    """Of one that was made before: a client that was interrupted may say it twice. No number is used again."""
    if request is None:
        return LockState.LOST
    return LockState.GRANTED if _holds(state, request) else LockState.WAITING


def _reply(core: Endings, client: Client, number: int, outcome: LockState, now: float, text: str = "") -> None:
    core._send(client, LockReply(CoordinationKind.LOCK, outcome, number, text), now)


# ---- how requests end ------------------------------------------------------------------------------------------------


def _release(core: Endings, session: bytes, number: int, now: float) -> LockState:
    requests = core.coordination.by_session.get(session)
    request = requests.by_number.get(number) if requests is not None else None
    if request is None:
        return LockState.LOST
    _end(core, request, now)
    return LockState.RELEASED


def on_session_ended(core: Endings, session: bytes, now: float) -> None:
    """Nothing more comes from this session: what it holds is released."""
    requests = core.coordination.by_session.pop(session, None)
    for request in _holders_last(core.coordination, requests.by_number.values()) if requests is not None else ():
        if _holds(core.coordination, request):
            _warn(core, request, _left_text(request), now)
        _end(core, request, now)


def _left_text(request: Request) -> str:
    if not request.owner:
        return f"client {request.session.hex()[:8]}, which held it, is gone"
    task, _ = request.execution
    return f"task {task} of client {request.owner.hex()[:8]} closed its client without releasing it"


def on_results(core: Endings, run: ResultRun, now: float) -> None:
    """Executions of tasks have ended: so do the requests that they made."""
    executions = core.coordination.by_task.get(run.session)
    if executions is None:
        return
    for execution in zip(run.task_column, run.attempt_column, strict=True):
        if execution in executions:
            for request in _holders_last(core.coordination, executions.pop(execution)):
                _end_with_task(core, request, now)
    if not executions:
        core.coordination.by_task.pop(run.session, None)


def _end_with_task(core: Endings, request: Request, now: float) -> None:
    if _holds(core.coordination, request):
        task, _ = request.execution
        _warn(core, request, f"task {task} of client {request.owner.hex()[:8]} ended without releasing it", now)
    _end(core, request, now)
    client = core.clients.get(request.session)
    if client is not None:
        _reply(core, client, request.number, LockState.LOST, now, _TASK_ENDED_TEXT)


def _end(core: Endings, request: Request, now: float) -> None:
    """The request is over. The next one gets the lock if this one held it."""
    state = core.coordination
    lock = state.locks[request.name]
    if lock.holder is request:
        lock.holder = None
    else:
        del lock.waiting[request.key]
    _forget(state, request)
    _grant(core, request.name, lock, now)


def _grant(core: Endings, name: str, lock: LockQueue, now: float) -> None:
    """The lock goes to the request that has waited longest, if it is free."""
    state = core.coordination
    if lock.holder is None and lock.waiting and not state.is_quiet:
        lock.holder = lock.waiting.pop(next(iter(lock.waiting)))
        _remember(state, name)
        client = core.clients.get(lock.holder.session)
        if client is not None:
            _reply(core, client, lock.holder.number, LockState.GRANTED, now)
    elif lock.holder is None and not lock.waiting:
        state.locks.pop(name, None)


# ---- after a restart -------------------------------------------------------------------------------------------------


def on_return(core: Endings, now: float) -> None:
    """A session of an earlier scheduler has come, and others may follow it."""
    state = core.coordination
    if state.is_quiet:
        latest = state.started_at + RETURN_LIMIT_SECONDS
        state.grants_from = max(state.grants_from, min(now + HOLD_SECONDS, latest))


def on_tick(core: Endings, now: float) -> None:
    """Holders had time to state their locks: those that are free are granted."""
    state = core.coordination
    if state.is_quiet and now >= state.grants_from:
        state.is_quiet = False
        for name, lock in list(state.locks.items()):
            _grant(core, name, lock, now)


# ---- in words --------------------------------------------------------------------------------------------------------


def explain(state: Coordination, session: bytes, task: int, attempt: int) -> str:
    """Which lock a task waits for, and what holds it. Empty: it waits for none."""
    for request in state.by_task.get(session, {}).get((task, attempt), ()):
        holder = state.locks[request.name].holder
        if holder is not request:
            return f" It waits for the lock {_shown(request.name)}, {_described(holder)}."
    return ""


def _described(holder: Request | None) -> str:
    if holder is None:
        return "which is not granted yet because the scheduler has just been started"
    if holder.owner:
        return f"which task {holder.execution[0]} of client {holder.owner.hex()[:8]} holds"
    return f"which client {holder.session.hex()[:8]} holds"


def _warn(core: Endings, request: Request, why: str, now: float) -> None:
    core._warn(core._unreleased, f"The lock {_shown(request.name)} is released: {why}.", now)


def _shown(name: str) -> str:
    return repr(name[:_SHOWN_CHARACTERS]) + ("..." if len(name) > _SHOWN_CHARACTERS else "")


# ---- the state's own -------------------------------------------------------------------------------------------------


def _holds(state: Coordination, request: Request) -> bool:
    return state.locks[request.name].holder is request


def _holders_last(state: Coordination, requests: Iterable[Request]) -> list[Request]:
    """In this order none of them is granted a lock because another one ends."""
    return sorted(requests, key=lambda request: _holds(state, request))


def _requests_of(lock: LockQueue) -> Iterable[Request]:
    return ([lock.holder] if lock.holder is not None else []) + list(lock.waiting.values())


def _hold(state: Coordination, request: Request) -> None:
    _add(state, request).holder = request
    _remember(state, request.name)


def _add(state: Coordination, request: Request) -> LockQueue:
    state.by_session[request.session].by_number[request.number] = request
    if request.owner:
        state.by_task.setdefault(request.owner, {}).setdefault(request.execution, []).append(request)
    return state.locks.setdefault(request.name, LockQueue())


def _forget(state: Coordination, request: Request) -> None:
    requests = state.by_session.get(request.session)
    if requests is not None:
        requests.by_number.pop(request.number, None)
    executions = state.by_task.get(request.owner, {})
    others = executions.get(request.execution)
    if others is None:
        return
    others.remove(request)
    if not others:
        del executions[request.execution]
    if not executions:
        del state.by_task[request.owner]


def _remember(state: Coordination, name: str) -> None:
    if len(state.granted) < REMEMBERED_LIMIT:
        state.granted[hash(name)] = True


def _was_granted(state: Coordination, name: str) -> bool:
    return hash(name) in state.granted or len(state.granted) >= REMEMBERED_LIMIT
