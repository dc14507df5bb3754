"""Marks on an axis of time: where they stand and what they say, from microseconds to months."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

_STEPS = (
    *(step * 10.0**power for power in range(-6, 1) for step in (1, 2, 5)), 10.0, 15.0, 30.0,
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)), *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400.0 * days for days in (1, 2, 5, 10, 30)),
)  # fmt: skip


class Tick(NamedTuple):
    time: float
    label: str


def ticks(start: float, end: float, most: int) -> list[Tick]:
    """Return at most ``most`` marks at round local times between two unix times."""
    step = step_for((end - start) / max(1, most))
    offset = _local_offset(start) if step >= 3600 else 0.0
    first = math.ceil((start + offset) / step)
    return [_tick(number * step - offset, step) for number in range(first, math.floor((end + offset) / step) + 1)]


def step_for(least: float) -> float:
    """The smallest round step that is not below ``least`` seconds."""
    return next((step for step in _STEPS if step >= least), _STEPS[-1] * max(1, math.ceil(least / _STEPS[-1])))


def _tick(moment: float, step: float) -> Tick:
    local = time.localtime(moment + 1e-7)
    if step >= 86_400 or (step >= 3600 and local.tm_hour == local.tm_min == 0):
        return Tick(moment, time.strftime("%d %b", local))
    if step >= 60:
        return Tick(moment, time.strftime("%H:%M", local))
    if step >= 1:
        return Tick(moment, time.strftime("%H:%M:%S", local))
    return Tick(moment, _fraction(moment, step))


def _fraction(moment: float, step: float) -> str:
    """``:05.250``: seconds of the minute, with as many digits as the step needs."""
    digits = max(1, -math.floor(math.log10(step) + 1e-9))
    return f":{moment % 60:0{digits + 3}.{digits}f}"


def _local_offset(moment: float) -> float:
    return float(time.localtime(moment).tm_gmtoff)


def span_text(seconds: float) -> str:
    """``30 s``, ``1.5 ms``, ``2 h``: a length of time for people."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
