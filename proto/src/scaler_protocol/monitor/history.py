"""The history of a value: recent samples unchanged, older ones as means of increasingly long spans."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

LEVELS = ((1.0, 3600), (10.0, 3600), (60.0, 4320))
"""Seconds per sample and how many samples are kept: an hour, ten hours, three days."""

OUTAGE_SECONDS = 5.0

_NO_SLOT = float("-inf")


def outages(times: Sequence[float]) -> list[int]:
    """The places in ``times`` after which nothing was heard for a while: no line leads from there to the next sample.
    That is more than ``OUTAGE_SECONDS``, and more than three times the pauses before and after, because older samples
    are further apart."""
    spans = [later - time for time, later in zip(times, times[1:], strict=False)]
    usual = [0.0, *spans, 0.0]
    return [
        place
        for place, span in enumerate(spans)
        if span > OUTAGE_SECONDS and span > 3 * max(usual[place], usual[place + 2])
    ]


class History:
    """Samples must come in the order of time; one that is older than the last is left out."""

    def __init__(self) -> None:
        self._levels = [_Level(span, limit) for span, limit in LEVELS]

    def add(self, time: float, value: float) -> None:
        for level in self._levels:
            level.add(time, value)

    def forget_after(self, time: float) -> None:
        """Clocks are set back now and then: what seemed to be after ``time`` was before it."""
        for level in self._levels:
            level.forget_after(time)

    def since(self, start: float = 0.0) -> tuple[array[float], array[float]]:
        """Times and values from ``start`` on, oldest first, each stretch of time once and as fine as it is kept."""
        times, values = array("d"), array("d")
        end = float("inf")
        for level in self._levels:
            older_times, older_values = level.between(start, end)
            times, values = older_times + times, older_values + values
            end = min(end, level.first_time)
        return times, values

    @property
    def last(self) -> float:
        """The newest value; 0 when there is none."""
        return self._levels[0].last


class _Level:
    """Means of spans of equal length, the newest ones."""

    def __init__(self, span: float, limit: int) -> None:
        self._span = span
        self._limit = limit
        self._times = array("d")
        self._values = array("d")
        self._slot: float = _NO_SLOT
        self._count = 0

    @property
    def first_time(self) -> float:
        return self._times[0] if self._times else float("inf")

    @property
    def last(self) -> float:
        return self._values[-1] if self._values else 0.0

    def add(self, time: float, value: float) -> None:
        slot = int(time // self._span)
        if slot > self._slot:
            self._append(slot, time, value)
        elif slot == self._slot:
            self._count += 1
            self._values[-1] += (value - self._values[-1]) / self._count

    def forget_after(self, time: float) -> None:
        kept = bisect_right(self._times, time)
        self._times, self._values = self._times[:kept], self._values[:kept]
        self._slot, self._count = int(self._times[-1] // self._span) if kept else _NO_SLOT, 1

    def between(self, start: float, end: float) -> tuple[array[float], array[float]]:
        first, last = bisect_left(self._times, start), bisect_left(self._times, end)
        return self._times[first:last], self._values[first:last]

    def _append(self, slot: int, time: float, value: float) -> None:
        self._slot, self._count = slot, 1
        self._times.append(time)
        self._values.append(value)
        if len(self._times) >= 2 * self._limit:
            self._times = self._times[-self._limit :]
            self._values = self._values[-self._limit :]
