"""Bars of a task stream as pixels: one line of an image for each row, whatever the number of tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from scaler_protocol.monitor.palette import CANCELED_COLOUR, FAILED_COLOUR, function_colour
from scaler_protocol.monitor.task_stream import CANCELED, FAILED, Bars

_Array = numpy.ndarray[Any, Any]

_FAINTEST = 0.3
"""The part of its colour that a bar keeps if it stands for a pixel with hardly any work."""

_GAP_FROM_PIXELS = 4.0
"""Bars this wide are parted from the next by a pixel."""

_LEAST_MARK_PIXELS = 2
"""Failures and cancels are at least this wide, lest they be overlooked."""


class Ink(NamedTuple):
    """Colours as rows of red, green and blue."""

    failed: _Array
    canceled: _Array
    background: _Array


@functools.cache
def ink(background: str) -> Ink:
    return Ink(*(numpy.array(_rgb(each), numpy.float32) for each in (FAILED_COLOUR, CANCELED_COLOUR, background)))


def paint(bars: Bars, rows: int, width: int, colours: Ink, number_of: Callable[[int], int]) -> _Array:
    """``rows`` lines of ``width`` pixels, 0xffRRGGBB. ``number_of``: of a function in the palette, by its index."""
    image = numpy.full(rows * width, _packed(colours.background[None, :])[0], numpy.uint32)
    if not len(bars):
        return image.reshape(rows, width)
    statuses = numpy.frombuffer(bars.statuses, numpy.uint8)
    last = numpy.argsort(_layers(bars, statuses), kind="stable")
    starts, ends = _pixels(bars, statuses, width)
    base = numpy.frombuffer(bars.rows, numpy.uint32).astype(numpy.int64) * width
    lengths = (ends - starts)[last]
    places = _ranges((base + starts)[last], lengths)
    image[places] = numpy.repeat(_colours(bars, statuses, colours, number_of)[last], lengths)
    return image.reshape(rows, width)


def stretched(image: _Array, row_height: int, background: str) -> _Array:
    """Each line as a row of this height; the last line of a row is a gap when rows are tall enough."""
    tall = numpy.repeat(image, row_height, axis=0)
    if row_height >= 4:
        gap = 1 if row_height < 12 else 2
        packed = _packed(numpy.array([_rgb(background)], numpy.float32))[0]
        for line in range(gap):
            tall[row_height - 1 - line :: row_height] = packed
    return numpy.ascontiguousarray(tall)


def _layers(bars: Bars, statuses: _Array) -> _Array:
    """Return which bars lie on which: narrow ones on wide ones, which may be of actors, and on these cancelled ones and
    then failed ones."""
    widths: _Array = numpy.frombuffer(bars.x1, numpy.float32) - numpy.frombuffer(bars.x0, numpy.float32)
    return numpy.where(widths > _LEAST_MARK_PIXELS, 0, 1 + numpy.where(statuses == FAILED, 9, statuses))


def _pixels(bars: Bars, statuses: _Array, width: int) -> tuple[_Array, _Array]:
    x0 = numpy.frombuffer(bars.x0, numpy.float32)
    x1 = numpy.frombuffer(bars.x1, numpy.float32)
    starts = numpy.clip(numpy.floor(x0 + 1e-3), 0, width - 1).astype(numpy.int64)
    ends = numpy.maximum(numpy.ceil(x1 - 1e-3).astype(numpy.int64), starts + 1)
    wide = (x1 - x0 >= _GAP_FROM_PIXELS) & (x1 < width)
    ends = numpy.where(wide, ends - 1, ends)
    ends = numpy.where(statuses > 0, numpy.maximum(ends, starts + _LEAST_MARK_PIXELS), ends)
    return starts, numpy.minimum(ends, width)


def _colours(bars: Bars, statuses: _Array, colours: Ink, number_of: Callable[[int], int]) -> _Array:
    functions, places = numpy.unique(numpy.frombuffer(bars.functions, numpy.uint32), return_inverse=True)
    full = numpy.array([_rgb(function_colour(number_of(int(each)))) for each in functions], numpy.float32)[places]
    full[statuses == FAILED] = colours.failed
    full[statuses == CANCELED] = colours.canceled
    busy = numpy.frombuffer(bars.busy, numpy.float32)
    strength = numpy.where(statuses > 0, 1.0, _FAINTEST + (1 - _FAINTEST) * busy)[:, None]
    return _packed(colours.background + (full - colours.background) * strength)


def _packed(rgb: _Array) -> _Array:
    whole = rgb.astype(numpy.uint32)
    return numpy.uint32(0xFF000000) | whole[:, 0] << 16 | whole[:, 1] << 8 | whole[:, 2]


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _ranges(starts: _Array, lengths: _Array) -> _Array:
    """All places of all bars, one after another."""
    offsets = starts - numpy.concatenate(([0], numpy.cumsum(lengths)[:-1]))
    return numpy.repeat(offsets, lengths) + numpy.arange(int(lengths.sum()))
