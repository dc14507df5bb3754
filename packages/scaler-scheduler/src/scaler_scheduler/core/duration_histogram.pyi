"""The distribution of durations, in buckets whose width is at most a quarter of the duration (contract of
duration_histogram.pyx).

Memory is taken only for the buckets between the shortest and the longest duration: 8 bytes each, at most 176.
"""

from collections.abc import Sequence

class DurationHistogram:
    count: int
    longest_us: int
    def observe(self, duration_us: int) -> None: ...
    def merge(self, other: DurationHistogram) -> None: ...
    def quantile(self, share: float) -> float:
        """The duration in microseconds that ``share`` of all do not exceed, within a quarter, and exact if it is the
        longest one and no other is nearly as long; 0 without any."""

    def counts_between(self, bounds_us: Sequence[int]) -> tuple[int, ...]:
        """Return how many durations are shorter than the first bound, how many are between successive bounds, and how
        many are not shorter than the last. Exact for ascending powers of two from 4 on."""
