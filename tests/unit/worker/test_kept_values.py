"""What a worker process keeps of what its tasks have made."""

from __future__ import annotations

import numpy
import pytest

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.layout import load
from scaler_worker.worker_process.kept_values import ARRAY_LIMIT_BYTES, COPY_LIMIT_BYTES, LIMIT_BYTES, KeptValues
from scaler_worker.worker_process.serialization import dumps


def key(number: int) -> ObjectKey:
    return ObjectKey(b"s" * 16, number)


def test_the_oldest_go_first() -> None:
    kept = KeptValues()
    values = [numpy.zeros(ARRAY_LIMIT_BYTES, "u1") for _ in range(2 * LIMIT_BYTES // ARRAY_LIMIT_BYTES)]
    for number, value in enumerate(values):
        kept.add_array(key(number), value)
        kept.add_array(key(number), value)  # it ran twice
    half = len(values) // 2
    assert [kept.array(key(number)) is not None for number in range(len(values))] == [False] * half + [True] * half
    assert kept.array(key(half)) is values[half]
    kept.clear()
    assert not kept.sizes and kept.array(key(half)) is None


@pytest.mark.parametrize(
    "value",
    [
        numpy.zeros(ARRAY_LIMIT_BYTES + 1, "u1"),
        numpy.zeros(2 * ARRAY_LIMIT_BYTES, "u1")[:10],
        numpy.frombuffer(bytes(1000), "u1"),
        numpy.array([[], "any"], object),
        numpy.ma.masked_array([1.0]),
        [numpy.ones(3)],
        "text",
    ],
    ids=range(7),
)
def test_what_cannot_be_counted_or_is_large_is_not_kept(value: object) -> None:
    kept = KeptValues()
    kept.add_array(key(1), value)
    assert not kept.sizes


def test_views_of_all_of_an_array_are_kept() -> None:
    kept = KeptValues()
    for number, value in enumerate((numpy.ones((300, 200)).T, numpy.broadcast_to(1.0, (10**6, 10**6)))):
        kept.add_array(key(number), value)
        assert kept.array(key(number)) is value


def test_each_task_has_a_copy_of_its_own() -> None:
    kept, array = KeptValues(), numpy.arange(10_000.0)
    for number, value in enumerate((array, list(range(20_000)))):
        kept.add_copy(key(number), dumps(value))
    array += 1
    for _ in range(2):
        copy = load(kept.copy(key(0)))
        assert (copy == numpy.arange(10_000.0)).all() and load(kept.copy(key(1))) == list(range(20_000))
        copy += 1
    kept.drop(key(0))
    assert kept.copy(key(0)) is None and kept.sizes


def test_large_copies_are_not_kept_and_the_others_are_counted() -> None:
    kept = KeptValues()
    kept.add_copy(key(1), bytes(COPY_LIMIT_BYTES + 1))
    assert not kept.sizes
    count = LIMIT_BYTES // COPY_LIMIT_BYTES
    for number in range(count + 1):
        kept.add_copy(key(number), bytes(COPY_LIMIT_BYTES))
    assert kept.copy(key(0)) is None and kept.copy(key(1)) is not None
    for number in range(count + 1):
        kept.drop(key(number))
    assert not kept.sizes
