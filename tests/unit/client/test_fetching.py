"""Large results of a map are fetched a few at a time; small ones among them go together."""

from __future__ import annotations

from collections import deque

import pytest

from scaler.client.fetching import TURN_BYTES, take_next
from scaler.core.large_results import LargeResult
from scaler.core.runs import Range
from scaler_protocol.messages import ObjectKey


def sizes_taken(*sizes: int, count: int) -> list[int]:
    entry = Range.__new__(Range)
    results = [
        LargeResult(ObjectKey(b"session", index), entry, index, size, b"", deque()) for index, size in enumerate(sizes)
    ]
    waiting = deque(enumerate(results))
    taken = take_next(waiting, count)
    assert [place for place, _ in [*taken, *waiting]] == list(range(len(sizes))), "the order changed"
    return [large.size for _, large in taken]


@pytest.mark.parametrize(
    ("sizes", "count", "taken"),
    [
        ([10_000_000] * 6, 4, 4),
        ([10_000_000] * 6, 1, 1),
        ([33_000] * 100, 4, TURN_BYTES // 33_000),
        ([33_000] * 3, 4, 3),
        ([33_000, 33_000, 10_000_000, 33_000], 1, 2),
        ([10_000_000, 33_000], 1, 1),
    ],
)
def test_as_many_are_fetched_at_once(sizes: list[int], count: int, taken: int) -> None:
    assert sizes_taken(*sizes, count=count) == sizes[:taken]
