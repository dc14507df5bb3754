"""The chosen task of the task stream, and the bar next to it.

The task is kept by its place in the task log, so that it stays chosen when bars are drawn again. Where it is only a
part of a bar, that bar stands for it.
"""

from __future__ import annotations

from typing import Any

import numpy

from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.task_stream import Bars

_SEARCH_PIXELS = 4096


class StreamCursor:
    """``worker`` is the index that the model has for its row; None: nothing is chosen."""

    def __init__(self) -> None:
        self.worker: int | None = None
        self.serial = 0
        self.start = 0.0
        self.end = 0.0

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2

    def clear(self) -> None:
        self.worker = None

    def choose(self, model: Model, serial: int) -> bool:
        """False: that task is no longer held."""
        found = model.log.row(serial)
        if found is None:
            return False
        _, ended_us, duration_us, _, _, worker, _, _ = found
        self.worker, self.serial = worker, serial
        self.end, self.start = ended_us / 1e6, (ended_us - duration_us) / 1e6
        return True

    def bar(self, bars: Bars, row: int, pixel: float) -> int | None:
        """The bar of a row that shows the task, or else the one at this pixel, where its middle is."""
        places = _row(bars, row)
        if not places.size:
            return None
        own = places[numpy.frombuffer(bars.serials, numpy.uint64)[places] == self.serial]
        return int(own[0]) if own.size else nearest(bars, row, pixel)


def newest(bars: Bars) -> int | None:
    """The bar that ends last, in the highest row of several."""
    ends = numpy.frombuffer(bars.x1, numpy.float32)
    return int(ends.argmax()) if ends.size else None


def nearest(bars: Bars, row: int, pixel: float) -> int | None:
    """The bar of a row that is nearest to a pixel."""
    places = _row(bars, row)
    x0, x1 = numpy.frombuffer(bars.x0, numpy.float32)[places], numpy.frombuffer(bars.x1, numpy.float32)[places]
    distance = numpy.maximum(numpy.maximum(x0 - pixel, pixel - x1), 0)
    return int(places[distance.argmin()]) if places.size else None


def neighbor(bars: Bars, bar: int, step: int) -> int | None:
    """The bar before (-1) or after (1) another in its row."""
    places = _row(bars, bars.rows[bar])
    other = int(numpy.searchsorted(places, bar)) + step
    return int(places[other]) if 0 <= other < places.size else None


def beyond(model: Model, worker: int, moment: float, step: int, limit: float) -> int | None:
    """The last task of a worker before a moment (-1), or the first one after it (1), up to ``limit``: its place in the
    log."""
    start, stop = (limit, moment) if step < 0 else (moment, limit)
    while stop > start:
        bars = model.bars(start, stop, _SEARCH_PIXELS, [worker])
        if not len(bars):
            return None
        last = len(bars) - 1 if step < 0 else 0
        if bars.counts[last] == 1 or stop - start < 1e-3:
            return int(bars.serials[last])
        scale = (stop - start) / _SEARCH_PIXELS
        start, stop = start + (float(bars.x0[last]) - 1) * scale, start + (float(bars.x1[last]) + 1) * scale
    return None


def _row(bars: Bars, row: int) -> Any:
    return numpy.flatnonzero(numpy.frombuffer(bars.rows, numpy.uint32) == row)
