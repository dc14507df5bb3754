"""The store's core under chance: peers that write, read, drop and vanish, a disk that is slow and may be full."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scaler_protocol.ids import split_ids
from scaler_protocol.limits import OWNERS_LIMIT
from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRequest,
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
    StoreSettings,
    StoreStatusRequest,
)
from scaler_protocol.objects.core.effects import (
    SendPiece,
    StoreAnswer,
)
from scaler_protocol.objects.core.space import PAGE_BYTES
from scaler_protocol.objects.core.store import EXPECT_SECONDS, MISSING_TEXT, MalformedRequest, StoreCore
from tests.unit.objects.world import MEBIBYTE, OWNERS, World, finish


@pytest.mark.parametrize("seed", range(60))
def test_no_order_of_events_breaks_the_store(seed: int) -> None:
    world = World(seed, [4 * MEBIBYTE, 12 * MEBIBYTE, 400 * MEBIBYTE][seed % 3])
    world.failing_share = [0.0, 0.3][seed % 2]
    for _ in range(1500):
        world.step()
    finish(world)


def test_the_scenarios_reach_every_answer() -> None:
    seen: set[str] = set()
    for seed in range(6):
        world = World(seed, 4 * MEBIBYTE if seed % 2 else 12 * MEBIBYTE)
        for _ in range(1500):
            world.step()
        seen |= world.seen
    expected = (StoreGranted, StoreExtent, StoreFound, StoreRefused, StoreRegion, ObjectMissing)
    assert {each.__name__ for each in expected} | {"Publish", "Unpublish", "SendPiece of what is coming"} <= seen


@pytest.mark.parametrize(
    "body",
    [
        StoreSeal(ObjectKey(OWNERS[0], 1)),
        StoreRelease((7,)),
        StorePlace(ObjectKey(OWNERS[0], 1), 0, 1),
        StorePlaceMany(OWNERS[0], (1, 2), 0, (1, 1)),
        StorePlaceMany(OWNERS[0], (1, 2), 0, (1,)),
        StoreFound(ObjectKey(OWNERS[0], 1), 5),
        ObjectRequest(ObjectKey(OWNERS[0], 1)),
    ],
)
def test_who_breaks_the_rules_is_sent_away(body: Any) -> None:
    core = StoreCore(b"the store's name", 1, MEBIBYTE)
    core.on_connected(1)
    with pytest.raises(MalformedRequest):
        core.on_message(1, body, 0.0)
    core.check()


NUMBERS = (0, 1, PAGE_BYTES, MEBIBYTE, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def any_body(chance: random.Random) -> Any:
    """What a peer may say that knows the protocol and means no good, or is broken."""
    key = ObjectKey(chance.choice(OWNERS), chance.choice((1, 2, 2**64 - 1)))
    number = chance.choice((chance.choice(NUMBERS), chance.randrange(20), chance.randrange(2 * MEBIBYTE)))
    bodies = (
        *(kind(key) for kind in (StoreSeal, StoreAbandon, StoreGet, StoreFind)),
        *(kind(key, number) for kind in (StoreCreate, ObjectCredit)),
        *(StoreReserve(number), StorePlace(key, number, 1), StorePlace(key, 0, number), StoreRelease((number,))),
        StorePlaceMany(key.owner, (key.number, 3), 0, (number, 1)),
        *(StoreDrop((key, key)), StoreForget(key.owner), StoreFetch(key, number, ("tcp://a", "no address"))),
        *(StoreSettings(number, "/", ""), StoreStatusRequest()),
        *(ObjectRequest(key, False, number), ObjectChunk(key, number, 0, b"")),
    )
    return chance.choice(bodies)


@pytest.mark.parametrize("seed", range(60))
def test_no_message_breaks_the_store(seed: int) -> None:
    """Who sends it may be sent away; nothing else is raised, and every count stays right."""
    world = World(seed, 4 * MEBIBYTE)
    core = world.core
    for number in (1, 2, -1):
        core.on_connected(number)
    for _ in range(400):
        peer = world.chance.choice((1, 2, -1))
        try:
            core.on_message(peer, any_body(world.chance), world.now)
        except MalformedRequest:
            core.on_peer_lost(peer, world.now)
            core.on_pins_lost(peer, world.now)
            core.on_connected(peer)
        core.settle(world.now)
        world.now += 0.01
        if (deadline := core.next_deadline()) is not None and deadline <= world.now:
            core.on_deadline(world.now)
        core.take_effects()
        core.check()


def test_an_object_larger_than_the_memory_is_refused_with_the_flag_that_helps() -> None:
    core = StoreCore(b"the store's name", 1, MEBIBYTE)
    core.on_connected(1)
    core.on_message(1, StoreCreate(ObjectKey(OWNERS[0], 1), 2 * MEBIBYTE), 0.0)
    [answer] = core.take_effects()
    assert isinstance(answer, StoreAnswer) and isinstance(answer.body, StoreRefused)
    assert answer.body.failure == StoreFailure.TOO_LARGE and "--object-store-memory" in answer.body.text


def asked_by_another_store(number: int) -> StoreCore:
    """A store without objects, a local peer 1, and another store that has asked for an object."""
    core = StoreCore(b"the store's name", 1, 64 * MEBIBYTE)
    core.on_connected(1)
    core.on_connected(-1)
    core.on_message(-1, ObjectRequest(ObjectKey(OWNERS[0], number), False, 0, False), 0.0)
    core.settle(0.0)
    return core


def test_another_store_may_ask_before_this_one_hears_that_it_should_fetch() -> None:
    key, size = ObjectKey(OWNERS[0], UPLOAD_NUMBER), CHUNK_SIZE_BYTES + 1
    core = asked_by_another_store(UPLOAD_NUMBER)
    core.on_message(1, StoreFetch(key, size, ("tcp://a",)), 0.1)
    core.on_source_welcomed("tcp://a", b"its name", 0.1)
    assert not [each for each in core.take_effects() if isinstance(each, SendPiece)]
    extent = core.on_source_chunk("tcp://a", ObjectChunk(key, size, 0, bytes(CHUNK_SIZE_BYTES)), 0.2)
    core.on_piece_written(key, 0.2)
    assert extent is not None
    piece = SendPiece(-1, key, extent, size, 0, CHUNK_SIZE_BYTES)
    assert [each for each in core.take_effects() if isinstance(each, SendPiece)] == [piece]
    core.on_source_missing("tcp://a", ObjectMissing(key, ""), 0.3)
    assert StoreAnswer(-1, ObjectMissing(key, MISSING_TEXT)) in core.take_effects()
    assert core.status().pinned_bytes == core.status().used_bytes == 0
    core.check()


def test_a_fetch_that_fails_at_once_has_no_readers() -> None:
    """Its only source was just found not to answer."""
    key, size = ObjectKey(OWNERS[0], UPLOAD_NUMBER), CHUNK_SIZE_BYTES + 1
    core = asked_by_another_store(UPLOAD_NUMBER + 1)
    core.on_message(1, StoreFetch(ObjectKey(OWNERS[0], UPLOAD_NUMBER + 2), size, ("tcp://a",)), 0.1)
    core.on_source_lost("tcp://a", 0.1)
    core.on_message(-1, ObjectRequest(key, False, 0, False), 0.2)
    core.settle(0.2)
    core.on_message(1, StoreFetch(key, size, ("tcp://a",)), 0.3)
    effects = core.take_effects()
    assert StoreAnswer(-1, ObjectMissing(key, MISSING_TEXT)) in effects
    assert not [each for each in effects if isinstance(each, SendPiece)]
    assert core.status().pinned_bytes == core.status().used_bytes == 0
    core.check()


def test_what_does_not_come_is_missing_after_a_while() -> None:
    core = asked_by_another_store(UPLOAD_NUMBER)
    assert core.take_effects() == []
    deadline = core.next_deadline()
    assert deadline == EXPECT_SECONDS
    core.on_deadline(deadline)
    assert core.take_effects() == [StoreAnswer(-1, ObjectMissing(ObjectKey(OWNERS[0], UPLOAD_NUMBER), MISSING_TEXT))]
    assert core.next_deadline() is None


def test_a_value_that_is_not_here_is_missing_at_once() -> None:
    missing = ObjectMissing(ObjectKey(OWNERS[0], 7), MISSING_TEXT)
    assert asked_by_another_store(7).take_effects() == [StoreAnswer(-1, missing)]


@pytest.mark.parametrize("is_region", [False, True])
def test_memory_that_a_lost_peer_may_still_write_to_is_used_for_nothing_else(is_region: bool) -> None:
    """Only its connection may have ended: a copy that it has begun goes on."""
    core = StoreCore(b"the store's name", 1, 4 * MEBIBYTE)
    core.on_connected(1)
    first = _granted(core, 1, 2 * MEBIBYTE, is_region)
    core.on_peer_lost(1, 0.0)
    core.check()
    core.on_connected(2)
    second = _granted(core, 2, 2 * MEBIBYTE)
    assert (second.segment, second.offset) != (first.segment, first.offset)
    core.on_message(2, StoreCreate(ObjectKey(OWNERS[1], 2), 2 * MEBIBYTE), 0.0)
    assert not [effect for effect in core.take_effects() if isinstance(effect, StoreAnswer)]
    core.on_pins_lost(1, 0.0)
    core.check()
    [answer] = [effect for effect in core.take_effects() if isinstance(effect, StoreAnswer)]
    assert isinstance(answer.body, StoreGranted)


def _granted(core: StoreCore, peer: int, size: int, is_region: bool = False) -> StoreGranted | StoreRegion:
    core.on_message(peer, StoreReserve(size) if is_region else StoreCreate(ObjectKey(OWNERS[0], peer), size), 0.0)
    [body] = [effect.body for effect in core.take_effects() if isinstance(effect, StoreAnswer)]
    assert isinstance(body, (StoreGranted, StoreRegion))
    return body


def put_empty(core: StoreCore, owner: bytes) -> None:
    key = ObjectKey(owner, 1)
    core.on_message(1, StoreCreate(key, 1), 0.0)
    core.on_message(1, StoreSeal(key), 0.0)


def test_the_status_names_the_owners_of_objects() -> None:
    core = StoreCore(b"the store's name", 1, 64 * MEBIBYTE)
    core.on_connected(1)
    assert core.status().owners == b""
    for owner in OWNERS[:2]:
        put_empty(core, owner)
    assert core.status().owners == core.status().owners == OWNERS[0] + OWNERS[1]
    core.on_message(1, StoreForget(OWNERS[0]), 0.0)
    assert core.status().owners == OWNERS[1]


def test_very_many_owners_are_named_in_turn() -> None:
    core = StoreCore(b"the store's name", 1, 64 * MEBIBYTE)
    core.on_connected(1)
    owners = {index.to_bytes(16, "big") for index in range(2 * OWNERS_LIMIT + 10)}
    for owner in owners:
        put_empty(core, owner)
    named = [split_ids(core.status().owners) for _ in range(3)]
    assert [len(each) for each in named] == [OWNERS_LIMIT] * 3
    assert {owner for each in named for owner in each} == owners
