"""Distributions of durations: exact at powers of two, within a quarter elsewhere, and small."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.monitor.messages import DURATION_BOUNDS_SECONDS
from scaler_scheduler.core.duration_histogram import DurationHistogram


def histogram(*durations_us: int) -> DurationHistogram:
    made = DurationHistogram()
    for duration in durations_us:
        made.observe(duration)
    return made


def test_nothing_has_no_quantile() -> None:
    empty = histogram()
    assert (empty.count, empty.longest_us, empty.quantile(0.5)) == (0, 0, 0)
    assert empty.counts_between([4, 16]) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_within_a_quarter(seed: int) -> None:
    chance = random.Random(seed)
    durations = sorted(int(2 ** chance.uniform(0, 40)) for _ in range(1000))
    made = histogram(*chance.sample(durations, 1000))
    assert made.count == 1000 and made.longest_us == durations[-1]
    for share in 0.05, 0.5, 0.95, 1.0:
        exact = durations[max(0, round(share * 1000) - 1)]
        assert exact / 1.25 - 1 <= made.quantile(share) <= exact * 1.25 + 1


def test_a_quantile_that_only_the_longest_duration_can_be_is_exact() -> None:
    assert [histogram(100_003).quantile(share) for share in (0.5, 0.95, 1.0)] == [100_003] * 3
    assert histogram(5, 5, 1_000_003).quantile(0.95) == 1_000_003
    assert histogram(5, 5, 1_000_003).quantile(0.5) < 7


def test_counts_are_exact_at_the_bounds_that_monitors_use() -> None:
    bounds = [round(bound * 1e6) for bound in DURATION_BOUNDS_SECONDS]
    for number, bound in enumerate(bounds):
        counts = histogram(bound - 1, bound, bound).counts_between(bounds)
        assert counts[number : number + 2] == (1, 2) and sum(counts) == 3


def test_merging_is_as_if_all_had_been_in_one() -> None:
    made = histogram(3, 5000)
    made.merge(histogram())
    made.merge(histogram(1, 10**9, 5000))
    assert made.counts_between([4, 4096, 8192]) == (2, 0, 2, 1)
    assert made.longest_us == 10**9


def test_absurd_durations_have_a_bucket() -> None:
    made = histogram(2**64 - 1, 0, 2**63)
    assert made.count == 3 and made.counts_between([4]) == (1, 2)
    assert made.quantile(1) <= 2**45
