"""Locks and semaphores that clients and tasks share by name: the table.

A lock is a semaphore that one request may hold. A holder is a request: a session and the number that the session gave
the request. Requests for a lock are granted in the order in which they came. A request ends when its session releases
it, when its session ends, or with the execution of the task that made it. A session whose connection has ended may
never come back: it is granted nothing until it does, but keeps what it holds.

The state is soft. After a restart the sessions state again which requests hold locks, and until ``grants_from``
nothing else is granted. A session that comes later keeps a lock only when there was room for it all the time: when this
scheduler has never granted the lock, or never to as many requests as may hold it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.messages import ACTOR_NAME_PREFIX, CoordinationKind, LockAction, LockRequest, LockState
from scaler_scheduler.core.settings import HOLD_SECONDS

REMEMBERED_LIMIT = 50_000
"""Locks that are known to have been granted; beyond it every other one counts as granted to all that may hold it."""

_SHOWN_CHARACTERS = 100

Execution = tuple[int, int]
"""A task's number and attempt."""

LockKey = tuple[int, str]
"""The kind and the name of a lock."""

NOUNS = {CoordinationKind.LOCK: "lock", CoordinationKind.SEMAPHORE: "semaphore"}
"""The kinds of locks, for people."""


class QueuedLockRequest:
    """A session's request to hold a lock. ``owner`` and ``execution`` name the task that made it, if one did.
    ``limit``: how many requests may hold the lock, as this one says."""

    __slots__ = ("session", "number", "lock", "limit", "owner", "execution")

    def __init__(self, session: bytes, body: LockRequest) -> None:
        self.session = session
        self.number = body.number
        self.lock: LockKey = key_of(body)
        self.limit = limit_of(body)
        self.owner = body.task_session
        self.execution = (body.task, body.attempt)

    @property
    def key(self) -> tuple[bytes, int]:
        return self.session, self.number


class LockQueue:
    """One lock. It exists while a request holds it or waits for it. At most ``limit`` requests hold it."""

    __slots__ = ("limit", "holders", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.holders: dict[tuple[bytes, int], QueuedLockRequest] = {}
        self.waiting: dict[tuple[bytes, int], QueuedLockRequest] = {}

    @property
    def is_free(self) -> bool:
        return len(self.holders) < self.limit


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
        self.locks: dict[LockKey, LockQueue] = {}
        self.by_session: dict[bytes, Requests] = {}
        self.by_task: dict[bytes, dict[Execution, list[QueuedLockRequest]]] = {}
        """Requests made in tasks, by the session and the execution of the task. Stays the same object."""
        self.away: set[bytes] = set()
        """The sessions whose connection has ended, and that may come back."""
        self.granted: dict[int, int] = {}
        """The most requests that held a lock at a time, by the hash of its kind and name: names can be long."""
        self.questions: dict[bytes, list[LockRequest]] = {}
        """Questions of sessions about locks that sessions of an earlier scheduler may still state."""

    def check(self) -> None:
        """Assert every invariant."""
        seen = 0
        for key, lock in self.locks.items():
            assert lock.holders or lock.waiting, key
            assert len(lock.holders) == lock.limit or self.is_quiet or next_request(self, lock) is None, key
            assert len(lock.holders) <= lock.limit, key
            for request in _requests_of(lock):
                assert request.lock == key and request.limit == lock.limit
                assert self.by_session[request.session].by_number[request.number] is request
                assert not request.owner or request in self.by_task[request.owner][request.execution]
                seen += 1
        assert seen == sum(len(each.by_number) for each in self.by_session.values())
        in_tasks = [each for of_owner in self.by_task.values() for found in of_owner.values() for each in found]
        assert all(self.by_session[each.session].by_number[each.number] is each for each in in_tasks)


def place(table: LockTable, request: QueuedLockRequest, action: LockAction) -> LockState:
    """Let the request hold its lock, wait for it, or neither."""
    lock = table.locks.get(request.lock)
    is_free = lock is None or lock.is_free
    if action == LockAction.RESTATE:
        peak = 0 if table.is_quiet else _peak(table, request)
        if not is_free or peak >= request.limit:
            return LockState.LOST
        _hold(table, request, peak + 1)
        return LockState.GRANTED
    if is_free and not table.is_quiet and request.session not in table.away:
        _hold(table, request)
        return LockState.GRANTED
    if action == LockAction.TRY:
        return LockState.DENIED
    _add(table, request).waiting[request.key] = request
    return LockState.WAITING


def next_request(table: LockTable, lock: LockQueue) -> QueuedLockRequest | None:
    """Return the request that is granted the lock when it is free; None if no request can be."""
    for request in lock.waiting.values():
        if request.session not in table.away:
            return request
    return None


def state_of(table: LockTable, request: QueuedLockRequest | None) -> LockState:
    """The state of a request that was made before: a client that was interrupted may repeat it. Numbers are not used
    twice."""
    if request is None:
        return LockState.LOST
    return LockState.GRANTED if holds(table, request) else LockState.WAITING


def holds(table: LockTable, request: QueuedLockRequest) -> bool:
    """Return whether the request holds its lock."""
    return request.key in table.locks[request.lock].holders


def holders_last(table: LockTable, requests: Iterable[QueuedLockRequest]) -> list[QueuedLockRequest]:
    """Return the requests in an order in which none is granted a lock because another of them ends."""
    return sorted(requests, key=lambda request: holds(table, request))


def remember(table: LockTable, key: LockKey, holders: int) -> None:
    """Remember that this many requests have held the lock at a time."""
    name = hash(key)
    if name in table.granted or len(table.granted) < REMEMBERED_LIMIT:
        table.granted[name] = max(holders, table.granted.get(name, 0))


def forget(table: LockTable, request: QueuedLockRequest) -> None:
    """Remove a request that is over."""
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
    """Return which lock a task waits for, and what holds it; empty when it waits for none."""
    for request in table.by_task.get(session, {}).get((task, attempt), ()):
        if not holds(table, request):
            return f" It waits for {shown(request.lock)}, {_described(table.locks[request.lock])}."
    return ""


def _described(lock: LockQueue) -> str:
    if not lock.holders:
        return "which is not granted yet because the scheduler has just been started"
    holder = next(iter(lock.holders.values()))
    text = f"client {holder.session.hex()[:8]}"
    if holder.owner:
        text = f"task {holder.execution[0]} of client {holder.owner.hex()[:8]}"
    others = len(lock.holders) - 1
    return f"which {text} holds" if not others else f"which {text} and {others} more hold"


def noun_of(kind: int) -> str:
    """Return the kind of a lock as people call it."""
    return NOUNS[CoordinationKind(kind)]


def is_actor_name(key: LockKey) -> bool:
    return key[1].startswith(ACTOR_NAME_PREFIX)


def shown(key: LockKey) -> str:
    """Return the kind and the name of a lock for a text that people read."""
    kind, name = key
    if is_actor_name(key):
        return f"the name {shown_name(name.removeprefix(ACTOR_NAME_PREFIX))} of another actor"
    return f"the {noun_of(kind)} {shown_name(name)}"


def shown_name(name: str) -> str:
    """Return a name in quotes. A long name is cut."""
    return repr(name[:_SHOWN_CHARACTERS]) + ("..." if len(name) > _SHOWN_CHARACTERS else "")


def key_of(body: LockRequest) -> LockKey:
    return int(body.kind), body.name


def limit_of(body: LockRequest) -> int:
    """Return how many requests may hold the lock."""
    return 1 if body.kind == CoordinationKind.LOCK else body.limit


def _requests_of(lock: LockQueue) -> Iterable[QueuedLockRequest]:
    return [*lock.holders.values(), *lock.waiting.values()]


def _hold(table: LockTable, request: QueuedLockRequest, peak: int = 0) -> None:
    holders = _add(table, request).holders
    holders[request.key] = request
    remember(table, request.lock, max(peak, len(holders)))


def _add(table: LockTable, request: QueuedLockRequest) -> LockQueue:
    table.by_session[request.session].by_number[request.number] = request
    if request.owner:
        table.by_task.setdefault(request.owner, {}).setdefault(request.execution, []).append(request)
    lock = table.locks.get(request.lock)
    if lock is None:
        lock = table.locks[request.lock] = LockQueue(request.limit)
    return lock


def _peak(table: LockTable, request: QueuedLockRequest) -> int:
    """Return the maximum number of requests to which this scheduler has granted the lock at a time."""
    unknown = request.limit if len(table.granted) >= REMEMBERED_LIMIT else 0
    return table.granted.get(hash(request.lock), unknown)
