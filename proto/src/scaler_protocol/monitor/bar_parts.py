"""The parts of executions inside the bars of a task stream.

A bar lasts as long as its task kept the worker process: fetching and loading arguments, running, storing the result.
Running is the rest of the other three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from scaler_protocol.monitor.task_log import TaskLog
from scaler_protocol.monitor.task_stream import Bars
from scaler_protocol.monitor.task_times import ExecutionParts, TaskTimes

if TYPE_CHECKING:
    from scaler_protocol.monitor.task_log import LogRow

BARS_LIMIT = 2000
"""Bars whose parts are looked up at a time."""

LEAST_PIXELS = 0.5
"""Narrower parts are left out."""

_MICROSECONDS = 1e6


class BarPart(NamedTuple):
    """A part other than running. ``bar``: its place in the bars; ``x0`` and ``x1``: pixels from the left edge."""

    bar: int
    name: str
    x0: float
    x1: float


def bar_parts(
    log: TaskLog, times: TaskTimes, bars: Bars, start: float, stop: float, width: int, least_pixels: float
) -> list[BarPart]:
    """Return the parts inside bars of single tasks that are at least ``least_pixels`` wide. ``bars`` were made of
    ``log`` with the same ``start``, ``stop`` (unix seconds) and ``width``."""
    if not times.has_parts or stop <= start:
        return []
    scale = width / (stop - start)
    wide = bars.wide(least_pixels, BARS_LIMIT)
    return [part for bar in wide for part in _parts_in(log, times, bars, bar, start, scale)]


def _parts_in(log: TaskLog, times: TaskTimes, bars: Bars, bar: int, start: float, scale: float) -> Iterator[BarPart]:
    row = log.row(bars.serials[bar])
    parts = times.parts(row[3], row[0], row[6], row[2]) if row is not None else None
    if row is None or parts is None:
        return
    for name, begin, end in _spans(row, parts):
        x0, x1 = max(bars.x0[bar], (begin - start) * scale), min(bars.x1[bar], (end - start) * scale)
        if x1 - x0 >= LEAST_PIXELS:
            yield BarPart(bar, name, x0, x1)


def _spans(row: LogRow, parts: ExecutionParts) -> Iterator[tuple[str, float, float]]:
    """The name, the beginning and the end of each part, in unix seconds."""
    ended, duration = row[1] / _MICROSECONDS, row[2] / _MICROSECONDS
    fetched = ended - duration + parts.fetching
    yield "fetching", ended - duration, fetched
    yield "loading", fetched, fetched + parts.loading
    yield "storing", ended - parts.storing, ended
