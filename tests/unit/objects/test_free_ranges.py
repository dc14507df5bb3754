from __future__ import annotations

import random

import pytest

from scaler_protocol.objects.free_ranges import FreeRanges


@pytest.mark.parametrize("seed", range(20))
def test_room_is_given_out_once_and_joined_again(seed: int) -> None:
    chance = random.Random(seed)
    ranges, taken = FreeRanges(), {}
    for _ in range(2000):
        if taken and chance.random() < 0.5:
            start = chance.choice(sorted(taken))
            ranges.give_back(start, taken.pop(start))
        else:
            size = chance.randrange(1, 20)
            start = ranges.take(size)
            assert not [other for other in taken if other < start + size and start < other + taken[other]]
            taken[start] = size
        assert ranges.end >= max((start + size for start, size in taken.items()), default=0)
    for start, size in taken.items():
        ranges.give_back(start, size)
    assert ranges.end == 0 and ranges.take(5) == 0
