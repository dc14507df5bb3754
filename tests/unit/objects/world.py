"""What a store's core decides about, in place of shells: memory and disk as tags of pages, and peers."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from scaler_protocol.messages import (
    OWNER_SOURCE,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRequest,
    ObjectStored,
    StoreAbandon,
    StoreCreate,
    StoreDrop,
    StoreExtent,
    StoreFetch,
    StoreFind,
    StoreForget,
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
)
from scaler_protocol.objects.bulk_frames import peer_of
from scaler_protocol.objects.core.effects import (
    AskSource,
    CloseSegment,
    CloseSource,
    Load,
    MakeSegment,
    OpenSource,
    Publish,
    Punch,
    RemoveFile,
    SendPiece,
    Spill,
    StoreAnswer,
)
from scaler_protocol.objects.core.space import PAGE_BYTES, Extent, pages
from scaler_protocol.objects.core.store import StoreCore

OWNERS = [b"owner number one", b"owner number two"]
ENDPOINTS = ["tcp://a", "tcp://b"]
MEBIBYTE = 1 << 20


class World:
    """What the core decides about: memory and disk as tags of pages, peers that obey the protocol."""

    def __init__(self, seed: int, capacity: int) -> None:
        self.chance = random.Random(seed)
        self.core = StoreCore(b"the store's name", 1, capacity)
        self.now = 0.0
        self.bulk: list[tuple[SendPiece, list[Any]]] = []  # on the way, with the contents of its memory
        self.memory: dict[int, list[Any]] = {}  # segment: a tag per page; None: not reserved
        self.disk: dict[int, list[Any]] = {}
        self.disk_is_full = False
        self.moves: deque[Spill | Load] = deque()
        self.peers: dict[int, dict[str, Any]] = {}
        self.inherited: list[tuple[int, dict[int, Any]]] = []  # pins of peers that are gone
        self.next_peer = 1
        self.next_tag = 0
        self.sources: set[str] = set()
        self.pending: list[Callable[[], Any]] = []  # what sources will say
        self.sizes: dict[ObjectKey, int] = {}
        self.seen: set[str] = set()
        self.failing_share = 0.0
        self.failed_segments: set[int] = set()
        self.directory: dict[ObjectKey, tuple[Extent, list[Any]]] = {}  # with what its memory held when it was entered

    # ---- the shell -----------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        self.update_directory()
        while effects := self.core.take_effects():
            self.update_directory()
            for effect in effects:
                getattr(self, "do_" + type(effect).__name__)(effect)
        self.core.check()

    def update_directory(self) -> None:
        for change in self.core.take_directory_changes():
            if isinstance(change, Publish):
                assert change.key not in self.directory
                tags = self.pages_of(change.extent)
                self.check_published(change.key, tags)
                self.directory[change.key] = (change.extent, tags)
                self.seen.add("Publish")
            else:
                del self.directory[change.key]
                self.seen.add("Unpublish")

    def check_published(self, key: ObjectKey, tags: list[Any]) -> None:
        assert all(tag[1] == key for tag in tags), f"{key} is published as {tags}"

    def do_MakeSegment(self, effect: MakeSegment) -> None:
        if self.chance.random() < self.failing_share:
            self.failed_segments.add(effect.number)
            self.core.on_segment_failed(effect.number, "Too many open files", self.now)
        else:
            self.memory[effect.number] = [None] * (effect.size // PAGE_BYTES)

    def do_CloseSegment(self, effect: CloseSegment) -> None:
        assert not any(tag is not None for tag in self.memory.pop(effect.number))

    def do_Punch(self, effect: Punch) -> None:
        if effect.extent.segment not in self.failed_segments:
            self.fill(effect.extent, None)

    def do_Spill(self, effect: Spill) -> None:
        self.moves.append(effect)

    def do_Load(self, effect: Load) -> None:
        if effect.extent.segment not in self.failed_segments:
            self.moves.append(effect)

    def do_RemoveFile(self, effect: RemoveFile) -> None:
        del self.disk[effect.number]

    def do_OpenSource(self, effect: OpenSource) -> None:
        self.sources.add(effect.endpoint)

    def do_CloseSource(self, effect: CloseSource) -> None:
        if not peer_of(effect.endpoint):
            self.sources.remove(effect.endpoint)

    def do_AskSource(self, effect: AskSource) -> None:
        assert effect.endpoint in self.sources or peer_of(effect.endpoint) in self.peers
        if isinstance(effect.body, ObjectRequest) and self.chance.random() < 0.9:
            self.serve(effect.endpoint, effect.body)

    def do_SendPiece(self, effect: SendPiece) -> None:
        assert effect.offset + effect.length <= effect.size <= effect.extent.size
        tags = self.pages_of(effect.extent)
        if effect.key in self.core.fetches:
            self.seen.add("SendPiece of what is coming")
        if effect.direct:
            self.bulk.append((effect, list(tags)))

    def send_bulk(self) -> None:
        """The oldest piece on some bulk connection is sent, unless that breaks. Its memory has not changed."""
        peer = self.chance.choice(self.bulk)[0].peer
        if self.chance.random() < 0.1:
            self.bulk = [each for each in self.bulk if each[0].peer != peer]
            self.core.on_bulk_lost(peer, self.now)
            return
        effect, tags = found = next(each for each in self.bulk if each[0].peer == peer)
        assert self.pages_of(effect.extent) == tags, "bytes changed before they were sent"
        self.bulk.remove(found)
        self.core.on_piece_sent(peer, effect.key, self.now)

    def do_StoreAnswer(self, effect: StoreAnswer) -> None:
        peer = self.peers.get(effect.peer)
        assert peer is not None, "an answer to nobody"
        if effect.segment in self.failed_segments:
            return
        body = effect.body
        self.seen.add(type(body).__name__)
        if effect.segment is not None:
            assert effect.segment not in peer["segments"]
            peer["segments"].add(effect.segment)
        if isinstance(body, StoreSegmentClosed):
            peer["segments"].remove(body.segment)
        elif isinstance(body, (StoreExtent, StoreGranted, StoreRegion)) and body.size and effect.peer > 0:
            assert isinstance(body, StoreGranted) and body.sealed or body.segment in peer["segments"]
        if effect.peer > 0:
            peer["inbox"].append(body)

    def serve(self, endpoint: str, request: ObjectRequest) -> None:
        """Another store: all of it, a part, or nothing."""
        size = self.sizes.get(request.key, 0)
        kind = self.chance.choice(["all", "missing", "part", "cut"])
        if kind == "missing":
            self.pending.append(lambda: self.core.on_source_missing(endpoint, ObjectMissing(request.key, ""), self.now))
        elif kind == "cut":
            self.pending.append(lambda: self.core.on_source_cut(endpoint, self.now))
        else:
            pieces = 4 if kind == "all" else 2
            step = max(1, -(-size // 4))
            for index in range(pieces):
                start, stop = min(size, index * step), min(size, (index + 1) * step)
                take = self.chance.choice([self.chunk, self.take_bulk])
                self.pending.append(lambda a=start, b=stop, take=take: take(endpoint, request.key, size, a, b))

    def chunk(self, endpoint: str, key: ObjectKey, size: int, start: int, stop: int) -> None:
        extent = self.core.on_source_chunk(endpoint, ObjectChunk(key, size, start, bytes(stop - start)), self.now)
        self.update_directory()
        if extent is not None:
            self.fill(Extent(extent.segment, extent.offset, extent.size), ("fetched", key))
            self.core.on_piece_written(key, self.now)

    def take_bulk(self, endpoint: str, key: ObjectKey, size: int, start: int, stop: int) -> None:
        extent = self.core.bulk_extent(endpoint, key, size, start)
        self.update_directory()
        if extent is not None:
            self.fill(Extent(extent.segment, extent.offset, extent.size), ("fetched", key))
            self.core.on_bulk_received(endpoint, key, stop - start, self.now)
            self.core.on_piece_written(key, self.now)

    def fill(self, extent: Extent, tag: Any) -> None:
        """A reader may be copying what is published: its memory must not change."""
        for key, (published, _) in self.directory.items():
            assert extent.segment != published.segment or not (
                extent.offset < published.offset + published.size and published.offset < extent.offset + extent.size
            ), f"{key} is published while its memory is written"
        first, count = extent.offset // PAGE_BYTES, extent.size // PAGE_BYTES
        self.memory[extent.segment][first : first + count] = [tag] * count

    def pages_of(self, extent: Extent) -> list[Any]:
        first, count = extent.offset // PAGE_BYTES, extent.size // PAGE_BYTES
        tags = self.memory[extent.segment][first : first + count]
        assert None not in tags, "bytes without memory"
        return tags

    def move(self) -> None:
        """The disk has done one thing."""
        effect = self.moves.popleft()
        if isinstance(effect, Spill):
            error = "full" if self.disk_is_full else ""
            if not error:
                self.disk[effect.number] = list(self.pages_of(effect.extent))
            self.core.on_spilled(effect.number, error, self.now)
        else:
            error = "unreadable" if self.chance.random() < 0.05 else ""
            if not error:
                first = effect.extent.offset // PAGE_BYTES
                tags = self.disk[effect.number]
                self.memory[effect.extent.segment][first : first + len(tags)] = tags
            self.core.on_loaded(effect.number, error, self.now)

    # ---- peers ---------------------------------------------------------------------------------------------------

    def connect(self, sign: int = 1) -> None:
        number = sign * self.next_peer
        self.next_peer += 1
        self.peers[number] = {
            "inbox": deque(), "segments": set(), "pins": {}, "writing": {}, "asked": set(), "region": None,
            "reserving": False,
        }  # fmt: skip
        self.core.on_connected(number)

    def lose(self, number: int) -> None:
        """Its forks may map on."""
        pins = self.peers.pop(number)["pins"]
        self.bulk = [each for each in self.bulk if each[0].peer != number]
        self.core.on_peer_lost(number, self.now)
        if number > 0 and self.chance.random() < 0.3:
            self.inherited.append((number, pins))
        else:
            self.core.on_pins_lost(number, self.now)

    def end_fork(self) -> None:
        number, pins = self.inherited.pop()
        for extent, tags in pins.values():
            assert self.pages_of(extent) == tags, "bytes changed under a fork"
        self.core.on_pins_lost(number, self.now)

    def say(self, number: int, body: Any) -> None:
        self.core.on_message(number, body, self.now)

    def read_inbox(self, number: int) -> None:
        peer = self.peers[number]
        if not peer["inbox"]:
            return
        body = peer["inbox"].popleft()
        if isinstance(body, StoreGranted):
            if not body.sealed:
                peer["writing"][body.key] = body
            peer["asked"].discard(body.key)
        elif isinstance(body, StoreExtent):
            extent = Extent(body.segment, body.offset, pages(body.size))
            tags = self.pages_of(extent)
            assert len(set(tags)) == 1 and tags[0][1] == body.key, f"{body.key} holds {set(tags)}"
            peer["pins"][body.pin] = (extent, tags)
        elif isinstance(body, StoreRegion):
            peer["region"] = body if body.size else None
            peer["reserving"] = False
        elif isinstance(body, StoreRefused):
            peer["asked"].discard(body.key)

    def act(self, number: int) -> None:
        peer = self.peers[number]
        key = self.any_key()
        kind = self.chance.randrange(13)
        if kind == 0 and key not in peer["asked"] and key not in peer["writing"]:
            peer["asked"].add(key)
            self.sizes.setdefault(key, self.chance.choice([0, 1, PAGE_BYTES, 100_000, MEBIBYTE, 5 * MEBIBYTE]))
            self.say(number, StoreCreate(key, self.sizes[key]))
        elif kind == 1 and peer["writing"]:
            written, granted = peer["writing"].popitem()
            if self.chance.random() < 0.8:
                self.next_tag += 1
                self.fill(Extent(granted.segment, granted.offset, pages(granted.size)), (self.next_tag, written))
                self.say(number, StoreSeal(written))
            else:
                self.say(number, StoreAbandon(written))
        elif kind == 2 and not peer["reserving"]:
            peer["region"], peer["reserving"] = None, True
            self.say(number, StoreReserve(self.chance.choice([PAGE_BYTES, MEBIBYTE])))
        elif kind == 3 and peer["region"] is not None:
            self.place(number, key)
        elif kind in (4, 5):
            self.say(number, StoreGet(key))
        elif kind == 6:
            self.say(number, StoreFind(key))
        elif kind in (7, 8) and peer["pins"]:
            pin = self.chance.choice(sorted(peer["pins"]))
            extent, tags = peer["pins"].pop(pin)
            assert self.pages_of(extent) == tags, "bytes changed under a reader"
            self.say(number, StoreRelease((pin,)))
        elif kind == 9:
            self.say(number, StoreDrop((key,)))
        elif kind == 10 and self.chance.random() < 0.1:
            self.say(number, StoreForget(key.owner))
        elif kind == 11:
            self.sizes.setdefault(key, self.chance.choice([0, 1, 100_000, MEBIBYTE, 5 * MEBIBYTE]))
            self.say(number, StoreFetch(key, self.sizes[key], tuple(self.chance.sample([*ENDPOINTS, OWNER_SOURCE], 2))))

    def any_key(self) -> ObjectKey:
        """Of a value, or of what a client has sent."""
        number = self.chance.randrange(12)
        return ObjectKey(self.chance.choice(OWNERS), number if number < 6 else UPLOAD_NUMBER + number)

    def place(self, number: int, key: ObjectKey) -> None:
        """With one message, one object or several of one owner."""
        region = self.peers[number]["region"]
        others = [ObjectKey(key.owner, self.any_key().number) for _ in range(self.chance.choice([0, 0, 1, 3]))]
        placed = [(each, size) for each in (key, *others) if (size := self.write_to_region(number, each)) is not None]
        if len(placed) == 1:
            self.say(number, StorePlace(placed[0][0], region.offset, placed[0][1]))
        elif placed:
            numbers, sizes = zip(*((each.number, size) for each, size in placed), strict=True)
            self.say(number, StorePlaceMany(key.owner, numbers, region.offset, sizes))

    def write_to_region(self, number: int, key: ObjectKey) -> int | None:
        """The size of what was written; None: nothing."""
        region = self.peers[number]["region"]
        size = self.chance.choice([0, 1, PAGE_BYTES, 50_000])
        if key in self.sizes and self.sizes[key] != size or pages(size) > region.size:
            return None
        self.sizes[key] = size
        self.next_tag += 1
        self.fill(Extent(region.segment, region.offset, pages(size)), (self.next_tag, key))
        rest = region.size - pages(size)
        self.peers[number]["region"] = StoreRegion(
            region.segment, region.segment_size, region.offset + pages(size), rest, region.fresh
        )
        return size

    def act_as_store(self, number: int) -> None:
        fetched = [key for key in self.sizes if key in self.core.fetches]
        key = self.chance.choice(fetched) if fetched and self.chance.random() < 0.7 else self.any_key()
        roll = self.chance.random()
        if roll < 0.5:
            self.say(number, ObjectRequest(key, False, self.chance.choice([0, 0, 5000]), roll < 0.3))
        elif roll < 0.65:
            self.say(number, ObjectStored(key, 1, b""))
        else:
            self.say(number, ObjectCredit(key, self.chance.choice([0, MEBIBYTE, 2**64 - 1])))

    def step(self) -> None:
        roll = self.chance.random()
        local = [number for number in self.peers if number > 0]
        other = [number for number in self.peers if number < 0]
        if len(self.peers) < 5 and roll < 0.1:
            self.connect(self.chance.choice([1, 1, -1]))
        elif roll < 0.12 and self.peers:
            self.lose(self.chance.choice(sorted(self.peers)))
        elif roll < 0.13 and self.inherited:
            self.end_fork()
        elif roll < 0.3 and self.moves:
            self.move()
        elif roll < 0.36:
            self.disk_is_full = self.chance.random() < 0.2
        elif roll < 0.4 and self.bulk:
            self.send_bulk()
        elif roll < 0.45 and self.pending:
            self.pending.pop(0)()
        elif roll < 0.5:
            endpoint = self.chance.choice(ENDPOINTS)
            if self.chance.random() < 0.7:
                self.core.on_source_welcomed(endpoint, self.chance.choice(OWNERS), self.now)
            else:
                self.core.on_source_lost(endpoint, self.now)
        elif roll < 0.55:
            self.now += self.chance.choice([0.01, 1.0, 20.0])
            deadline = self.core.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.core.on_deadline(self.now)
        elif other and roll < 0.6:
            self.act_as_store(self.chance.choice(other))
        elif local:
            number = self.chance.choice(local)
            self.read_inbox(number) if self.chance.random() < 0.6 else self.act(number)
        if self.core.has_doubts and self.chance.random() < 0.7:
            self.core.settle(self.now)
        self.carry_out()


def finish(world: World) -> None:
    """Everybody leaves: nothing is used, and after a while nothing is kept."""
    for number in list(world.peers):
        world.lose(number)
        world.carry_out()
    while world.inherited:
        world.end_fork()
        world.carry_out()
    for endpoint in ENDPOINTS:
        world.core.on_source_lost(endpoint, world.now)
    world.core.settle(world.now)
    world.carry_out()
    while world.moves:
        world.move()
        world.carry_out()
    world.connect()
    for owner in OWNERS:
        world.say(max(world.peers), StoreForget(owner))
    world.carry_out()
    while world.moves:
        world.move()
        world.carry_out()
    world.now += 100
    while (world.core.next_deadline() or world.now + 1) <= world.now:
        world.core.on_deadline(world.now)
        world.carry_out()
    assert world.core.status().used_bytes == 0 and world.core.status().reserved_bytes == 0
    assert world.core.status().objects == 0 and not world.memory and not world.disk
    assert world.core.next_deadline() is None or not world.sources
