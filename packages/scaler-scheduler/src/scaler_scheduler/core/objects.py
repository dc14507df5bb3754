"""Objects that clients upload above the inline limit.

Most of the bytes are in the object stores of hosts, where agents find them. Bytes that stream through the scheduler are
kept chunk by chunk and handed to agents under credit.

Several clients may send the same function. The bytes of each are kept apart until one client has sent all of them, and
are compared with the digest that names the function: only then do agents receive them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    OBJECT_WINDOW_BYTES,
    OWNER_SOURCE,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
)
from scaler_scheduler.core.routes import source_for, usable_stores
from scaler_scheduler.core.stored_objects import Assembly, Forged, StoredObject
from scaler_scheduler.core.transfers import Transfers

Replies = list[tuple[bytes, object]]
"""Messages to send, each with the session that receives it."""

SOURCES_LIMIT = 4
"""Number of stores that a reader is told of. It tries the next one when a store is gone or stalls."""

SENDERS_AT_ONCE = 4
"""Number of clients that may send the same function beyond its first window at a time."""

SENDER_SECONDS = 1.0
"""Seconds that a client has to send more of a function than the slowest sender, while others wait."""

OBJECT_BYTES = 1024
"""The memory of an object in addition to its bytes."""

GONE_TEXT = "The object is not there: its owner is gone or has dropped it."
LOST_TEXT = "The object is lost: the store that held it has died."
SILENT_TEXT = (
    "The function has not arrived: no client that has it sends it. Check whether one of them is stopped or very busy,"
    " then submit the task again."
)


class ObjectStore:
    """All uploaded objects. Its methods return messages to send. ``unstated``: objects that a peer has or waits for but
    whose owner has not stated them yet, by the time when it is too late. ``awaited``: functions that readers wait for,
    by the time since when no bytes of them came (None: some came just now). ``held_bytes``: what is kept here, by
    owner."""

    def __init__(self, transfers: Transfers) -> None:
        self.objects: dict[ObjectKey, StoredObject] = {}
        self.unstated: dict[ObjectKey, float] = {}
        self.awaited: dict[ObjectKey, float | None] = {}
        self.held_bytes: dict[bytes, int] = {}
        self._senders_at: float | None = None
        self._transfers = transfers

    # ---- what owners send ------------------------------------------------------------------------------------------

    def on_chunk(self, client: bytes, chunk: ObjectChunk) -> Replies:
        """A client uploads. Its credit covers what has been received. Raises Forged."""
        stored = self._owned(client, chunk.key)
        if stored.is_function and stored.content is not None:
            return self._end_sending(stored, client, chunk)
        assembly = stored.owners[client]
        if assembly is None:
            assembly = stored.owners[client] = Assembly(chunk.size, stored.is_function)
        added = assembly.take_in(chunk)
        self._charge(client, added)
        if added and chunk.key in self.awaited:
            self.awaited[chunk.key] = None
        if not stored.is_function:
            stored.content, stored.size, stored.lost = assembly, assembly.size, False
        elif assembly.is_complete:
            return self._verify(stored, client, assembly)
        return [*self._credit(stored, client, chunk), *self._pump_all(stored)]

    def _credit(self, stored: StoredObject, client: bytes, chunk: ObjectChunk) -> Replies:
        end = chunk.offset + len(chunk.data)
        if end >= chunk.size:
            return []
        if stored.is_function and client not in stored.senders:
            if len(stored.senders) >= SENDERS_AT_ONCE:
                return []
            stored.senders[client] = True
        return [(client, ObjectCredit(stored.key, CREDIT_WITHOUT_END if stored.is_complete else end))]

    def _end_sending(self, stored: StoredObject, client: bytes, chunk: ObjectChunk) -> Replies:
        """Tell a client that it may stop sending: all bytes are here."""
        is_last = chunk.offset + len(chunk.data) >= chunk.size
        return [] if is_last else [(client, ObjectCredit(stored.key, CREDIT_WITHOUT_END))]

    def _verify(self, stored: StoredObject, client: bytes, assembly: Assembly) -> Replies:
        """One client has sent all bytes of a function. If the digest is right, all clients get these bytes."""
        if assembly.digest != stored.key.owner:
            raise Forged("The bytes of a function are not those that its digest names.")
        stored.content, stored.size, stored.lost = assembly, assembly.size, False
        replies: Replies = [
            (other, ObjectCredit(stored.key, CREDIT_WITHOUT_END))
            for other, part in stored.owners.items()
            if part is not None and part is not assembly
        ]
        for other in stored.owners:
            if other != client:
                self._drop_assembly(stored, other)
        stored.senders.clear()
        return [*replies, *self._pump_all(stored)]

    def _owned(self, client: bytes, key: ObjectKey) -> StoredObject:
        self.unstated.pop(key, None)
        stored = self.objects.get(key)
        if stored is None:
            stored = self.objects[key] = StoredObject(key)
        if client not in stored.owners:
            stored.owners[client] = None
            self._charge(client, OBJECT_BYTES)
        return stored

    def _charge(self, client: bytes, size: int) -> None:
        held = self.held_bytes.get(client, 0) + size
        if held:
            self.held_bytes[client] = held
        else:
            self.held_bytes.pop(client, None)

    def _drop_assembly(self, stored: StoredObject, client: bytes) -> None:
        assembly = stored.owners.get(client)
        if assembly is not None:
            self._charge(client, -assembly.received)
            stored.owners[client] = None

    def on_stored(self, client: bytes, body: ObjectStored) -> Replies:
        """A client has put an object into the store of its host. Raises Forged."""
        if not body.key.number:
            raise Forged("A function is sent, and not put into a store.")
        stored = self._owned(client, body.key)
        if stored.home != body.store:
            stored.stores.pop(stored.home, None)  # it is in one store of its owner's: more would be copies, or lies
        stored.home = body.store
        stored.stores[body.store] = True
        stored.size = body.size
        stored.lost = False
        if stored.asked == client:
            stored.asked = None
        return self._ask(stored) if stored.readers else []

    # ---- what agents want ------------------------------------------------------------------------------------------

    def on_request(self, agent: bytes, key: ObjectKey, until: float | None, endpoints: Mapping[bytes, str]) -> Replies:
        """An agent needs an object that the store of its host does not have. ``until``: when the owner will have stated
        the object; None: it would have by now. ``endpoints``: where stores can be reached, by store and by agent; an
        object in none of these stores is relayed."""
        stored = self.objects.get(key)
        if stored is None and until is not None:
            stored = self.objects[key] = StoredObject(key)
            self.unstated[key] = until
        if stored is None or stored.lost:
            return [(agent, ObjectMissing(key, LOST_TEXT if stored else GONE_TEXT))]
        stored.holders[agent] = True
        given_up = stored.fetching.pop(agent, None)
        if stored.size >= 0 and usable_stores(stored, agent, endpoints):
            stored.waiting[agent] = True
            return self._send_to_stores(stored, endpoints)
        stored.readers[agent] = [0, 0]
        if not key.number:
            self.awaited.setdefault(key, None)
        replies = [*self._ask(stored), *self._pump(stored, agent)]
        if given_up is not None and stored.waiting:
            replies += self._relay_waiting(stored)
        return replies

    def _send_to_stores(self, stored: StoredObject, endpoints: Mapping[bytes, str]) -> Replies:
        """Tell waiting agents of their sources, in the order in which they came, as far as there are any."""
        replies: Replies = []
        slow = self._transfers.slow_agents()
        while stored.waiting:
            agent = next(iter(stored.waiting))
            source = source_for(stored, agent, endpoints, slow)
            if source is None:
                break
            del stored.waiting[agent]
            stored.fetching[agent] = source
            replies += self._locate(stored, agent, source, endpoints)
        return replies

    def _locate(self, stored: StoredObject, agent: bytes, source: bytes, endpoints: Mapping[bytes, str]) -> Replies:
        """Tell an agent where its store gets the object, and an owner where to push it."""
        first = endpoints.get(source) or OWNER_SOURCE
        others = [endpoints[store] for store in stored.stores if endpoints.get(store)]
        sources = tuple(dict.fromkeys((first, *others)))[:SOURCES_LIMIT]
        replies: Replies = [(agent, ObjectLocations(stored.key, stored.size, sources))]
        if first == OWNER_SOURCE:
            owner = next(iter(stored.owners))
            replies.append((owner, ObjectLocations(stored.key, stored.size, (endpoints[agent],))))
        return replies

    def _relay_waiting(self, stored: StoredObject) -> Replies:
        """A store could not be reached: other agents that wait for it would only find out the same."""
        waiting, stored.waiting = stored.waiting, {}
        replies: Replies = []
        for agent in waiting:
            stored.readers[agent] = [0, 0]
            replies += self._pump(stored, agent)
        return replies

    def on_copied(
        self, agent: bytes, body: ObjectStored, until: float | None, endpoints: Mapping[bytes, str]
    ) -> Replies:
        """An agent has an object: its store has fetched it, or has it from before a restart. ``until``: as for
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
        if any(body.store) and not stored.is_function:
            stored.stores[body.store] = True
            stored.replace_source(agent, body.store)
        return self._send_to_stores(stored, endpoints)

    def expire(self, now: float, until: Callable[[ObjectKey, float], float | None]) -> Replies:
        """Owners have not stated some objects in time: no agent gets them. ``until``: as for ``on_request``, now."""
        replies: Replies = []
        for key in [key for key, deadline in self.unstated.items() if deadline <= now]:
            stored = self.objects[key]
            later = until(key, now)
            if later is not None and (stored.holders or stored.readers or stored.waiting):
                self.unstated[key] = later
                continue
            del self.unstated[key]
            del self.objects[key]
            waiting = {**stored.readers, **stored.waiting}
            replies += [(agent, ObjectMissing(key, GONE_TEXT)) for agent in waiting]
            replies += [(agent, ObjectRelease((key,))) for agent in stored.holders if agent not in waiting]
        return replies

    def _ask(self, stored: StoredObject) -> Replies:
        """Have the owner send an object that is only in a store."""
        if stored.asked is not None or stored.content is not None or not stored.owners or stored.size < 0:
            return []
        stored.asked = next(iter(stored.owners))
        return [(stored.asked, ObjectRequest(stored.key))]

    # ---- functions that several clients send -------------------------------------------------------------------------

    def lose_patience(self, now: float, limit_seconds: float) -> Replies:
        """Clients that send a function which readers wait for make room for others that send more. When no bytes come
        for ``limit_seconds``, the readers are told. Any client that has a function may offer it, so a silent or slow
        one must not hold up the others."""
        replies: Replies = []
        is_turn = self._senders_at is None or now >= self._senders_at
        if is_turn:
            self._senders_at = now + SENDER_SECONDS
        for key, since in list(self.awaited.items()):
            stored = self.objects.get(key)
            if stored is None or not stored.readers or stored.is_complete:
                del self.awaited[key]
                continue
            if since is None:
                self.awaited[key] = now
            elif now - since >= limit_seconds:
                replies += self._give_up(stored)
                continue
            if is_turn:
                replies += self._replace_slowest(stored)
        return replies

    def _replace_slowest(self, stored: StoredObject) -> Replies:
        """Have the slowest sender make room for an owner that waits."""
        grown = {sender: self._progress(stored, sender) for sender in stored.senders}
        if len(grown) >= SENDERS_AT_ONCE and self._next_sender(stored) is not None:
            slowest = min(grown, key=grown.__getitem__)
            del stored.senders[slowest]
            found = self._next_sender(stored, after=slowest)
            return self._let_send(stored, found)
        return self._fill_senders(stored)

    def _progress(self, stored: StoredObject, sender: bytes) -> int:
        assembly = stored.owners.get(sender)
        return 0 if assembly is None else assembly.take_progress()

    def _fill_senders(self, stored: StoredObject) -> Replies:
        replies: Replies = []
        while len(stored.senders) < SENDERS_AT_ONCE and (found := self._next_sender(stored)) is not None:
            replies += self._let_send(stored, found)
        return replies

    def _next_sender(self, stored: StoredObject, after: bytes | None = None) -> bytes | None:
        """An owner that may not send now. With ``after``, the next one in turn."""
        sessions = list(stored.owners)
        if after in stored.owners:
            start = sessions.index(after) + 1
            sessions = [*sessions[start:], *sessions[:start]]
        for session in sessions:
            if session not in stored.senders and stored.owners[session] is not None:
                return session
        return None

    def _let_send(self, stored: StoredObject, sender: bytes | None) -> Replies:
        assembly = stored.owners.get(sender) if sender is not None else None
        if sender is None or assembly is None:
            return []
        stored.senders[sender] = True
        return [(sender, ObjectCredit(stored.key, assembly.received))]

    def _give_up(self, stored: StoredObject) -> Replies:
        """Readers are told that the function did not come; a later request may succeed."""
        del self.awaited[stored.key]
        readers = [*stored.readers, *stored.waiting]
        stored.readers, stored.waiting = {}, {}
        return [(agent, ObjectMissing(stored.key, SILENT_TEXT)) for agent in readers]

    def on_lost(self, client: bytes, key: ObjectKey) -> Replies:
        """An owner cannot send the object."""
        stored = self.objects.get(key)
        if stored is None or client not in stored.owners or stored.is_complete:
            return []
        if stored.is_function:
            return self._leave(stored, client)
        stored.lost = True
        stored.stores.clear()
        return self._tell_missing(stored)

    def _leave(self, stored: StoredObject, client: bytes) -> Replies:
        """A client does not own a function any more. The function stays as long as it has another owner."""
        self._disown(stored, client)
        if stored.owners:
            return self._fill_senders(stored) if stored.readers and stored.content is None else []
        self.objects.pop(stored.key, None)
        self.awaited.pop(stored.key, None)
        return self._tell_missing(stored)

    def _tell_missing(self, stored: StoredObject) -> Replies:
        readers = [*stored.readers, *stored.waiting]
        stored.readers, stored.waiting = {}, {}
        return [(agent, ObjectMissing(stored.key, LOST_TEXT)) for agent in readers]

    def _disown(self, stored: StoredObject, client: bytes) -> None:
        """Bytes that were charged to this owner and are still needed are charged to another one."""
        assembly = stored.owners[client]
        self._drop_assembly(stored, client)
        del stored.owners[client]
        stored.senders.pop(client, None)
        self._charge(client, -OBJECT_BYTES)
        if assembly is not None and assembly is stored.content and stored.owners:
            heir = next(iter(stored.owners))
            stored.owners[heir] = assembly
            self._charge(heir, assembly.received)

    def put_off(self, seconds: float) -> None:
        """Extend all deadlines of owners by the time in which the scheduler did not run."""
        self.unstated = {key: deadline + seconds for key, deadline in self.unstated.items()}
        self.awaited = {key: since if since is None else since + seconds for key, since in self.awaited.items()}

    # ---- streaming ------------------------------------------------------------------------------------------------

    def on_credit(self, agent: bytes, credit: ObjectCredit) -> Replies:
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

    def _pump_all(self, stored: StoredObject) -> Replies:
        return [reply for agent in list(stored.readers) for reply in self._pump(stored, agent)]

    def _pump(self, stored: StoredObject, agent: bytes) -> Replies:
        reader, content = stored.readers[agent], stored.content
        pieces = content.pieces(stored.key, reader[0], reader[1] + OBJECT_WINDOW_BYTES) if content is not None else []
        if pieces:
            reader[0] = pieces[-1].offset + len(pieces[-1].data)
        if stored.size >= 0 and reader[0] >= stored.size:
            del stored.readers[agent]
        return [(agent, piece) for piece in pieces]

    def release(self, owner: bytes, key: ObjectKey) -> tuple[StoredObject | None, Replies]:
        """The owner needs the object no longer. Returns the object when it was the last owner: its holders must be
        told."""
        stored = self.objects.get(key)
        if stored is None or owner not in stored.owners:
            return None, []
        self._disown(stored, owner)
        if stored.owners:
            return None, self._fill_senders(stored) if stored.readers and stored.content is None else []
        self.unstated.pop(key, None)
        self.awaited.pop(key, None)
        return self.objects.pop(key), []

    def lose_copy(self, agent: bytes, key: ObjectKey, store: bytes) -> None:
        """The store of the agent's host has died, and with it its copy of the object."""
        stored = self.objects.get(key)
        if stored is not None:
            stored.holders.pop(agent, None)
            stored.stores.pop(store, None)

    def forget_store(self, store: bytes) -> None:
        """A store has died. Its objects are requested from their owners when they are needed."""
        for stored in self.objects.values():
            stored.stores.pop(store, None)

    def forget_agent(self, agent: bytes) -> Replies:
        """An agent is gone. Agents that waited behind it need not wait any longer."""
        replies: Replies = []
        for stored in self.objects.values():
            stored.readers.pop(agent, None)
            stored.holders.pop(agent, None)
            stored.waiting.pop(agent, None)
            if stored.fetching.pop(agent, None) is not None and stored.waiting:
                replies += [*self._ask(stored), *self._relay_waiting(stored)]
        return replies

    def check(self) -> None:
        held: dict[bytes, int] = {}
        for key, stored in self.objects.items():
            assert stored.key == key and (stored.owners or key in self.unstated), key
            for owner, assembly in stored.owners.items():
                size = OBJECT_BYTES + (assembly.received if assembly is not None else 0)
                held[owner] = held.get(owner, 0) + size
                assert assembly is None or assembly.received == sum(map(len, assembly.chunks)), key
            assert all(sender in stored.owners for sender in stored.senders), key
        assert held == self.held_bytes, (held, self.held_bytes)
