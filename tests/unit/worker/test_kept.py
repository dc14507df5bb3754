"""What a processor keeps of what its tasks have made."""

from __future__ import annotations

import numpy
import pytest

from scaler_protocol.messages import ObjectKey
from scaler_worker.processor.kept import LIMIT_BYTES, VALUE_LIMIT_BYTES, KeptValues


def key(number: int) -> ObjectKey:
    return ObjectKey(b"s" * 16, number)


def test_the_oldest_go_first() -> None:
    kept = KeptValues()
    values = [numpy.zeros(VALUE_LIMIT_BYTES, "u1") for _ in range(2 * LIMIT_BYTES // VALUE_LIMIT_BYTES)]
    for number, value in enumerate(values):
        kept.add(key(number), value)
        kept.add(key(number), value)  # it ran twice
    half = len(values) // 2
    assert [kept.get(key(number)) is not None for number in range(len(values))] == [False] * half + [True] * half
    assert kept.get(key(half)) is values[half]
    kept.clear()
    assert not kept and kept.get(key(half)) is None


@pytest.mark.parametrize(
    "value",
    [
        numpy.zeros(VALUE_LIMIT_BYTES + 1, "u1"),
        numpy.zeros(2 * VALUE_LIMIT_BYTES, "u1")[:10],
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
    kept.add(key(1), value)
    assert not kept


def test_views_of_all_of_an_array_are_kept() -> None:
    kept = KeptValues()
    for number, value in enumerate((numpy.ones((300, 200)).T, numpy.broadcast_to(1.0, (10**6, 10**6)))):
        kept.add(key(number), value)
        assert kept.get(key(number)) is value
