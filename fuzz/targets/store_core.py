"""The object store's core, attacked by its peers and by other stores: any message with any key, size, pin and place.

A peer that breaks the rules is sent away. Honest peers read what was written, no byte changes under a reader, memory
and counts agree after each step, and nothing is kept once all have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fuzz.arena import some_fights
from fuzz.chance import Chance
from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_protocol.messages import (
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectRequest,
    StoreForget,
    StoreGranted,
    StorePlace,
    StorePlaceMany,
    StoreRegion,
    StoreSeal,
    StoreSettings,
)
from scaler_protocol.objects.core.space import Extent, pages
from scaler_protocol.objects.core.store import MalformedRequest
from tests.simulation.lies import ALL, Lies, Lore
from tests.unit.objects.world import ENDPOINTS, MEBIBYTE, OWNERS, World, finish

LIAR = b"owner of a lie.."
KINDS = (*(each for each in ALL if each.__name__.startswith("Store")), ObjectRequest, ObjectCredit, ObjectChunk)
WRITES = {"StoreCreate", "StoreSeal", "StoreAbandon", "StorePlace", "StoreFetch"}
CAPACITIES = (4 * MEBIBYTE, 12 * MEBIBYTE)
MOST_STEPS = 300


class Stores(World):
    """``liars``: peers that say anything. What they write is under a key of their own, so that an honest reader finds
    what an honest writer wrote."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(0, CAPACITIES[choices.below(2)])
        self.choices = choices
        self.chance = Chance(choices)
        lore = Lore()
        lore.sessions.extend(OWNERS)
        self.lies = Lies(self.chance, lore, LIAR)
        self.liars: set[int] = set()

    def connect(self, sign: int = 1) -> None:
        super().connect(sign)
        if self.choices.flag(3):
            self.liars.add(max(self.peers, key=abs))

    def lose(self, number: int) -> None:
        self.liars.discard(number)
        super().lose(number)

    def act(self, number: int) -> None:
        self.lie(number) if number in self.liars else super().act(number)

    def act_as_store(self, number: int) -> None:
        self.lie(number) if number in self.liars else super().act_as_store(number)

    def read_inbox(self, number: int) -> None:
        self.lie(number) if number in self.liars else super().read_inbox(number)

    def say(self, number: int, body: Any) -> None:
        TALLY.count_messages()
        super().say(number, body)

    def lie(self, number: int) -> None:
        granted = self.write(number)
        body = self.answer_to(granted) if granted and self.choices.flag() else self.lie_of()
        try:
            self.say(number, body)
        except MalformedRequest:
            self.lose(number)

    def lie_of(self) -> Any:
        body: Any = self.lies.body(KINDS)
        if type(body).__name__ in WRITES:
            return replace(body, key=self.key_of_liar())
        if isinstance(body, StorePlaceMany):
            return replace(body, owner=LIAR)
        if self.choices.flag() and hasattr(body, "key"):
            return replace(body, key=ObjectKey(self.chance.choice(OWNERS), self.chance.randrange(12)))
        if isinstance(body, StoreSettings):  # an agent's user decides how much there is
            return replace(body, memory_bytes=body.memory_bytes % (16 * MEBIBYTE))
        return body

    def key_of_liar(self) -> ObjectKey:
        return ObjectKey(LIAR, self.chance.randrange(4))

    def answer_to(self, granted: StoreGranted | StoreRegion) -> Any:
        """Answer like an honest peer."""
        if isinstance(granted, StoreGranted):
            return StoreSeal(granted.key)
        size = min(granted.size, 5000)
        if self.choices.flag():
            numbers = self.key_of_liar().number, self.key_of_liar().number
            return StorePlaceMany(LIAR, numbers, granted.offset, (size, size))
        return StorePlace(self.key_of_liar(), granted.offset, size)

    def check_published(self, key: ObjectKey, tags: list[Any]) -> None:
        """A liar may seal an object of its own in which it wrote another of its own."""
        if key.owner != LIAR:
            super().check_published(key, tags)

    def write(self, number: int) -> StoreGranted | StoreRegion | None:
        """Into all memory that was granted, since all of it may become an object. The last of it."""
        last = None
        for body in self.peers[number]["inbox"]:
            if isinstance(body, StoreGranted | StoreRegion) and self.has_memory(body):
                self.fill(Extent(body.segment, body.offset, pages(body.size)), (0, self.key_of_liar()))
                last = body
        self.peers[number]["inbox"].clear()
        return last

    def has_memory(self, granted: StoreGranted | StoreRegion) -> bool:
        """An object without bytes has a page; one that is sealed has been written."""
        has_pages = not granted.sealed if isinstance(granted, StoreGranted) else granted.size > 0
        return has_pages and granted.segment in self.memory

    def step(self) -> None:
        if self.choices.flag(16):
            self.lie_as_source()
            self.carry_out()
        else:
            super().step()

    def lie_as_source(self) -> None:
        """Another store, of which something is perhaps fetched."""
        chunk = self.lies.body((ObjectChunk,))
        if not isinstance(chunk, ObjectChunk):
            return
        chunk = replace(chunk, key=ObjectKey(self.chance.choice(OWNERS), self.chance.randrange(12)))
        extent = self.core.on_source_chunk(self.chance.choice(ENDPOINTS), chunk, self.now)
        if extent is not None:
            self.fill(Extent(extent.segment, extent.offset, extent.size), ("fetched", chunk.key))
            self.core.on_piece_written(chunk.key, self.now)

    def forget_lies(self) -> None:
        self.liars.clear()
        self.connect()
        self.liars.clear()
        self.say(max(self.peers), StoreForget(LIAR))
        self.carry_out()


def one_input(data: bytes) -> None:
    choices = Choices(data)
    stores = Stores(choices)
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        stores.step()
    stores.forget_lies()
    finish(stores)


def seeds() -> Iterator[bytes]:
    yield from some_fights()
