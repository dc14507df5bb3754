"""Objects that the tasks of a worker process share."""

from __future__ import annotations

import numpy
import pytest

from scaler.client.serializer import serialize_for_sharing
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.layout import ObjectLayout, load_read_only
from scaler_worker.worker_process.loaded_objects import Loaded, LoadedObjects, is_immutable


def key(number: int) -> ObjectKey:
    return ObjectKey(b"s" * 16, number)


def added(loaded: LoadedObjects, number: int, size: int, blocks: int = 0) -> object:
    value = [number]
    loaded.add(key(number), b"", value, size, blocks)
    loaded.settle()
    return value


def test_the_least_recently_used_go_first() -> None:
    loaded = LoadedObjects(300)
    values = [added(loaded, number, 100) for number in range(3)]
    assert loaded.find(key(0), b"") == Loaded(values[0], b"", 100)
    added(loaded, 3, 100)
    assert [loaded.find(key(number), b"") is not None for number in range(4)] == [True, False, True, True]
    assert loaded.size_bytes == 300


def test_objects_above_the_limit_are_not_kept() -> None:
    loaded = LoadedObjects(1000)
    added(loaded, 1, 1001)
    added(loaded, 2, 500, blocks=500)
    assert loaded.size_bytes == 0 and not loaded.has_news
    nothing = LoadedObjects(0)
    added(nothing, 1, 1)
    assert nothing.find(key(1), b"") is None


def test_a_task_finds_what_it_has_loaded_itself() -> None:
    loaded = LoadedObjects(1000)
    loaded.add(key(1), b"", "text", 10, 0)
    assert loaded.find(key(1), b"") == Loaded("text", b"", 10) and loaded.has_news and loaded.size_bytes == 0
    loaded.settle()
    added(loaded, 1, 20)
    assert loaded.size_bytes == 20


def test_released_objects_are_dropped() -> None:
    loaded = LoadedObjects(1000)
    for number in range(4):
        added(loaded, number, 10)
    loaded.drop(key(1))
    loaded.drop(key(9))
    assert loaded.find(key(1), b"") is None and loaded.size_bytes == 30
    loaded.keep_only([b"slot", key(2), key(7)])
    assert loaded.find(key(2), b"") is not None and loaded.size_bytes == 10
    loaded.clear()
    assert loaded.find(key(2), b"") is None and loaded.size_bytes == 0


def test_another_serializer_loads_its_own() -> None:
    loaded = LoadedObjects(1000)
    added(loaded, 1, 10)
    assert loaded.find(key(1), b"other") is None


def test_second_uses_are_noticed() -> None:
    loaded = LoadedObjects(1000)
    assert [loaded.was_seen(key(1)), loaded.was_seen(key(1))] == [False, True]
    for number in range(2000, 4000):
        loaded.was_seen(key(number))
    assert not loaded.was_seen(key(1))


@pytest.mark.parametrize("value", [b"", "text", 1, 1.5, 1j, True, None, (), (1, ("a", (b"",)), None)])
def test_immutable_values(value: object) -> None:
    assert is_immutable(value)


class Text(str):
    pass


@pytest.mark.parametrize(
    "value", [[], {}, bytearray(), Text(), (1, []), ((1, {}),), frozenset(), numpy.ones(1)], ids=range(8)
)
def test_values_that_may_change(value: object) -> None:
    assert not is_immutable(value)


def test_deep_tuples() -> None:
    value: object = 1
    for _ in range(100_000):
        value = (value,)
    assert is_immutable(value)
    while type(value) is tuple:
        value = value[0]


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_shared_arrays_are_read_only(size: int) -> None:
    payload = serialize_for_sharing({"array": numpy.arange(size), "list": [1]})
    assert isinstance(payload, ObjectLayout)
    value = load_read_only(memoryview(bytearray(payload.to_bytes())))
    assert (value["array"] == numpy.arange(size)).all()
    with pytest.raises(ValueError, match="read-only"):
        value["array"][0] = 1
    value["list"].append(2)


def test_shared_objects_without_arrays() -> None:
    payload = serialize_for_sharing({"a": 1})
    assert isinstance(payload, bytes) and load_read_only(memoryview(payload)) == {"a": 1}
