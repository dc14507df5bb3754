"""The store's decisions: what each message does.

A peer that is told of bytes holds a pin until it releases it or its connection ends; memory is used again only when
no peer holds one. An object that several peers write at once is the one that is sealed first. Of two messages on two
connections the store may read the later one first, so an unknown key is looked up once more after everything that
waited was read (``settle``). Another store may ask for an object before this one has heard that it should fetch it, so
its question about an object that a client has sent stays open for ``EXPECT_SECONDS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from typing import Any

from scaler_protocol.limits import OWNERS_LIMIT, SOURCES_LIMIT
from scaler_protocol.messages import (
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRequest,
    ObjectStored,
    ReceivedBytes,
    StoreAbandon,
    StoreCreate,
    StoreDrop,
    StoreExtent,
    StoreFailure,
    StoreFetch,
    StoreFind,
    StoreForget,
    StoreFound,
    StoreGet,
    StoreGranted,
    StorePlace,
    StorePlaceMany,
    StoreRefused,
    StoreRegion,
    StoreRelease,
    StoreReserve,
    StoreSeal,
    StoreSegmentClosed,
    StoreSettings,
    StoreStatus,
    StoreStatusRequest,
)
from scaler_protocol.objects.bulk_frames import label_of
from scaler_protocol.objects.core.effects import CloseSegment, DirectoryChange, Effect, StoreAnswer
from scaler_protocol.objects.core.fetches import Fetches
from scaler_protocol.objects.core.memory import Memory, Refusal
from scaler_protocol.objects.core.object import Object
from scaler_protocol.objects.core.peer import StorePeer
from scaler_protocol.objects.core.servings import Servings
from scaler_protocol.objects.core.sizes import Sizes
from scaler_protocol.objects.core.space import Extent, pages

MISSING_TEXT = "The object store of this host does not have the object."
_LOST_LIMIT = 1024
_EXPECTED_LIMIT = 1024

EXPECT_SECONDS = 0.5
"""A store that asks for an unknown object is told so after this long."""

_ITSELF = 0
"""The store is a peer of its own while it fetches. Peers on this host have positive numbers, other stores negative."""


class MalformedRequest(ValueError):
    """The peer broke the rules of its connection, which must end."""


@dataclass(slots=True)
class _WaitingPeer:
    """A peer that wants an object which is being written: to find it, to map it, or to write it too."""

    peer: int
    body: StoreFind | StoreGet | StoreCreate


class StoreCore:
    def __init__(self, store: bytes, pid: int, capacity_bytes: int) -> None:
        """``capacity_bytes``: half of what there is."""
        self.memory = Memory(capacity_bytes)
        self._capacity_limit_bytes = 2 * capacity_bytes
        self._disk_free_bytes = self._disk_capacity_bytes = 0
        self.endpoint = ""
        self.fetches = Fetches(self.memory.effects)
        self.servings = Servings(self.memory.effects)
        self._store = store
        self._pid = pid
        self._itself = StorePeer(_ITSELF)
        self._peers: dict[int, StorePeer] = {_ITSELF: self._itself}
        self._holders: dict[int, StorePeer] = {
            _ITSELF: self._itself
        }  # whose pins count, though they may be gone themselves
        self._inner: list[tuple[int, Any]] = []  # answers that this core takes itself
        self._objects: dict[ObjectKey, Object] = {}
        self._owners: dict[bytes, dict[ObjectKey, None]] = {}
        self._next_owner = 0  # in ``_owners``, where the next status begins if it has no room for all of them
        self._sizes = Sizes()  # of what is in ``_objects``
        self._writers: dict[ObjectKey, list[Object]] = {}
        self._waiting: dict[ObjectKey, list[_WaitingPeer]] = {}
        self._spared: dict[int, dict[ObjectKey, None]] = {}  # of owners that were forgotten, by the peer that put them
        self._dropped: dict[int, Object] = {}  # by number: still pinned, or on their way
        self._doubts: list[tuple[int, Any]] = []
        self._expected: dict[ObjectKey, dict[int, float]] = {}  # other stores that ask, and until when
        self._lost: dict[ObjectKey, str] = {}  # why the last objects that were lost are missing
        self._next_object = 1
        self._next_pin = 1
        self._pinned_bytes = 0
        self._numbers: dict[int, Object] = {}
        self._handlers: dict[type, Callable[[StorePeer, Any, float], None]] = {
            StoreCreate: self._on_create,
            StoreSeal: self._on_seal,
            StoreAbandon: self._on_abandon,
            StoreReserve: self._on_reserve,
            StorePlace: self._on_place,
            StorePlaceMany: self._on_place_many,
            StoreGet: self._on_get,
            StoreFind: self._on_find,
            StoreRelease: self._on_release,
            StoreDrop: self._on_drop,
            StoreForget: self._on_forget,
            StoreFetch: self._on_fetch,
            StoreSettings: self._on_settings,
            StoreStatusRequest: self._on_status_request,
        }
        self._store_handlers: dict[type, Callable[[StorePeer, Any, float], None]] = {
            ObjectRequest: self._on_request,
            ObjectCredit: self._on_credit,
            ObjectStored: self._on_offered,
        }

    # ---- the contract of all cores -------------------------------------------------------------------------------

    def on_connected(self, peer: int) -> None:
        """``peer`` is positive on this host, negative for another store."""
        self._peers[peer] = self._holders[peer] = StorePeer(peer)

    def on_message(self, peer: int, body: Any, now: float) -> None:
        """Raises MalformedRequest when the connection must end."""
        handler = (self._handlers if peer > 0 else self._store_handlers).get(type(body))
        if handler is None:
            raise MalformedRequest(f"A store does not handle {type(body).__name__}.")
        handler(self._peers[peer], body, now)
        self._after(now)

    def has_peer(self, peer: int) -> bool:
        return peer in self._peers

    def on_peer_lost(self, peer: int, now: float) -> None:
        """The connection has ended. The peer's pins, and the memory that it may still write to, stay until
        ``on_pins_lost``: only its connection may have ended, and it may be in the middle of a copy."""
        lost = self._peers.pop(peer)
        for written in list(lost.writing.values()):
            if written.extent is not None:
                self._hold(lost, written)
            self._stop_writing(lost, written, now)
        self.servings.remove_peer(peer)
        self._drop_known(tuple(self._spared.pop(peer, ())), now)
        if peer < _ITSELF:
            self.fetches.on_offerer_lost(label_of(peer), now)
        for key in self.fetches.remove_peer(peer):
            self._end_fetch(key, None, now)
        for asking in self._expected.values():
            asking.pop(peer, None)
        self._expected = {key: asking for key, asking in self._expected.items() if asking}
        self.memory.serve(now)
        self._after(now)

    def on_released(self, peer: int, pins: Sequence[int], now: float) -> None:
        """Raises MalformedRequest for a pin that the peer does not hold."""
        holder = self._holders[peer]
        for pin in pins:
            pinned = holder.pins.pop(pin, None)
            if pinned is None:
                raise MalformedRequest("The peer released a pin that it does not hold.")
            self._unpin(pinned, now)
        self._after(now)

    def on_pins_lost(self, peer: int, now: float) -> None:
        """The peer, and every process that was forked from it, maps nothing more."""
        lost = self._holders.pop(peer)
        for pinned in lost.pins.values():
            self._unpin(pinned, now)
        lost.pins.clear()
        self._give_back_region(lost, now)
        self.memory.serve(now)
        self._after(now)

    def on_deadline(self, now: float) -> None:
        self.memory.on_deadline(now)
        self.fetches.on_deadline(now)
        self._expect_no_longer(now)
        self._after(now)

    def next_deadline(self) -> float | None:
        deadlines = [self.memory.next_deadline(), self.fetches.next_deadline()]
        deadlines += [until for asking in self._expected.values() for until in asking.values()]
        return min((each for each in deadlines if each is not None), default=None)

    def take_effects(self) -> list[Effect]:
        for effect in list(self.memory.effects):
            if isinstance(effect, CloseSegment):
                self._tell_closed(effect.number)
        effects = list(self.memory.effects)
        self.memory.effects.clear()
        return effects

    def take_directory_changes(self) -> list[DirectoryChange]:
        """Take the changes to be carried out before the effects, and before the shell writes into an extent that the
        core names."""
        changes, self.memory.directory_changes = self.memory.directory_changes, []
        return changes

    @property
    def has_doubts(self) -> bool:
        """Some keys were unknown: read what waits, then ``settle``."""
        return bool(self._doubts)

    def settle(self, now: float) -> None:
        """Everything that had come when the doubts arose was read."""
        doubts, self._doubts = self._doubts, []
        for number, body in doubts:
            peer = self._peers.get(number)
            if isinstance(body, StoreDrop):
                self._drop_known(body.keys, now)
            elif peer is not None and not self._look_up(peer, body, now):
                may_come = number < _ITSELF and body.key.number >= UPLOAD_NUMBER
                if may_come and len(self._expected) < _EXPECTED_LIMIT:
                    self._expected.setdefault(body.key, {})[number] = now + EXPECT_SECONDS
                else:
                    self._say_missing(number, body.key)
        self._after(now)

    def _expect_no_longer(self, now: float) -> None:
        """This store was not told to fetch what others have asked for."""
        for key, asking in list(self._expected.items()):
            for number in [number for number, until in asking.items() if until <= now]:
                del asking[number]
                self._say_missing(number, key)
            if not asking:
                del self._expected[key]

    # ---- writing -------------------------------------------------------------------------------------------------

    def _on_create(self, peer: StorePeer, body: StoreCreate, now: float) -> None:
        if body.key in peer.writing:  # in another of its threads
            self._waiting.setdefault(body.key, []).append(_WaitingPeer(peer.number, body))
            return
        if body.key in self._objects:
            self._answer(peer.number, StoreGranted(body.key, 0, 0, 0, self._objects[body.key].size, sealed=True))
            return
        created = self._new_object(body.key, body.size, peer.number)
        peer.writing[body.key] = created
        self._writers.setdefault(body.key, []).append(created)
        self.memory.ask(created, now)

    def _on_seal(self, peer: StorePeer, body: StoreSeal, now: float) -> None:
        sealed = peer.writing.get(body.key)
        if sealed is None or sealed.extent is None:
            raise MalformedRequest("The peer sealed an object that it was not granted.")
        del peer.writing[body.key]
        self._remove_writer(sealed)
        sealed.author = peer.number
        self._add_sealed(sealed, now)

    def _on_abandon(self, peer: StorePeer, body: StoreAbandon, now: float) -> None:
        written = peer.writing.get(body.key)
        if written is not None:
            self._stop_writing(peer, written, now)

    def _on_reserve(self, peer: StorePeer, body: StoreReserve, now: float) -> None:
        self._give_back_region(peer, now)
        region = peer.region = self.memory.region(body.size, now)
        if region is None:
            self._answer(peer.number, StoreRegion(0, 0, 0, 0))
            return
        size = self.memory.space.segments[region.segment].size
        body_out = StoreRegion(region.segment, size, region.offset, region.size, region.fresh)
        self._answer(peer.number, body_out, region.segment)

    def _on_place(self, peer: StorePeer, body: StorePlace, now: float) -> None:
        self._place(peer, body.offset, [(body.key, body.size)], now)

    def _on_place_many(self, peer: StorePeer, body: StorePlaceMany, now: float) -> None:
        if len(body.numbers) != len(body.sizes):
            raise MalformedRequest("The number of placed objects differs from the number of their sizes.")
        keys = [ObjectKey(body.owner, number) for number in body.numbers]
        self._place(peer, body.offset, list(zip(keys, body.sizes, strict=True)), now)

    def _place(self, peer: StorePeer, offset: int, objects: list[tuple[ObjectKey, int]], now: float) -> None:
        region = peer.region
        total = sum(pages(size) for _, size in objects)
        if region is None or offset != region.offset or total > region.size:
            raise MalformedRequest("An object was placed outside the peer's region.")
        rest = Extent(region.segment, offset + total, region.size - total, region.fresh)
        peer.region = rest if rest.size else None
        for key, size in objects:
            placed = self._new_object(key, size, None)
            placed.author = peer.number
            placed.extent = Extent(region.segment, offset, pages(size))
            offset += placed.extent.size
            self._add_sealed(placed, now)

    def _add_sealed(self, sealed: Object, now: float) -> None:
        sealed.writer, sealed.sealed = None, True
        if sealed.dropped or sealed.key in self._objects:
            sealed.dropped = True
            self._let_go(sealed, now)
        else:
            self._objects[sealed.key] = sealed
            self._owners.setdefault(sealed.key.owner, {})[sealed.key] = None
            self._sizes.add(sealed.size)
            self.memory.publish(sealed)
            self.memory.rest(sealed)
        self._answer_waiting(sealed.key, now)

    def _stop_writing(self, peer: StorePeer, written: Object, now: float) -> None:
        del peer.writing[written.key]
        self._remove_writer(written)
        written.writer, written.dropped = None, True
        self._let_go(written, now)
        self._answer_waiting(written.key, now)

    def _answer_waiting(self, key: ObjectKey, now: float) -> None:
        """The object has arrived, begins to arrive, or has one writer less. Peers that cannot have it yet continue to
        wait while there is a writer."""
        expecting = [_WaitingPeer(number, StoreGet(key)) for number in self._expected.pop(key, ())]
        for waiting in (*self._waiting.pop(key, ()), *expecting):
            peer = self._peers.get(waiting.peer)
            if peer is None:
                continue
            if isinstance(waiting.body, StoreCreate):
                self._on_create(peer, waiting.body, now)
            elif not self._look_up(peer, waiting.body, now):
                self._say_missing(waiting.peer, key)

    def _remove_writer(self, written: Object) -> None:
        writers = self._writers[written.key]
        writers.remove(written)
        if not writers:
            del self._writers[written.key]

    def _give_back_region(self, peer: StorePeer, now: float) -> None:
        if peer.region is not None:
            self.memory.free(peer.region, now, written=False)
            peer.region = None

    def _new_object(self, key: ObjectKey, size: int, writer: int | None) -> Object:
        created = Object(self._next_object, key, size, writer)
        self._next_object += 1
        self._numbers[created.number] = created
        return created

    # ---- reading -------------------------------------------------------------------------------------------------

    def _on_get(self, peer: StorePeer, body: StoreGet, now: float) -> None:
        if not self._look_up(peer, body, now):
            self._doubts.append((peer.number, body))

    def _on_find(self, peer: StorePeer, body: StoreFind, now: float) -> None:
        if not self._look_up(peer, body, now):
            self._doubts.append((peer.number, body))

    def _look_up(self, peer: StorePeer, body: StoreFind | StoreGet, now: float) -> bool:
        """Answer now or when it can be answered; False: the object is neither here nor being written."""
        known = self._objects.get(body.key)
        if known is None:
            if body.key not in self._writers:
                return False
            if peer.number < _ITSELF and self.fetches.written(body.key) is not None:
                self._pin(peer, self._itself.writing[body.key])
            else:
                self._waiting.setdefault(body.key, []).append(_WaitingPeer(peer.number, body))
        elif isinstance(body, StoreFind):
            self._answer(peer.number, StoreFound(body.key, known.size))
        elif known.extent is not None and not (known.moving and known.on_disk):
            self._pin(peer, known)
        else:
            self._bring_back(peer, known, now)
        return True

    def _bring_back(self, peer: StorePeer, known: Object, now: float) -> None:
        known.readers.append(peer.number)
        if len(known.readers) == 1:
            self.memory.ask(known, now)

    def _pin(self, peer: StorePeer, known: Object) -> None:
        assert known.extent is not None
        copied = not known.pins and self._pinned_bytes > self.memory.pinned_limit_bytes
        pin = self._hold(peer, known)
        number, offset = known.extent.segment, known.extent.offset
        size = self.memory.space.segments[number].size
        self._answer(peer.number, StoreExtent(known.key, number, size, offset, known.size, pin, copied), number)

    def _hold(self, peer: StorePeer, known: Object) -> int:
        """Keep the memory of an object until the peer releases it. Returns the number of the pin."""
        assert known.extent is not None
        pin = self._next_pin
        self._next_pin += 1
        if not known.pins:
            self._pinned_bytes += known.extent.size
        known.pins += 1
        peer.pins[pin] = known
        self.memory.use(known)
        return pin

    def _on_release(self, peer: StorePeer, body: StoreRelease, now: float) -> None:
        self.on_released(peer.number, body.pins, now)

    def _unpin(self, pinned: Object, now: float) -> None:
        pinned.pins -= 1
        if pinned.pins:
            return
        assert pinned.extent is not None
        self._pinned_bytes -= pinned.extent.size
        if pinned.dropped and pinned.writer is None:
            self._let_go(pinned, now)
        else:
            self.memory.rest(pinned)
            self.memory.serve(now)

    # ---- other stores --------------------------------------------------------------------------------------------

    def _on_fetch(self, peer: StorePeer, body: StoreFetch, now: float) -> None:
        if body.key in self.fetches:
            self.fetches.add(body.key, body.size, body.sources, peer.number)
        elif not self._look_up(peer, StoreFind(body.key), now):
            self.fetches.add(body.key, body.size, body.sources, peer.number)
            self._on_create(self._itself, StoreCreate(body.key, body.size), now)

    def on_source_welcomed(self, endpoint: str, store: bytes, now: float) -> None:
        """The connection to another store was made, perhaps again. ``store`` is its id."""
        self.fetches.on_welcomed(endpoint, store, now)
        self._after(now)

    def on_source_opening(self, endpoint: str, now: float) -> None:
        """It answers; ``on_source_welcomed`` follows when its bulk connection was opened, or cannot be."""
        self.fetches.on_opening(endpoint, now)

    def on_source_cut(self, endpoint: str, now: float) -> None:
        """The connection is gone, and is tried again."""
        self.fetches.on_cut(endpoint, now)

    def on_source_lost(self, endpoint: str, now: float) -> None:
        """It refuses, or will not be reached."""
        self.fetches.on_lost(endpoint, now)
        self._after(now)

    def on_source_missing(self, endpoint: str, body: ObjectMissing, now: float) -> None:
        self.fetches.on_missing(endpoint, body.key, now)
        self._after(now)

    def on_source_chunk(self, endpoint: str, chunk: ObjectChunk, now: float) -> Extent | None:
        """Return where to write it, from the chunk's offset on; then ``on_piece_written``. None: it is not wanted."""
        wanted = self.fetches.on_chunk(endpoint, chunk, now)
        self._after(now)
        return self._itself.writing[chunk.key].extent if wanted else None

    def bulk_extent(self, endpoint: str, key: ObjectKey, size: int, offset: int) -> Extent | None:
        """Return where to write bytes that come on a bulk connection; None: they are not wanted. Valid until the core
        is called again; then ``on_bulk_received`` and ``on_piece_written``."""
        is_wanted = self.fetches.wants(endpoint, key, size, offset)
        return self._itself.writing[key].extent if is_wanted else None

    def on_bulk_received(self, endpoint: str, key: ObjectKey, count: int, now: float) -> None:
        self.fetches.on_bytes(endpoint, key, count, now)

    def on_piece_sent(self, peer: int, key: ObjectKey, now: float) -> None:
        """A piece that was on a bulk connection."""
        self._let_servings_go(self._peers[peer], self.servings.on_piece_sent(peer, key), now)
        self._after(now)

    def on_bulk_lost(self, peer: int, now: float) -> None:
        """The bulk connection of a peer is gone, and what was on it."""
        self.fetches.on_offerer_lost(label_of(peer), now)
        self._let_servings_go(self._peers[peer], self.servings.on_bulk_lost(peer), now)
        self._after(now)

    def on_piece_written(self, key: ObjectKey, now: float) -> None:
        """A piece of an object that is fetched is in memory."""
        if key in self.fetches:
            self._end_servings(self.servings.on_grown(key, self.fetches.note_written(key)), now)
            if self.fetches.is_complete(key):
                self._complete(key, now)
        self._after(now)

    def on_piece_not_written(self, key: ObjectKey, now: float) -> None:
        """The host has no memory left for an object that is fetched."""
        text = "This host has no free memory. End other programs, or lower --object-store-memory."
        self._end_fetch(key, StoreRefused(key, StoreFailure.FULL, text), now)
        self._after(now)

    def _complete(self, key: ObjectKey, now: float) -> None:
        """The object has come, and was written."""
        size = self._itself.writing[key].size
        peers = self.fetches.remove(key, now)
        self._on_seal(self._itself, StoreSeal(key), now)
        self._tell(peers, StoreFound(key, size))

    def _end_fetch(self, key: ObjectKey, answer: Any, now: float) -> None:
        """The object will not arrive: send ``answer`` to the peers that wait for it."""
        self._tell(self.fetches.remove(key, now), answer)
        written = self._itself.writing.get(key)
        if written is not None:
            self._stop_writing(self._itself, written, now)
        stopped = self.servings.on_stopped(key)
        for reader, _ in stopped:
            self._say_missing(reader, key)
        self._end_servings(stopped, now)

    def _tell(self, peers: list[int], body: Any) -> None:
        for peer in peers:
            self._answer(peer, body)

    def _on_request(self, peer: StorePeer, body: ObjectRequest, now: float) -> None:
        self._let_servings_go(peer, self.servings.ask(peer.number, body.key, body.offset, body.direct), now)
        self._on_get(peer, StoreGet(body.key), now)

    def _on_offered(self, peer: StorePeer, body: ObjectStored, now: float) -> None:
        self.fetches.on_offered(label_of(peer.number), body.key, now)

    def _on_credit(self, peer: StorePeer, body: ObjectCredit, now: float) -> None:
        self._let_servings_go(peer, self.servings.on_credit(peer.number, body), now)

    def _end_servings(self, ended: list[tuple[int, list[int]]], now: float) -> None:
        for reader, pins in ended:
            self._let_servings_go(self._peers[reader], pins, now)

    def _let_servings_go(self, peer: StorePeer, pins: list[int], now: float) -> None:
        for pin in pins:
            self._unpin(peer.pins.pop(pin), now)

    def _take_inner(self, number: int, body: Any, now: float) -> None:
        """An answer to the store itself while it fetches, or on its way to another store."""
        peer = self._peers.get(number)
        if number == _ITSELF:
            self._take_own(body, now)
        elif peer is None:
            return  # its pins are lost with it
        elif isinstance(body, StoreExtent):
            pinned = peer.pins[body.pin]
            assert pinned.extent is not None
            if not pinned.sealed and self._itself.writing.get(body.key) is not pinned:  # its fetch has just failed
                self._unpin(peer.pins.pop(body.pin), now)
                self._say_missing(number, body.key)
                return
            written = body.size if pinned.sealed else self.fetches.written(body.key) or 0
            pins = self.servings.start(number, body.key, pinned.extent, body.size, body.pin, written)
            self._let_servings_go(peer, pins, now)
        else:
            self.servings.decline(number, body.key)
            text = body.text if isinstance(body, (ObjectMissing, StoreRefused)) else ""
            self.memory.effects.append(StoreAnswer(number, ObjectMissing(body.key, text)))

    def _take_own(self, body: Any, now: float) -> None:
        if body.key not in self.fetches:
            return
        if isinstance(body, StoreGranted):
            self.fetches.start(body.key, now)
            self._answer_waiting(body.key, now)
        else:
            self._end_fetch(body.key, body, now)

    def _end_failed(self, now: float) -> None:
        failed = list(self.fetches.failed)
        self.fetches.failed.clear()
        text = "No object store that has the object can be reached from this host."
        for key in failed:
            self._end_fetch(key, StoreRefused(key, StoreFailure.UNREACHABLE, text), now)

    # ---- dropping ------------------------------------------------------------------------------------------------

    def _on_drop(self, peer: StorePeer, body: StoreDrop, now: float) -> None:
        unknown = self._drop_known(body.keys, now)
        if unknown:
            self._doubts.append((peer.number, StoreDrop(tuple(unknown))))

    def _on_forget(self, peer: StorePeer, body: StoreForget, now: float) -> None:
        """Objects that a client has sent stay as long as the process that put them here is connected: it may only have
        been out of the scheduler's reach for too long, and come back."""
        keys = [key for key in self._writers if key.owner == body.owner and key.number < UPLOAD_NUMBER]
        for key in self._owners.get(body.owner, ()):
            author = self._objects[key].author
            if key.number >= UPLOAD_NUMBER and author in self._peers and author != _ITSELF:
                self._spared.setdefault(author, {})[key] = None
            else:
                keys.append(key)
        self._drop_known(tuple(keys), now)

    def _drop_known(self, keys: tuple[ObjectKey, ...], now: float) -> list[ObjectKey]:
        """Drop the objects that are known; returns the other keys."""
        unknown = []
        for key in keys:
            known = self._objects.pop(key, None)
            writers = self._writers.get(key, ())
            for written in writers:
                written.dropped = True
            if known is not None:
                self._drop(known, now)
            elif key in self.fetches:
                self._end_fetch(key, ObjectMissing(key, "The object was dropped."), now)
            elif not writers:
                unknown.append(key)
        return unknown

    def _drop(self, known: Object, now: float) -> None:
        self._sizes.remove(known.size)
        owned = self._owners[known.key.owner]
        del owned[known.key]
        if not owned:
            del self._owners[known.key.owner]
        known.dropped = True
        for reader in known.readers:
            self._say_missing(reader, known.key)
        known.readers.clear()
        self._let_go(known, now)

    def _let_go(self, dropped: Object, now: float) -> None:
        self.memory.release(dropped, now)
        if dropped.pins or dropped.moving:
            self._dropped[dropped.number] = dropped
        else:
            self._dropped.pop(dropped.number, None)
            del self._numbers[dropped.number]

    # ---- memory and disk -----------------------------------------------------------------------------------------

    def on_spilled(self, number: int, error: str, now: float) -> None:
        moved = self._numbers[number]
        self.memory.on_spilled(number, error, now)
        self._after_move(moved)
        self._after(now)

    def on_loaded(self, number: int, error: str, now: float) -> None:
        moved = self.memory.on_loaded(number, error, now)
        readers, moved.readers = moved.readers, []
        if error and not moved.dropped:
            self._note_lost(moved.key, f"The object had been moved to disk and cannot be read back: {error}.")
            del self._objects[moved.key]
            moved.readers = readers
            self._drop(moved, now)
        elif not moved.dropped:
            self.memory.publish(moved)
            self.memory.rest(moved)
            self._answer_readers(moved, readers)
        self._after_move(moved)
        self._after(now)

    def _after_move(self, moved: Object) -> None:
        if moved.dropped and not moved.pins:
            self._dropped.pop(moved.number, None)
            self._numbers.pop(moved.number, None)

    def _answer_readers(self, known: Object, readers: list[int]) -> None:
        for reader in readers:
            peer = self._peers.get(reader)
            if peer is not None:
                self._pin(peer, known)

    def _after(self, now: float) -> None:
        """Handle the consequences of a call: granted or refused memory, answers to the store itself, failed fetches."""
        while self.memory.granted or self._inner or self.fetches.failed:
            self._take_granted(now)
            inner, self._inner = self._inner, []
            for number, body in inner:
                self._take_inner(number, body, now)
            self._end_failed(now)

    def _take_granted(self, now: float) -> None:
        granted, self.memory.granted = self.memory.granted, []
        for wanted, refusal in granted:
            if wanted.number not in self._numbers:
                continue  # its writer has gone meanwhile
            if refusal is not None:
                self._refuse(wanted, refusal, now)
            elif not wanted.on_disk:
                self._grant(wanted)

    def _grant(self, wanted: Object) -> None:
        extent = wanted.extent
        assert extent is not None and wanted.writer is not None
        size = self.memory.space.segments[extent.segment].size
        body = StoreGranted(wanted.key, extent.segment, size, extent.offset, wanted.size, extent.fresh)
        self._answer(wanted.writer, body, extent.segment)

    def _refuse(self, wanted: Object, refusal: Refusal, now: float) -> None:
        if wanted.writer is None:
            readers, wanted.readers = wanted.readers, []
            for reader in readers:
                self._answer(reader, StoreRefused(wanted.key, refusal.failure, refusal.text))
            return
        self._answer(wanted.writer, StoreRefused(wanted.key, refusal.failure, refusal.text))
        peer = self._peers.get(wanted.writer)
        if peer is not None:
            self._stop_writing(peer, wanted, now)

    def on_segment_failed(self, number: int, reason: str, now: float) -> None:
        """The system gave no memory for a new segment: peers that were promised a part of it are refused."""
        while (wanted := self._first_in(number)) is not None:  # what one leaves, another may be given
            if wanted.moving:
                self.memory.on_not_loaded(wanted, now)
            self._refuse(wanted, self.memory.no_memory(wanted.size, reason), now)
        for peer in self._peers.values():
            peer.segments.discard(number)
            if peer.region is not None and peer.region.segment == number:
                self._give_back_region(peer, now)
                self._answer(peer.number, StoreRegion(0, 0, 0, 0))
        if number in self.memory.space.empty_segments():
            self.memory.space.remove_segment(number)
        self._after(now)

    def _first_in(self, segment: int) -> Object | None:
        objects = self._numbers.values()
        return next((each for each in objects if each.extent is not None and each.extent.segment == segment), None)

    def _on_settings(self, peer: StorePeer, body: StoreSettings, now: float) -> None:
        if body.memory_bytes:
            self.memory.capacity_bytes = max(min(body.memory_bytes, self._capacity_limit_bytes), pages(1))
            self.memory.serve(now)

    # ---- words ---------------------------------------------------------------------------------------------------

    def _on_status_request(self, peer: StorePeer, body: StoreStatusRequest, now: float) -> None:
        self._answer(peer.number, self.status())

    def status(self) -> StoreStatus:
        memory = self.memory
        return StoreStatus(
            store=self._store,
            pid=self._pid,
            endpoint=self.endpoint,
            objects=len(self._objects),
            used_bytes=memory.space.used_bytes,
            reserved_bytes=memory.space.reserved_bytes,
            capacity_bytes=memory.capacity_bytes,
            pinned_bytes=self._pinned_bytes,
            spilled_bytes=memory.spilled_bytes,
            sent_bytes=self.servings.sent_bytes,
            received_bytes=self.fetches.received_bytes,
            received_from=self._received_from(),
            disk_free_bytes=self._disk_free_bytes,
            disk_capacity_bytes=self._disk_capacity_bytes,
            largest_bytes=self._sizes.largest_bytes,
            owners=self._some_owners(),
        )

    def _some_owners(self) -> bytes:
        """Return the next owners in turn, or all if they are few, one after another."""
        owners = list(self._owners)
        if len(owners) > OWNERS_LIMIT:
            start = self._next_owner % len(owners)
            self._next_owner = start + OWNERS_LIMIT
            owners = (owners[start:] + owners[:start])[:OWNERS_LIMIT]
        return b"".join(owners)

    def _received_from(self) -> tuple[ReceivedBytes, ...]:
        most = nlargest(SOURCES_LIMIT, self.fetches.received_from.items(), key=itemgetter(1))
        return tuple(ReceivedBytes(endpoint, size) for endpoint, size in most)

    def on_disk_measured(self, free_bytes: int, capacity_bytes: int) -> None:
        """Return the space of the file system of the spill directory."""
        self._disk_free_bytes, self._disk_capacity_bytes = free_bytes, capacity_bytes

    def _say_missing(self, peer: int, key: ObjectKey) -> None:
        self._answer(peer, ObjectMissing(key, self._lost.get(key, MISSING_TEXT)))

    def _note_lost(self, key: ObjectKey, text: str) -> None:
        while len(self._lost) >= _LOST_LIMIT:
            del self._lost[next(iter(self._lost))]
        self._lost[key] = text

    def _answer(self, number: int, body: Any, segment: int | None = None) -> None:
        peer = self._peers.get(number)
        if peer is None or body is None:
            return
        if number <= _ITSELF:
            self._inner.append((number, body))
            return
        if segment in peer.segments:
            segment = None
        elif segment is not None:
            peer.segments.add(segment)
        self.memory.effects.append(StoreAnswer(number, body, segment))

    def _tell_closed(self, number: int) -> None:
        for peer in self._peers.values():
            if number in peer.segments:
                peer.segments.discard(number)
                self._answer(peer.number, StoreSegmentClosed(number))

    # ---- invariants ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every invariant, for tests."""
        writing = [each for peer in self._peers.values() for each in peer.writing.values()]
        objects = [*self._objects.values(), *writing, *self._dropped.values()]
        self.fetches.check()
        assert sorted(self._itself.writing) == sorted(key for key in self._itself.writing if key in self.fetches)
        assert {each.number: each for each in objects} == self._numbers, "an object was forgotten"
        self.memory.check(objects, [peer.region for peer in self._holders.values() if peer.region is not None])
        pins = [each for peer in self._holders.values() for each in peer.pins.values()]
        for each in objects:
            assert each.pins == pins.count(each)
            assert each.sealed or each.writer in self._peers or (each.dropped and each.pins)
        for key, known in self._objects.items():
            assert key == known.key and not known.dropped and known.sealed and key in self._owners[key.owner]
        assert sum(map(len, self._owners.values())) == len(self._objects)
        self._sizes.check([each.size for each in self._objects.values()])
        assert sorted(each.number for writers in self._writers.values() for each in writers) == sorted(
            each.number for each in writing
        )
        assert not [key for key in self._waiting if key not in self._writers], "a peer waits for no writer"
        pinned = {each.number: each for each in pins}
        assert self._pinned_bytes == sum(each.extent.size for each in pinned.values() if each.extent is not None)
