"""Objects on their way to and from this host."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    OBJECT_WINDOW_BYTES,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
)
from scaler_worker.core.queue import without_tasks

PACKAGES_NUMBER = 1
"""The number of keys that stand for packages; their owners are digests. No task has such a key, as no session is a
digest."""

AWAITING_LIMIT = 100_000
"""More tasks than this that wait for packages keep those of other clients away."""

Row = tuple[int, int, int, bytes, int, int, int]
"""task, attempt, status, payload, duration, cpu time, memory peak"""


class Store(Protocol):
    """The objects that this agent keeps itself. The shell's is made of memfds; tests use a dict."""

    def create(self, key: ObjectKey, size: int) -> None: ...
    def write(self, key: ObjectKey, offset: int, data: bytes) -> None: ...
    def read(self, key: ObjectKey, offset: int, size: int) -> bytes: ...
    def size(self, key: ObjectKey) -> int | None: ...
    def catch_up(self, number: int) -> None: ...
    def name_result(self, number: int, sequence: int, key: ObjectKey) -> bool:
        """False: the worker process has put it into the host's store."""

    def drop(self, key: ObjectKey) -> None: ...


class WrongBytes(Exception):
    """The received bytes are not the object that was requested."""


@dataclass(slots=True)
class _Incoming:
    """``hasher``: of a function, which its digest names. ``is_awaited``: it is being made again, and the scheduler
    answers when it is there."""

    received: int = 0
    size: int | None = None
    hasher: hashlib.blake2b | None = None
    waiting: list[_WaitingRun] = field(default_factory=list)
    is_value: bool = False
    is_awaited: bool = False


@dataclass(slots=True)
class _WaitingRun:
    """A run (in parts, when tasks of it were cancelled) whose objects are not all here."""

    runs: list[TaskRun]
    missing: int

    @property
    def is_of_actor(self) -> bool:
        """Return whether these are calls of an actor, which cannot wait elsewhere."""
        return bool(self.runs) and self.runs[0].options.actor != 0


@dataclass(slots=True)
class _Outgoing:
    offset: int
    limit: int
    size: int
    view: memoryview | None = None


class ObjectExchange:
    """Fetches objects that tasks need and sends objects that others request, a window at a time. Objects in the host's
    store are known here by name only."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._complete: set[ObjectKey] = set()
        self.stored: dict[ObjectKey, bool] = {}
        """The objects in the host's store; read-only."""
        self._rows: dict[ObjectKey, Row] = {}
        self._incoming: dict[ObjectKey, _Incoming] = {}
        self._arrived: list[ObjectKey] = []
        self._outgoing: dict[ObjectKey, _Outgoing] = {}
        self._awaiting: int | None = 0  # tasks, for packages; None: to be counted

    # ---- coming in -------------------------------------------------------------------------------------------

    def require(self, run: TaskRun, keys: list[ObjectKey]) -> list[ObjectKey]:
        """Hold ``run`` until all ``keys`` are here; what must be asked for."""
        self._awaiting = None
        missing = [key for key in dict.fromkeys(keys) if key not in self._complete]
        waiting = _WaitingRun([run], len(missing))
        wanted = []
        for key in missing:
            incoming = self._incoming.get(key)
            if incoming is None:
                incoming = self._incoming[key] = _Incoming()
                wanted.append(key)
            elif incoming.is_awaited and not waiting.is_of_actor:
                incoming.is_awaited = False  # other tasks wait elsewhere
                wanted.append(key)
            incoming.waiting.append(waiting)
        return wanted

    def fetch(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        """Values of nodes that nothing here waits for by itself; what must be asked for."""
        wanted = []
        for key in keys:
            incoming = self._incoming.get(key)
            if incoming is None:
                incoming = self._incoming[key] = _Incoming()
                wanted.append(key)
            elif incoming.is_awaited:
                incoming.is_awaited = False  # nodes wait elsewhere
                wanted.append(key)
            incoming.is_value = True
        return wanted

    @property
    def awaiting_packages(self) -> int:
        """The number of tasks that wait for packages; ``AWAITING_LIMIT`` if there are more. Cheap while nothing
        changes."""
        if self._awaiting is None:
            keys = [key for key in self._incoming if key.number == PACKAGES_NUMBER]
            self._awaiting = min(AWAITING_LIMIT, sum(map(self._count_awaiting, keys)))
        return self._awaiting

    def _count_awaiting(self, key: ObjectKey) -> int:
        return sum(run.count for waiting in self._incoming[key].waiting for run in waiting.runs)

    @property
    def is_empty(self) -> bool:
        """Nothing is here, on its way or awaited."""
        return not (self._complete or self.stored or self._incoming or self._outgoing)

    def is_wanted(self, key: ObjectKey) -> bool:
        return key in self._incoming

    def on_found(self, key: ObjectKey) -> list[TaskRun]:
        """The object is in the host's store. Returns the runs that need nothing more. Bytes of it that arrived another
        way are only a part, and are dropped."""
        incoming = self._incoming.get(key)
        if incoming is None:
            return []
        if incoming.size is not None:
            self.store.drop(key)
        self.stored[key] = True
        return self._completed(key)

    def on_here(self, key: ObjectKey) -> list[TaskRun]:
        """Note that the object of ``key`` is on this host, but in no store. Returns the runs that need nothing more."""
        return self._completed(key) if key in self._incoming else []

    def give_up(self, key: ObjectKey) -> None:
        """No task here waits for it any more."""
        self._awaiting = None
        incoming = self._incoming.pop(key, None)
        if incoming is not None and incoming.size is not None:
            self.store.drop(key)

    def give_up_values(self, session: bytes, first: int, stop: int) -> None:
        """These tasks are to run here: their values are not fetched any more."""
        for key in [key for key, incoming in self._incoming.items() if incoming.is_value]:
            if key.owner == session and first <= key.number < stop:
                if self._incoming[key].waiting:
                    self._incoming[key].is_value = False
                else:
                    self.give_up(key)

    def take_arrived(self) -> list[ObjectKey]:
        """The values that have come since the last call."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def all_of(self, owner: bytes) -> list[ObjectKey]:
        """Return the objects of this owner that are here."""
        return [key for key in sorted(self._complete) if key.owner == owner]

    def all_here(self, keys: list[ObjectKey]) -> bool:
        return all(key in self._complete for key in keys)

    def on_chunk(self, chunk: ObjectChunk) -> tuple[list[TaskRun], ObjectCredit | None]:
        """The runs that need nothing more, and what the sender may be told. Raises WrongBytes."""
        incoming = self._incoming.get(chunk.key)
        if incoming is None or chunk.offset != incoming.received:
            return [], None
        if incoming.size is None:
            incoming.size = chunk.size
            self.store.create(chunk.key, chunk.size)
        if incoming.size != chunk.size:
            raise WrongBytes("The chunks of an object disagree about its size.")
        self.store.write(chunk.key, chunk.offset, chunk.data)
        incoming.received += len(chunk.data)
        _check_function(incoming, chunk)
        credit = ObjectCredit(chunk.key, incoming.received)
        if incoming.received < chunk.size:
            return [], credit
        return self._completed(chunk.key), None

    def _completed(self, key: ObjectKey) -> list[TaskRun]:
        self._awaiting = None
        self._complete.add(key)
        ready = []
        incoming = self._incoming.pop(key)
        if incoming.is_value:
            self._arrived.append(key)
        for waiting in incoming.waiting:
            waiting.missing -= 1
            if waiting.missing == 0:
                ready.extend(waiting.runs)
        return ready

    def on_missing(self, key: ObjectKey, is_made_again: bool = False) -> list[TaskRun]:
        """No peer has the object. Returns the runs that waited for it. If it is a result that is being made again,
        later calls of actors wait for it: ``is_awaited`` says so."""
        incoming = self._incoming.get(key)
        if incoming is None:
            return []
        self.give_up(key)
        kept: list[_WaitingRun] = []
        gone: list[_WaitingRun] = []
        for waiting in incoming.waiting:
            may_wait = is_made_again and waiting.is_of_actor and _is_earlier(key, waiting)
            (kept if may_wait else gone).append(waiting)
        if kept:
            self._incoming[key] = _Incoming(waiting=kept, is_awaited=True)
        for waiting in gone:
            self._forget(waiting)
        return [run for waiting in gone for run in waiting.runs]

    def is_awaited(self, key: ObjectKey) -> bool:
        """Return whether calls wait for a result that is being made again."""
        incoming = self._incoming.get(key)
        return incoming is not None and incoming.is_awaited

    def take_made(self, key: ObjectKey) -> list[TaskRun]:
        """A result is here that tasks wait for, because it has been made here. Returns the runs that need nothing
        more."""
        incoming = self._incoming.get(key)
        if incoming is None or incoming.is_value or incoming.size is not None or key not in self._complete:
            return []
        return self._completed(key)

    def on_located(self, key: ObjectKey) -> None:
        """The object is on its way."""
        self._incoming[key].is_awaited = False

    def waiting_runs(self) -> list[TaskRun]:
        return [run for waiting in self._waiting() for run in waiting.runs]

    def remove_waiting(self, session: bytes, tasks: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
        """Like ``TaskQueue.remove``, for those that wait here."""
        self._awaiting = None
        removed: list[tuple[int, int]] = []
        for waiting in self._waiting():
            waiting.runs = [part for run in waiting.runs for part in without_tasks(run, session, tasks, removed)]
        return removed

    def _waiting(self) -> list[_WaitingRun]:
        seen: dict[int, _WaitingRun] = {}
        for incoming in self._incoming.values():
            for waiting in incoming.waiting:
                seen[id(waiting)] = waiting
        return list(seen.values())

    def take_waiting(self) -> list[TaskRun]:
        """Give up all runs that wait, but for calls of actors, which no other agent can run."""
        self._awaiting = None
        runs = [run for run in self.waiting_runs() if not run.options.actor]
        for incoming in self._incoming.values():
            incoming.waiting = [each for each in incoming.waiting if any(run.options.actor for run in each.runs)]
        return runs

    def held_uploads(self) -> list[tuple[ObjectKey, int, bool]]:
        """The objects of clients that are here: key, size (0: unknown), and whether it is in the host's store."""
        keys = [key for key in sorted(self._complete) if key.number == 0 or key.number >= UPLOAD_NUMBER]
        return [(key, self.store.size(key) or 0, key in self.stored) for key in keys]

    def held_copies(self) -> list[tuple[ObjectKey, int, bool]]:
        """The same for values that were not made here as results of tasks outside graphs."""
        keys = [key for key in sorted(self._complete) if 0 < key.number < UPLOAD_NUMBER and key not in self._rows]
        sizes = [(key, self.store.size(key), key in self.stored) for key in keys]
        return [(key, size or 0, is_stored) for key, size, is_stored in sizes if is_stored or size is not None]

    def is_copy(self, key: ObjectKey) -> bool:
        """Return whether a value is here, and not as the result of a task outside graphs that has run here."""
        return key in self._complete and key not in self._rows

    @property
    def has_results(self) -> bool:
        """A large result is here that is not the value of a node."""
        return bool(self._rows)

    def held_results(self) -> list[ResultRun]:
        """The results that are here, for a scheduler that knows nothing of them."""
        rows: dict[bytes, list[Row]] = {}
        for key, row in self._rows.items():
            rows.setdefault(key.owner, []).append(row)
        return [ResultRun(session, each) for session, each in rows.items()]

    def restart(self) -> list[ObjectKey]:
        """A new epoch: what was under way is asked for again, from the start."""
        self._outgoing.clear()
        for incoming in self._incoming.values():
            incoming.received = 0
            incoming.is_awaited = False
        return list(self._incoming)

    def _forget(self, gone: _WaitingRun) -> None:
        self._awaiting = None
        for incoming in self._incoming.values():
            incoming.waiting = [waiting for waiting in incoming.waiting if waiting is not gone]

    # ---- going out -------------------------------------------------------------------------------------------

    def add_result(self, number: int, sequence: int, key: ObjectKey, row: Row | None = None) -> None:
        """A worker process wrote a large result. ``row``: what is said of it, unless it is the value of a node."""
        if row is not None:
            self._rows[key] = row
        if self.store.name_result(number, sequence, key):
            self.stored.pop(key, None)
        else:
            self.stored[key] = True
        self._complete.add(key)

    def is_stored(self, key: ObjectKey) -> bool:
        """Return whether the object is in the host's store, as far as is known."""
        return key in self.stored

    def take_lost(self) -> list[ObjectKey]:
        """The host's store has died; what was there."""
        lost, self.stored = list(self.stored), {}
        self._complete.difference_update(lost)
        for key in lost:
            self._rows.pop(key, None)
        return lost

    def catch_up(self, number: int) -> None:
        """Take in the messages that a worker process sent outside its board."""
        self.store.catch_up(number)

    def on_request(self, key: ObjectKey) -> list[ObjectChunk] | None:
        """The first window; None: not here."""
        size = self.store.size(key) if key in self._complete else None
        if size is None:
            return None
        self._outgoing[key] = _Outgoing(0, OBJECT_WINDOW_BYTES, size)
        return self._chunks(key)

    def begin(self, key: ObjectKey, view: memoryview) -> list[ObjectChunk]:
        """The first window of what is in the host's store."""
        self._outgoing[key] = _Outgoing(0, OBJECT_WINDOW_BYTES, len(view), view)
        return self._chunks(key)

    def on_credit(self, credit: ObjectCredit) -> list[ObjectChunk]:
        outgoing = self._outgoing.get(credit.key)
        if outgoing is None:
            return []
        outgoing.limit = max(outgoing.limit, credit.offset + OBJECT_WINDOW_BYTES)
        if credit.offset >= outgoing.size:
            del self._outgoing[credit.key]
            return []
        return self._chunks(credit.key)

    def _chunks(self, key: ObjectKey) -> list[ObjectChunk]:
        outgoing = self._outgoing[key]
        chunks = []
        while outgoing.offset < outgoing.size and outgoing.offset < outgoing.limit:
            size = min(CHUNK_SIZE_BYTES, outgoing.size - outgoing.offset, outgoing.limit - outgoing.offset)
            if outgoing.view is not None:
                data = bytes(outgoing.view[outgoing.offset : outgoing.offset + size])
            else:
                data = self.store.read(key, outgoing.offset, size)
            chunks.append(ObjectChunk(key, outgoing.size, outgoing.offset, data))
            outgoing.offset += size
        if outgoing.offset >= outgoing.size:
            del self._outgoing[key]
        return chunks

    def release(self, key: ObjectKey) -> bool:
        """The object is not needed. Returns whether the host's store is to drop it."""
        self._outgoing.pop(key, None)
        self._rows.pop(key, None)
        if key not in self._complete:
            return False
        self._complete.discard(key)
        if self.stored.pop(key, False):
            return True
        self.store.drop(key)
        return False


def _is_earlier(key: ObjectKey, waiting: _WaitingRun) -> bool:
    """Return whether a result is that of an earlier task of the same client: none waits for itself, or for a later
    one."""
    run = waiting.runs[0]
    return key.owner == run.session and key.number < run.first_task


def _check_function(incoming: _Incoming, chunk: ObjectChunk) -> None:
    """Whichever client sent it first, a function is run only if its bytes are those that its digest names."""
    if chunk.key.number:
        return
    if chunk.offset == 0 or incoming.hasher is None:
        incoming.hasher = hashlib.blake2b(digest_size=ID_SIZE_BYTES)
    incoming.hasher.update(chunk.data)
    if incoming.received >= chunk.size and incoming.hasher.digest() != chunk.key.owner:
        raise WrongBytes("The bytes of the function are not those that its digest names.")
