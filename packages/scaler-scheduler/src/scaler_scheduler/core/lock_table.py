"""Locks that clients and tasks share by name: the table.

The holder of a lock is a request: a session and the number that the session gave the request. Requests for a lock are
granted in the order in which they came. A request ends when its session releases it, when its session ends, or with
the execution of the task that made it.

The state is soft. After a restart the sessions state again which requests hold locks, and until ``grants_from``
nothing else is granted. A session that comes later keeps a lock only when this scheduler has never granted it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.messages import LockAction, LockRequest, LockState
from scaler_scheduler.core.settings import HOLD_SECONDS

REMEMBERED_LIMIT = 50_000
"""Names of locks that are known to have been granted; beyond it every name counts as granted."""

_SHOWN_CHARACTERS = 100

Execution = tuple[int, int]
"""A task's number and attempt."""


class QueuedLockRequest:
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
        self.holder: QueuedLockRequest | None = None
        self.waiting: dict[tuple[bytes, int], QueuedLockRequest] = {}


class Requests:
    """The requests of one session. ``last`` is the highest number that it has used."""

    __slots__ = ("last", "by_number")

    def __init__(self) -> None:
        self.last = 0
        self.by_number: dict[int, QueuedLockRequest] = {}


class LockTable:
    """All locks, and the requests for them."""

    def __init__(self, now: float) -> None:
        self.started_at = now
        self.grants_from = now + HOLD_SECONDS
        self.is_quiet = True
        self.locks: dict[str, LockQueue] = {}
        self.by_session: dict[bytes, Requests] = {}
        self.by_task: dict[bytes, dict[Execution, list[QueuedLockRequest]]] = {}
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


def place(table: LockTable, request: QueuedLockRequest, action: LockAction) -> LockState:
    """Let the request hold its lock, wait for it, or neither."""
    lock = table.locks.get(request.name)
    is_free = lock is None or lock.holder is None
    if action == LockAction.RESTATE:
        if not is_free or (not table.is_quiet and _was_granted(table, request.name)):
            return LockState.LOST
        _hold(table, request)
        return LockState.GRANTED
    if is_free and not table.is_quiet:
        _hold(table, request)
        return LockState.GRANTED
    if action == LockAction.TRY:
        return LockState.DENIED
    _add(table, request).waiting[request.key] = request
    return LockState.WAITING


def state_of(table: LockTable, request: QueuedLockRequest | None) -> LockState:
    """The state of a request that was made before: a client that was interrupted may repeat it. Numbers are not used
    twice."""
    if request is None:
        return LockState.LOST
    return LockState.GRANTED if holds(table, request) else LockState.WAITING


def holds(table: LockTable, request: QueuedLockRequest) -> bool:
    """Whether the request holds its lock."""
    return table.locks[request.name].holder is request


def holders_last(table: LockTable, requests: Iterable[QueuedLockRequest]) -> list[QueuedLockRequest]:
    """In this order, none of the requests is granted a lock because another of them ends."""
    return sorted(requests, key=lambda request: holds(table, request))


def remember(table: LockTable, name: str) -> None:
    """The lock has been granted by this scheduler."""
    if len(table.granted) < REMEMBERED_LIMIT:
        table.granted[hash(name)] = True


def forget(table: LockTable, request: QueuedLockRequest) -> None:
    """The request is over."""
    requests = table.by_session.get(request.session)
    if requests is not None:
        requests.by_number.pop(request.number, None)
    executions = table.by_task.get(request.owner, {})
    others = executions.get(request.execution)
    if others is None:
        return
    others.remove(request)
    if not others:
        del executions[request.execution]
    if not executions:
        del table.by_task[request.owner]


def explain(table: LockTable, session: bytes, task: int, attempt: int) -> str:
    """Which lock a task waits for, and what holds it; empty when it waits for none."""
    for request in table.by_task.get(session, {}).get((task, attempt), ()):
        holder = table.locks[request.name].holder
        if holder is not request:
            return f" It waits for the lock {shown(request.name)}, {_described(holder)}."
    return ""


def _described(holder: QueuedLockRequest | None) -> str:
    if holder is None:
        return "which is not granted yet because the scheduler has just been started"
    if holder.owner:
        return f"which task {holder.execution[0]} of client {holder.owner.hex()[:8]} holds"
    return f"which client {holder.session.hex()[:8]} holds"


def shown(name: str) -> str:
    """The name of a lock, for people."""
    return repr(name[:_SHOWN_CHARACTERS]) + ("..." if len(name) > _SHOWN_CHARACTERS else "")


def _requests_of(lock: LockQueue) -> Iterable[QueuedLockRequest]:
    return ([lock.holder] if lock.holder is not None else []) + list(lock.waiting.values())


def _hold(table: LockTable, request: QueuedLockRequest) -> None:
    _add(table, request).holder = request
    remember(table, request.name)


def _add(table: LockTable, request: QueuedLockRequest) -> LockQueue:
    table.by_session[request.session].by_number[request.number] = request
    if request.owner:
        table.by_task.setdefault(request.owner, {}).setdefault(request.execution, []).append(request)
    return table.locks.setdefault(request.name, LockQueue())


def _was_granted(table: LockTable, name: str) -> bool:
    return hash(name) in table.granted or len(table.granted) >= REMEMBERED_LIMIT
