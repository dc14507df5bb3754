"""Objects that come in chunks: what is not what it should be is not used."""

from __future__ import annotations

import pytest

from scaler_protocol.ids import digest
from scaler_protocol.messages import ObjectChunk, ObjectKey, ObjectRequest, Status
from scaler_worker.core.objects import ObjectExchange, WrongBytes
from tests.unit.worker.playbook import CLIENT, DictStore, Stage, run_of

PICKLE = b"the pickle of a function" * 100
FUNCTION = ObjectKey(digest(PICKLE), 0)


def chunks(key: ObjectKey, data: bytes) -> list[ObjectChunk]:
    middle = len(data) // 2
    return [ObjectChunk(key, len(data), 0, data[:middle]), ObjectChunk(key, len(data), middle, data[middle:])]


def test_a_function_is_compared_with_its_digest() -> None:
    exchange = ObjectExchange(DictStore())
    run = run_of(1)
    exchange.require(run, [FUNCTION])
    first, last = chunks(FUNCTION, PICKLE)
    exchange.on_chunk(first)
    assert exchange.on_chunk(last) == ([run], None)


def test_bytes_under_the_digest_of_another_function_are_not_used() -> None:
    exchange = ObjectExchange(DictStore())
    exchange.require(run_of(1), [FUNCTION])
    first, last = chunks(FUNCTION, PICKLE.upper())
    exchange.on_chunk(first)
    with pytest.raises(WrongBytes, match="not those that its digest names"):
        exchange.on_chunk(last)


def test_a_function_that_comes_again_after_a_restart_of_the_scheduler() -> None:
    exchange = ObjectExchange(DictStore())
    run = run_of(1)
    exchange.require(run, [FUNCTION])
    first, last = chunks(FUNCTION, PICKLE)
    exchange.on_chunk(first)
    exchange.restart()
    exchange.on_chunk(first)
    assert exchange.on_chunk(last) == ([run], None)


def test_an_object_whose_size_changes_on_the_way_is_missing() -> None:
    """Its tasks fail, and the sender is told to stop."""
    stage = Stage(1)
    key = ObjectKey(CLIENT, 2**64 - 1)
    stage.give(run_of(1, slots=[key]))
    assert stage.bodies(ObjectRequest) == [ObjectRequest(key)]
    stage.say(ObjectChunk(key, 10, 0, b"12345"))
    stage.say(ObjectChunk(key, 1000, 5, bytes(900)))
    assert stage.results() == {0: (Status.OBJECT_MISSING, b"The chunks of an object disagree about its size.")}
    assert key not in stage.store.objects


def test_an_object_that_is_found_in_the_store_while_it_comes_is_used_from_there() -> None:
    store = DictStore()
    exchange = ObjectExchange(store)
    run, key = run_of(1), ObjectKey(CLIENT, 2**64 - 1)
    exchange.require(run, [key])
    first, last = chunks(key, b"0123456789")
    exchange.on_chunk(first)
    assert exchange.on_found(key) == [run]
    assert exchange.on_chunk(last) == ([], None)
    assert key in exchange.stored and key not in store.objects
