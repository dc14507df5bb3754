"""Events, variables, queues and published values that clients and tasks share by name: the table.

An event is a variable whose value is empty. A queue has items in their order, and may have a limit. A name belongs to
the clients that have used it, and is forgotten with the last of them; the clients inside the tasks of a client count as
that client. Only a published value stays until it is cleared. Requests that wait for a value are served in the order in
which they came. Such a request also ends with its session, and with the execution of the task that made it. A session
whose connection has ended may never come back: it takes no item of a queue until it does.

The state is soft. Each change of a variable has a version. After a restart, each session states again what it has set
or cleared, and the highest version counts. The items of queues are lost. Until sessions had time for that, other
requests are held.

The handle of an actor that has a name is a variable, too. Only the session that holds the lock of this name changes it,
and it is cleared with the lock: otherwise it would name an actor that has ended, or lost its name after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from scaler_protocol.messages import CoordinationKind, NamedAction, NamedRequest, NamedState
from scaler_scheduler.core.lock_table import Execution, shown_name

TOTAL_LIMIT_BYTES = 256 << 20
"""Maximum size of all names and values together."""

CLIENT_LIMIT_BYTES = 192 << 20
"""Maximum size of the names and values that one client pays for. It pays for a name that it was the first to use, with
all values of the name. When it leaves, the next user of the name pays."""

VALUE_OVERHEAD_BYTES = 256
NAME_OVERHEAD_BYTES = 1024

STATED_VERSION_LIMIT = 2**62
"""A version that a session states counts as at most this: a lie must leave versions for the changes of others."""

PUBLISHED_LIMIT = 1000
"""Published values at a time. A message has all their names."""

CLIENT_PUBLISHED_LIMIT = 750
"""Maximum number of published values that one client pays for."""

NOUNS = {
    CoordinationKind.EVENT: "event",
    CoordinationKind.VARIABLE: "variable",
    CoordinationKind.QUEUE: "queue",
    CoordinationKind.PUBLISHED: "published value",
}

NameKey = tuple[int, str]
"""A kind and a name."""


class PendingRequest:
    """A request of a session that has not been answered, or waits. ``owner`` and ``execution`` name the task that made
    it, if one did. ``user``: the client to which the session belongs."""

    __slots__ = ("session", "number", "name", "action", "value", "limit", "user", "owner", "execution")

    def __init__(self, session: bytes, user: bytes, body: NamedRequest) -> None:
        self.session = session
        self.number = body.number
        self.name: NameKey = (int(body.kind), body.name)
        self.action = body.named_action
        self.value = bytes(body.value)
        self.limit = body.limit
        self.user = user
        self.owner = body.task_session
        self.execution: Execution = (body.task, body.attempt)

    @property
    def key(self) -> tuple[bytes, int]:
        return self.session, self.number


class NamedEntry:
    """One event, variable or queue. ``values``: the value of a variable, if it has one, or the items of a queue, of
    which there may be ``limit`` (0: as many as there are). ``writers`` wait for room. ``payer``: the client that pays;
    empty when all users have left. ``is_stated``: a session of an earlier scheduler has stated the value, and this
    scheduler has not changed it."""

    __slots__ = ("limit", "payer", "values", "readers", "writers", "users", "version", "is_stated")

    def __init__(self, limit: int, payer: bytes) -> None:
        self.limit = limit
        self.payer = payer
        self.values: deque[bytes] = deque()
        self.writers: dict[tuple[bytes, int], PendingRequest] = {}
        self.readers: dict[tuple[bytes, int], PendingRequest] = {}
        self.users: dict[bytes, None] = {}
        self.version = 0
        self.is_stated = True

    @property
    def has_room(self) -> bool:
        return not self.limit or len(self.values) < self.limit


class Answer(NamedTuple):
    """The outcome of a request."""

    request: PendingRequest
    state: NamedState
    value: bytes = b""
    version: int = 0
    length: int = 0


class NamedTable:
    """All names, and the requests that wait. ``size_bytes``: what names and values take. ``version``: the highest that
    a change has had."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.charged: dict[bytes, int] = {}
        """The part of ``size_bytes`` that each client pays for."""
        self.version = 0
        self.names: dict[NameKey, NamedEntry] = {}
        self.published: dict[NameKey, None] = {}
        """The names of the published values."""
        self.of_user: dict[bytes, dict[NameKey, None]] = {}
        self.last_numbers: dict[bytes, int] = {}
        """The highest number of a request, by session."""
        self.held: dict[tuple[bytes, int], PendingRequest] = {}
        self.waiting: dict[bytes, dict[int, PendingRequest]] = {}
        """Requests that wait or are held, by session and number."""
        self.away: set[bytes] = set()
        """The sessions whose connection has ended, and that may come back."""
        self.by_task: dict[bytes, dict[Execution, list[PendingRequest]]] = {}
        """The requests made in tasks, by the session and the execution of the task. Stays the same object."""

    def check(self) -> None:
        """Assert every invariant."""
        size = sum(cost_of(request.value) for request in self.held.values())
        waiting = len(self.held)
        for name, found in self.names.items():
            assert found.users or found.readers or found.writers or name in self.published, name
            assert (name in self.published) == (_is_published(name) and bool(found.values)), name
            assert not (found.values and _next_reader(self, found)), name
            assert not (found.writers and found.has_room), name
            assert all(name in self.of_user[user] for user in found.users), name
            waits = [*found.readers.values(), *found.writers.values()]
            assert all(self.waiting[each.session][each.number] is each for each in waits), name
            waiting += len(waits)
            size += _cost_of_name(name) + sum(map(cost_of, found.values))
            size += sum(cost_of(each.value) for each in found.writers.values())
        assert self.size_bytes == size == sum(self.charged.values()), (self.size_bytes, size, self.charged)
        charged = dict.fromkeys(self.charged, 0)
        for name, found in self.names.items():
            charged[found.payer] += _cost_of_entry(name, found)
            assert found.payer in found.users or not found.users or not found.payer, name
        for request in self.held.values():
            charged[request.user] += cost_of(request.value)
        assert self.charged == charged and 0 not in charged.values(), (self.charged, charged)
        assert waiting == sum(map(len, self.waiting.values()))
        in_tasks = [each for of_owner in self.by_task.values() for found in of_owner.values() for each in found]
        assert all(self.waiting[each.session][each.number] is each for each in in_tasks)
        assert all(self.names[name].users.keys() >= {user} for user, names in self.of_user.items() for name in names)


# ---- requests --------------------------------------------------------------------------------------------------------


def perform(table: NamedTable, request: PendingRequest) -> list[Answer]:
    """Do what the request asks for. Returns all requests that are answered by that; the first is this one."""
    if request.action == NamedAction.LIST:
        return [Answer(request, NamedState.DONE, "\0".join(name for _, name in table.published).encode())]
    found = _use(table, request)
    return _ACTIONS[request.action](table, found, request)


def _set(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    _charge(table, found.payer, cost_of(request.value))
    _change(table, found, request, request.value)
    return [Answer(request, NamedState.DONE, version=found.version), *_serve(table, found)]


def _try_set(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    return [Answer(request, NamedState.ABSENT)] if found.values else _set(table, found, request)


def _clear(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    length = len(found.values)
    _change(table, found, request, None)
    return [Answer(request, NamedState.DONE, version=found.version, length=length)]


def _read(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    if found.values:
        return [Answer(request, NamedState.DONE, found.values[0])]
    found.readers[request.key] = request
    _remember(table, request)
    return [Answer(request, NamedState.WAITING)]


def _peek(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    if found.values:
        return [Answer(request, NamedState.DONE, found.values[0])]
    return [Answer(request, NamedState.ABSENT)]


def _append(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    if not found.has_room:
        if request.action == NamedAction.TRY_PUT:
            return [Answer(request, NamedState.ABSENT)]
        found.writers[request.key] = request
        _charge(table, found.payer, cost_of(request.value))
        _remember(table, request)
        return [Answer(request, NamedState.WAITING)]
    found.values.append(request.value)
    _charge(table, found.payer, cost_of(request.value))
    return [Answer(request, NamedState.DONE), *_serve(table, found)]


def _take(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    if found.values and request.session not in table.away:
        return [Answer(request, NamedState.DONE, _removed(table, found)), *_serve(table, found)]
    if request.action == NamedAction.TRY_TAKE:
        return [Answer(request, NamedState.ABSENT)]
    found.readers[request.key] = request
    _remember(table, request)
    return [Answer(request, NamedState.WAITING)]


def _count(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    return [Answer(request, NamedState.DONE, length=len(found.values))]


def _return(table: NamedTable, found: NamedEntry, request: PendingRequest) -> list[Answer]:
    """There may be an item more than the limit for a while."""
    found.values.appendleft(request.value)
    _charge(table, found.payer, cost_of(request.value))
    return [Answer(request, NamedState.DONE), *_serve(table, found)]


_ACTIONS: dict[NamedAction, Callable[[NamedTable, NamedEntry, PendingRequest], list[Answer]]] = {
    NamedAction.SET: _set,
    NamedAction.CLEAR: _clear,
    NamedAction.READ: _read,
    NamedAction.PEEK: _peek,
    NamedAction.PUT: _append,
    NamedAction.TRY_PUT: _append,
    NamedAction.TAKE: _take,
    NamedAction.TRY_TAKE: _take,
    NamedAction.COUNT: _count,
    NamedAction.RETURN: _return,
    NamedAction.TRY_SET: _try_set,
}


def hold(table: NamedTable, request: PendingRequest) -> None:
    """Keep a request, to perform it later."""
    table.held[request.key] = request
    _charge(table, request.user, cost_of(request.value))
    _remember(table, request)


def take_held(table: NamedTable) -> list[PendingRequest]:
    """Remove and return all requests that are held, in their order."""
    held, table.held = table.held, {}
    for request in held.values():
        _charge(table, request.user, -cost_of(request.value))
        _forget(table, request)
    return list(held.values())


def withdraw(table: NamedTable, request: PendingRequest) -> None:
    """Remove a request that waits or is held."""
    _forget(table, request)
    if table.held.pop(request.key, None) is not None:
        _charge(table, request.user, -cost_of(request.value))
        return
    found = table.names[request.name]
    if found.writers.pop(request.key, None) is not None:
        _charge(table, found.payer, -cost_of(request.value))
    else:
        del found.readers[request.key]
    _drop_if_unused(table, request.name)


def restate(table: NamedTable, request: PendingRequest, version: int) -> list[Answer]:
    """A session has set or cleared the value, when another scheduler was there. If it has been changed since then, the
    first answer is ENDED."""
    found = _use(table, request)
    version = min(version, STATED_VERSION_LIMIT)
    table.version = max(table.version, version)
    if version <= found.version or not found.is_stated:
        return [Answer(request, NamedState.ENDED)]
    is_set = request.action == NamedAction.RESTATE
    if is_set:
        _charge(table, found.payer, cost_of(request.value))
    _put(table, found, request.name, request.value if is_set else None)
    found.version = version
    return [Answer(request, NamedState.DONE, version=version), *_serve(table, found)]


def free(table: NamedTable, name: NameKey) -> None:
    """Clear the value of a name that its holder has no longer."""
    found = table.names.get(name)
    if found is not None and found.values:
        _put(table, found, name, None)
        table.version += 1
        found.version, found.is_stated = table.version, False


# ---- the ends of connections and users -------------------------------------------------------------------------------


def note_away(table: NamedTable, session: bytes) -> None:
    """The connection of this session has ended."""
    table.away.add(session)


def note_back(table: NamedTable, session: bytes) -> list[Answer]:
    """The session has come back. Returns its requests that are answered by that."""
    table.away.discard(session)
    waiting = table.waiting.get(session, {}).values()
    names = dict.fromkeys(each.name for each in waiting if each.key not in table.held)
    return [answer for name in names for answer in _serve(table, table.names[name])]


def end_session(table: NamedTable, session: bytes) -> None:
    """Nothing more comes from this session."""
    for request in list(table.waiting.get(session, {}).values()):
        withdraw(table, request)
    table.last_numbers.pop(session, None)
    table.away.discard(session)
    for name in table.of_user.pop(session, {}):
        found = table.names[name]
        del found.users[session]
        if found.payer == session:
            _pass_on(table, name, found)
        _drop_if_unused(table, name)


def requests_of(table: NamedTable, session: bytes, execution: Execution) -> list[PendingRequest]:
    """Return the requests of an execution of a task."""
    return list(table.by_task.get(session, {}).get(execution, ()))


def explain(table: NamedTable, session: bytes, task: int, attempt: int) -> str:
    """Return a description of what a task waits for; empty if it waits for nothing."""
    for request in requests_of(table, session, (task, attempt)):
        return f" It waits for {shown(request.name)}."
    return ""


def shown(name: NameKey) -> str:
    """Return the kind and the name for a text that people read."""
    return f"the {NOUNS[CoordinationKind(name[0])]} {shown_name(name[1])}"


def shortage_for(table: NamedTable, request: PendingRequest) -> str:
    """Return why name and value do not fit; empty if they do."""
    found = table.names.get(request.name)
    payer = request.user if found is None else found.payer
    more = cost_of(request.value) + (_cost_of_name(request.name) if found is None else 0)
    if table.size_bytes + more > TOTAL_LIMIT_BYTES:
        return f"All values that are shared by name take {TOTAL_LIMIT_BYTES >> 20} MiB, which is the limit."
    if payer and table.charged.get(payer, 0) + more > CLIENT_LIMIT_BYTES:
        return f"The values that one client shares by name take {CLIENT_LIMIT_BYTES >> 20} MiB, which is the limit."
    return ""


def published_by(table: NamedTable, client: bytes) -> int:
    """Return how many published values this client pays for."""
    return sum(table.names[name].payer == client for name in table.published)


def cost_of(value: bytes) -> int:
    """Return how many bytes a value takes."""
    return VALUE_OVERHEAD_BYTES + len(value)


# ---- inside ----------------------------------------------------------------------------------------------------------


def _cost_of_name(name: NameKey) -> int:
    return NAME_OVERHEAD_BYTES + len(name[1])


def _cost_of_entry(name: NameKey, found: NamedEntry) -> int:
    waiting = sum(cost_of(request.value) for request in found.writers.values())
    return _cost_of_name(name) + sum(map(cost_of, found.values)) + waiting


def _charge(table: NamedTable, payer: bytes, size_bytes: int) -> None:
    table.size_bytes += size_bytes
    charged = table.charged.get(payer, 0) + size_bytes
    if charged:
        table.charged[payer] = charged
    else:
        table.charged.pop(payer, None)


def _pass_on(table: NamedTable, name: NameKey, found: NamedEntry) -> None:
    """The client that paid for the name has left."""
    cost = _cost_of_entry(name, found)
    _charge(table, found.payer, -cost)
    found.payer = next(iter(found.users), b"")
    _charge(table, found.payer, cost)


def _change(table: NamedTable, found: NamedEntry, request: PendingRequest, value: bytes | None) -> None:
    """The cost of the value is counted already."""
    _put(table, found, request.name, value)
    table.version += 1
    found.version, found.is_stated = table.version, False


def _put(table: NamedTable, found: NamedEntry, name: NameKey, value: bytes | None) -> None:
    _charge(table, found.payer, -sum(map(cost_of, found.values)))
    found.values.clear()
    if value is None:
        table.published.pop(name, None)
        return
    found.values.append(value)
    if _is_published(name):
        table.published[name] = None


def _is_published(name: NameKey) -> bool:
    return name[0] == CoordinationKind.PUBLISHED


def _serve(table: NamedTable, found: NamedEntry) -> list[Answer]:
    """Answer the requests that need not wait any more."""
    answers = []
    while True:
        if found.values and (request := _next_reader(table, found)) is not None:
            del found.readers[request.key]
            value = _removed(table, found) if request.action == NamedAction.TAKE else found.values[0]
            answers.append(Answer(request, NamedState.DONE, value))
        elif found.writers and found.has_room:
            request = found.writers.pop(next(iter(found.writers)))
            found.values.append(request.value)
            answers.append(Answer(request, NamedState.DONE))
        else:
            return answers
        _forget(table, request)


def _next_reader(table: NamedTable, found: NamedEntry) -> PendingRequest | None:
    for request in found.readers.values():
        if request.action != NamedAction.TAKE or request.session not in table.away:
            return request
    return None


def _removed(table: NamedTable, found: NamedEntry) -> bytes:
    """Remove and return the first item of a queue."""
    value = found.values.popleft()
    _charge(table, found.payer, -cost_of(value))
    return value


def _use(table: NamedTable, request: PendingRequest) -> NamedEntry:
    found = table.names.get(request.name)
    if found is None:
        found = table.names[request.name] = NamedEntry(request.limit, request.user)
        _charge(table, found.payer, _cost_of_name(request.name))
    found.users[request.user] = None
    table.of_user.setdefault(request.user, {})[request.name] = None
    return found


def _drop_if_unused(table: NamedTable, name: NameKey) -> None:
    found = table.names[name]
    if not found.users and not found.readers and not found.writers and name not in table.published:
        _put(table, found, name, None)
        _charge(table, found.payer, -_cost_of_name(name))
        del table.names[name]


def _remember(table: NamedTable, request: PendingRequest) -> None:
    table.waiting.setdefault(request.session, {})[request.number] = request
    if request.owner:
        table.by_task.setdefault(request.owner, {}).setdefault(request.execution, []).append(request)


def _forget(table: NamedTable, request: PendingRequest) -> None:
    numbers = table.waiting[request.session]
    del numbers[request.number]
    if not numbers:
        del table.waiting[request.session]
    if not request.owner:
        return
    executions = table.by_task[request.owner]
    executions[request.execution].remove(request)
    if not executions[request.execution]:
        del executions[request.execution]
    if not executions:
        del table.by_task[request.owner]
