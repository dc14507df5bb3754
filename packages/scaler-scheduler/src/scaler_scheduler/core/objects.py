"""What clients send that is above the inline limit: most of it is in the stores of hosts, where agents find it. What
streams through here is kept chunk by chunk and handed to agents under credit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    CREDIT_WITHOUT_END,
    OBJECT_WINDOW_BYTES,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
)

READERS_PER_STORE = 2
"""How many stores fetch an object from one store at a time."""

SOURCES_LIMIT = 4
"""How many stores one is told of; it goes on to the next when one is gone or stalls."""

GONE_TEXT = "The object is not there: its owner is gone or has dropped it."
LOST_TEXT = "The object is lost: the store that held it has died."
SILENT_TEXT = (
    "The function has not arrived: no client that has it sends it. Look whether one of them is stopped or very busy,"
    " then submit the task again."
)
ASK_ANOTHER_SECONDS = 5.0
"""An owner that has sent nothing of a function for so long is not the only one to be asked for it."""


class StoredObject:
    """One object, in ``stores``, or here, complete or still arriving. ``readers``: {agent session: [sent, credit]}.
    ``asked``: the owner that was asked to send what is in a store only; ``silent``: those that were before. ``lost``:
    nobody has it any more. ``fetching``: agents whose stores fetch it, and from which; ``waiting``: those whose turn
    comes when a store is free or has it."""

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.size = -1
        self.received = 0
        self.chunks: list[bytes] = []
        self.offsets: list[int] = []
        self.owners: dict[bytes, bool] = {}
        self.readers: dict[bytes, list[int]] = {}
        self.holders: dict[bytes, bool] = {}
        self.stores: dict[bytes, bool] = {}
        self.fetching: dict[bytes, bytes] = {}
        self.waiting: dict[bytes, bool] = {}
        self.asked: bytes | None = None
        self.silent: dict[bytes, bool] = {}
        self.lost = False

    def take_in(self, chunk: ObjectChunk) -> None:
        """Append what is new of a chunk; the same content may come from several clients."""
        self.size = chunk.size
        start = self.received - chunk.offset
        if start < 0 or start >= len(chunk.data):
            return
        data = chunk.data if start == 0 else bytes(chunk.data)[start:]
        self.offsets.append(self.received)
        self.chunks.append(data)
        self.received += len(data)

    def pieces(self, sent: int, limit: int) -> list[ObjectChunk]:
        """What may be sent to a reader that has been sent ``sent`` bytes and may be sent up to ``limit``."""
        found = []
        while sent < min(self.received, limit):
            index = bisect_right(self.offsets, sent) - 1
            start = sent - self.offsets[index]
            data = self.chunks[index]
            if start or len(data) > CHUNK_SIZE_BYTES:
                data = bytes(data)[start : start + CHUNK_SIZE_BYTES]
            found.append(ObjectChunk(self.key, self.size, sent, data))
            sent += len(data)
        return found


class ObjectStore:
    """All uploaded objects. Its verbs return bodies to send: [(session, body)]. ``unstated``: those that somebody has
    or waits for and whose owner has not spoken of them, by the time when that is too late. ``awaited``: functions that
    readers wait for, by the time since when nothing came of them (None: just now)."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, StoredObject] = {}
        self.unstated: dict[ObjectKey, float] = {}
        self.awaited: dict[ObjectKey, float | None] = {}

    def on_chunk(self, client: bytes, chunk: ObjectChunk) -> list[tuple[bytes, object]]:
        """A client uploads. It gets credit up to what has been taken in."""
        stored = self._owned(client, chunk.key)
        received = stored.received
        stored.take_in(chunk)
        if stored.received > received and chunk.key in self.awaited:
            self.awaited[chunk.key] = None
        end = chunk.offset + len(chunk.data)
        replies: list[tuple[bytes, object]] = []
        if end < chunk.size:
            complete = stored.received >= stored.size
            replies.append((client, ObjectCredit(chunk.key, CREDIT_WITHOUT_END if complete else end)))
        for agent in list(stored.readers):
            replies += self._pump(stored, agent)
        return replies

    def _owned(self, client: bytes, key: ObjectKey) -> StoredObject:
        self.unstated.pop(key, None)
        stored = self.objects.setdefault(key, StoredObject(key))
        stored.owners[client] = True
        return stored

    def on_stored(self, client: bytes, body: ObjectStored) -> list[tuple[bytes, object]]:
        """A client has put an object into the store of its host."""
        stored = self._owned(client, body.key)
        stored.stores[body.store] = True
        stored.size = body.size
        stored.lost = False
        if stored.asked == client:
            stored.asked = None
        return self._ask(stored) if stored.readers else []

    def on_request(
        self, agent: bytes, key: ObjectKey, until: float | None, endpoints: Mapping[bytes, str]
    ) -> list[tuple[bytes, object]]:
        """An agent wants an object that its host's store does not have. ``until``: when its owner will have spoken of
        it; None: he has by now. ``endpoints``: by store, where the agent's own may fetch it; what is in none of these
        is relayed."""
        stored = self.objects.get(key)
        if stored is None and until is not None:
            stored = self.objects[key] = StoredObject(key)
            self.unstated[key] = until
        if stored is None or stored.lost:
            return [(agent, ObjectMissing(key, LOST_TEXT if stored else GONE_TEXT))]
        stored.holders[agent] = True
        given_up = stored.fetching.pop(agent, None)
        if stored.size >= 0 and any(endpoints.get(store) for store in stored.stores):
            stored.waiting[agent] = True
            return self._send_to_stores(stored, endpoints)
        stored.readers[agent] = [0, 0]
        if not key.number:
            self.awaited.setdefault(key, None)
        replies = [*self._ask(stored), *self._pump(stored, agent)]
        if given_up is not None and stored.waiting:
            replies += self._relay_waiting(stored)
        return replies

    def _send_to_stores(self, stored: StoredObject, endpoints: Mapping[bytes, str]) -> list[tuple[bytes, object]]:
        """Who waits is told of a store that serves few others: so many hosts get an object as a tree grows."""
        replies: list[tuple[bytes, object]] = []
        while stored.waiting:
            users = list(stored.fetching.values())
            free = [store for store in stored.stores if endpoints.get(store) and users.count(store) < READERS_PER_STORE]
            if not free:
                break
            agent = next(iter(stored.waiting))
            del stored.waiting[agent]
            source = min(free, key=users.count)
            stored.fetching[agent] = source
            others = [endpoints[store] for store in stored.stores if endpoints.get(store)]
            sources = tuple(dict.fromkeys((endpoints[source], *others)))[:SOURCES_LIMIT]
            replies.append((agent, ObjectLocations(stored.key, stored.size, sources)))
        return replies

    def _relay_waiting(self, stored: StoredObject) -> list[tuple[bytes, object]]:
        """A store could not be reached: who waits for it would only learn the same."""
        waiting, stored.waiting = stored.waiting, {}
        replies: list[tuple[bytes, object]] = []
        for agent in waiting:
            stored.readers[agent] = [0, 0]
            replies += self._pump(stored, agent)
        return replies

    def on_copied(
        self, agent: bytes, body: ObjectStored, until: float | None, endpoints: Mapping[bytes, str]
    ) -> list[tuple[bytes, object]]:
        """An agent has an object, since its store has fetched it, or from before a restart. ``until``: as of
        ``on_request``."""
        stored = self.objects.get(body.key)
        if stored is None and until is not None:
            stored = self.objects[body.key] = StoredObject(body.key)
            stored.size = body.size or -1
            self.unstated[body.key] = until
        if stored is None:
            return [(agent, ObjectRelease((body.key,)))]
        stored.holders[agent] = True
        stored.fetching.pop(agent, None)
        if any(body.store):
            stored.stores[body.store] = True
        return self._send_to_stores(stored, endpoints)

    def expire(self, now: float, until: Callable[[ObjectKey, float], float | None]) -> list[tuple[bytes, object]]:
        """Owners have not spoken of some objects in time: nobody gets them. ``until``: as of ``on_request``, now."""
        replies: list[tuple[bytes, object]] = []
        for key in [key for key, deadline in self.unstated.items() if deadline <= now]:
            later = until(key, now)
            if later is not None:
                self.unstated[key] = later
                continue
            del self.unstated[key]
            stored = self.objects.pop(key)
            waiting = {**stored.readers, **stored.waiting}
            replies += [(agent, ObjectMissing(key, GONE_TEXT)) for agent in waiting]
            replies += [(agent, ObjectRelease((key,))) for agent in stored.holders if agent not in waiting]
        return replies

    def _ask(self, stored: StoredObject) -> list[tuple[bytes, object]]:
        """Have an owner send what is in a store only."""
        if stored.asked is not None or stored.chunks or not stored.owners or stored.size < 0:
            return []
        stored.asked = next(iter(stored.owners))
        return [(stored.asked, ObjectRequest(stored.key))]

    def ask_another(self, key: ObjectKey) -> list[tuple[bytes, object]]:
        """After one owner of several is none any more: who waits for what it was to send gets it from another one."""
        stored = self.objects.get(key)
        if stored is None or not stored.readers or stored.received == stored.size or stored.asked in stored.owners:
            return []
        stored.asked = next(iter(stored.owners))
        return [(stored.asked, ObjectRequest(stored.key))]

    def lose_patience(self, now: float, limit_seconds: float) -> list[tuple[bytes, object]]:
        """Owners of functions that readers wait for send nothing: others are asked, and after ``limit_seconds`` the
        readers are told. Whoever has a function may name it, so one that is silent must not hold up the others."""
        replies: list[tuple[bytes, object]] = []
        for key, since in list(self.awaited.items()):
            stored = self.objects.get(key)
            if stored is None or not stored.readers or stored.received == stored.size:
                del self.awaited[key]
            elif since is None:
                self.awaited[key] = now
            elif now - since >= limit_seconds:
                replies += self._give_up(stored)
            elif now - since >= ASK_ANOTHER_SECONDS * (len(stored.silent) + 1):
                replies += self._ask_louder(stored)
        return replies

    def _ask_louder(self, stored: StoredObject) -> list[tuple[bytes, object]]:
        """Somebody who has not been asked yet, if there is one."""
        if stored.asked is not None:
            stored.silent[stored.asked] = True
        others = [owner for owner in stored.owners if owner not in stored.silent]
        if not others:
            return []
        stored.asked = others[0]
        return [(stored.asked, ObjectRequest(stored.key))]

    def _give_up(self, stored: StoredObject) -> list[tuple[bytes, object]]:
        """Who waits is told; who asks later may have better luck."""
        del self.awaited[stored.key]
        readers = [*stored.readers, *stored.waiting]
        stored.readers, stored.waiting, stored.silent = {}, {}, {}
        stored.asked = None
        return [(agent, ObjectMissing(stored.key, SILENT_TEXT)) for agent in readers]

    def on_lost(self, client: bytes, key: ObjectKey) -> list[tuple[bytes, object]]:
        """An owner cannot send it."""
        stored = self.objects.get(key)
        if stored is None or client not in stored.owners or stored.received == stored.size:
            return []
        if len(stored.owners) > 1:
            del stored.owners[client]
            return self.ask_another(key)
        stored.lost = True
        stored.stores.clear()
        readers = [*stored.readers, *stored.waiting]
        stored.readers, stored.waiting = {}, {}
        return [(agent, ObjectMissing(key, LOST_TEXT)) for agent in readers]

    def on_credit(self, agent: bytes, credit: ObjectCredit) -> list[tuple[bytes, object]]:
        stored = self.objects.get(credit.key)
        if stored is not None and stored.fetching.pop(agent, None) is not None and stored.waiting:
            return [*self._ask(stored), *self._relay_waiting(stored)]
        if stored is None or agent not in stored.readers:
            return []
        if credit.offset == CREDIT_WITHOUT_END:
            del stored.readers[agent]
            return []
        reader = stored.readers[agent]
        reader[1] = max(reader[1], credit.offset)
        return self._pump(stored, agent)

    def _pump(self, stored: StoredObject, agent: bytes) -> list[tuple[bytes, object]]:
        reader = stored.readers[agent]
        pieces = stored.pieces(reader[0], reader[1] + OBJECT_WINDOW_BYTES)
        if pieces:
            reader[0] = pieces[-1].offset + len(pieces[-1].data)
        if stored.size >= 0 and reader[0] >= stored.size:
            del stored.readers[agent]
        return [(agent, piece) for piece in pieces]

    def release(self, owner: bytes, key: ObjectKey) -> StoredObject | None:
        """The owner needs it no more. Returns the object when nobody does: its holders must be told."""
        stored = self.objects.get(key)
        if stored is None:
            return None
        stored.owners.pop(owner, None)
        if stored.owners:
            return None
        self.unstated.pop(key, None)
        return self.objects.pop(key)

    def lose_copy(self, agent: bytes, key: ObjectKey, store: bytes) -> None:
        """The store of the agent's host has died; the object was there."""
        stored = self.objects.get(key)
        if stored is not None:
            stored.holders.pop(agent, None)
            stored.stores.pop(store, None)

    def forget_store(self, store: bytes) -> None:
        """It has died. Owners are asked for what was there when it is wanted."""
        for stored in self.objects.values():
            stored.stores.pop(store, None)

    def forget_agent(self, agent: bytes) -> list[tuple[bytes, object]]:
        """It is gone. Who waited for its turn need not wait for it."""
        replies: list[tuple[bytes, object]] = []
        for stored in self.objects.values():
            stored.readers.pop(agent, None)
            stored.holders.pop(agent, None)
            stored.waiting.pop(agent, None)
            if stored.fetching.pop(agent, None) is not None and stored.waiting:
                replies += [*self._ask(stored), *self._relay_waiting(stored)]
        return replies
