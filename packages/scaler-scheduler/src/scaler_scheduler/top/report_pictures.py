"""Pictures of a report, as SVG: values over time, and the task stream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from scaler_protocol.monitor.format import format_bytes, format_count, format_moment, format_percent, format_rate
from scaler_protocol.monitor.history import outages
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.palette import CANCELED_COLOUR, FAILED_COLOUR, PART_TINTS, function_colour
from scaler_protocol.monitor.task_stream import CANCELED, FAILED, Bars

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 540, 170, 70, 18
_POINTS = 270
_STREAM_WIDTH, _STREAM_LEFT, _ROW = 1080, 150, 12
STREAM_ROWS = 64
_LEGEND_LIMIT = 20
_FUNCTION_NAME_LIMIT = 60
_WORKER_NAME_LIMIT = 24
_PARTS_FROM_PIXELS = 4
"""Bars of single tasks that are so wide show the parts of their time."""


LINE_COLOURS = BLUE, RED, YELLOW, GREEN, PURPLE = "#2f81f7", "#d62728", "#b87a00", "#1f9d72", "#9a6fd8"
"""The colours of lines in charts, which contrast with a white and with a dark ground."""


class ReportChart(NamedTuple):
    """A chart: its title, its lines (label, history, colour), and the text of a value."""

    title: str
    lines: Sequence[tuple[str, str, str]]
    text: Callable[[float], str]


_CHARTS = {
    "throughput": ReportChart(
        "Throughput", (("ended", "throughput", BLUE), ("failed", "failures", RED)), format_rate
    ),
    "tasks": ReportChart(
        "Unfinished tasks",
        (
            ("waiting", "unassigned", YELLOW), ("running", "running", BLUE),
            ("queued on hosts", "queued", PURPLE),
        ),
        lambda value: format_count(round(value)),
    ),
    "cpu": ReportChart(
        "CPU", (("workers", "workers_cpu", GREEN), ("scheduler", "scheduler_cpu", YELLOW)), format_percent
    ),
    "memory": ReportChart(
        "Memory", (("workers", "workers_rss", GREEN), ("objects", "store_used", BLUE)), format_bytes
    ),
}  # fmt: skip


def chart(model: Model, name: str, start: float, stop: float) -> str:
    """One of ``throughput``, ``tasks``, ``cpu`` and ``memory``."""
    shown = _CHARTS[name]
    found = [(label, colour, *model.history(history, start)) for label, history, colour in shown.lines]
    largest = max((value for _, _, _, values in found for value in values), default=0.0) or 1.0
    paths = "".join(
        f"<path d='{_line(times, values, start, stop, largest)}' fill='none' stroke='{colour}' stroke-width='1.5'/>"
        for _, colour, times, values in found
    )
    key = "".join(f"<i style='background: {colour}'></i>{label}" for label, colour, _, _ in found)
    floor = _HEIGHT - _BOTTOM
    labels = (
        f"<text x='{_LEFT - 6}' y='12' text-anchor='end'>{escape(shown.text(largest))}</text>"
        f"<text x='{_LEFT - 6}' y='{floor}' text-anchor='end'>0</text>"
        f"<path d='M{_LEFT} 4V{floor}H{_WIDTH}' fill='none' stroke='currentColor' opacity='.25'/>"
    )
    axis = _times(start, stop, _LEFT, _WIDTH, _HEIGHT - 3)
    picture = f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='{shown.title}'>{labels}{axis}{paths}</svg>"
    return f"<figure style='margin: 0'><figcaption class='key'><b>{shown.title}</b>{key}</figcaption>{picture}</figure>"


def _line(times: Sequence[float], values: Sequence[float], start: float, stop: float, largest: float) -> str:
    """The largest value of each pixel. The line ends at outages."""
    gaps = {place + 1 for place in outages(times)}
    scale, floor = (_WIDTH - _LEFT) / max(1e-9, stop - start), _HEIGHT - _BOTTOM
    step = max(1e-9, (stop - start) / _POINTS)
    parts: list[str] = []
    last = -1
    for place, (time, value) in enumerate(zip(times, values, strict=True)):
        pixel = int((time - start) / step)
        if not start <= time <= stop or (pixel == last and place not in gaps):
            continue
        near = [each for at, each in zip(times[place : place + 200], values[place : place + 200], strict=True)
                if int((at - start) / step) == pixel]  # fmt: skip
        x, y = _LEFT + (time - start) * scale, floor - max([value, *near]) / largest * (floor - 6)
        parts.append(f"{'L' if parts and place not in gaps else 'M'}{x:.1f} {y:.1f}")
        last = pixel
    return "".join(parts)


def _times(start: float, stop: float, left: float, right: float, y: float) -> str:
    first, last = format_moment(start), format_moment(stop)
    return f"<text x='{left}' y='{y}'>{first}</text><text x='{right}' y='{y}' text-anchor='end'>{last}</text>"


def stream_picture(model: Model, start: float, stop: float) -> str:
    """A row for each worker, a colour for each function. Empty without tasks."""
    rows = model.stream_rows()[:STREAM_ROWS]
    width = _STREAM_WIDTH - _STREAM_LEFT
    bars = model.bars(start, stop, width, [row.worker_index for row in rows])
    if not len(bars):
        return ""
    colours = {function: function_colour(model.activity.colour_number(function)) for function in {*bars.functions}}
    paths: dict[str, list[str]] = defaultdict(list)
    for row, x0, x1, function, status in zip(bars.rows, bars.x0, bars.x1, bars.functions, bars.statuses, strict=True):
        colour = {FAILED: FAILED_COLOUR, CANCELED: CANCELED_COLOUR}.get(status, colours[function])
        paths[colour].append(
            f"M{_STREAM_LEFT + x0:.1f} {row * _ROW + 1}h{max(0.6, x1 - x0):.1f}v{_ROW - 2}h-{max(0.6, x1 - x0):.1f}z"
        )
    drawn = "".join(f"<path d='{''.join(parts)}' fill='{colour}'/>" for colour, parts in paths.items())
    tints = _tinted_parts(model, bars, start, stop, width)
    drawn += "".join(tints.values())
    labels = "".join(
        f"<text x='0' y='{place * _ROW + 10}'>{escape(_label(row.name, _WORKER_NAME_LIMIT))}</text>"
        for place, row in enumerate(rows)
    )
    height = len(rows) * _ROW + 16
    names = dict.fromkeys(model.activity.function_name(function) for function in colours)
    key = "".join(
        f"<i style='background: {function_colour(model.activity.colours.number_of(name))}'></i>"
        f"{escape(_label(name, _FUNCTION_NAME_LIMIT))}"
        for name in list(names)[:_LEGEND_LIMIT]
    )
    key += "".join(f"<i class='{name}'></i>{name}" for name in tints)
    more = (
        f", the first {len(rows)} of {len(model.stream_rows()):,} workers"
        if len(rows) < len(model.stream_rows())
        else ""
    )
    title = f"<h2>Task stream <span class='muted'>{bars.tasks:,} executions{more}</span></h2><p class='key'>{key}</p>"
    axis = _times(start, stop, _STREAM_LEFT, _STREAM_WIDTH, height - 3)
    head = f"<svg viewBox='0 0 {_STREAM_WIDTH} {height}' role='img' aria-label='Task stream'>"
    return f"{title}{head}{labels}{drawn}{axis}</svg>"


def _label(name: str, limit: int) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def _tinted_parts(model: Model, bars: Bars, start: float, stop: float, width: int) -> dict[str, str]:
    """Layers over the bars of single tasks, by the names of the parts of their time other than running."""
    paths: dict[str, list[str]] = {}
    for part in model.bar_parts(bars, start, stop, width, _PARTS_FROM_PIXELS):
        at, wide = _STREAM_LEFT + part.x0, part.x1 - part.x0
        top = bars.rows[part.bar] * _ROW + 1
        paths.setdefault(part.name, []).append(f"M{at:.1f} {top}h{wide:.1f}v{_ROW - 2}h-{wide:.1f}z")
    return {
        name: f"<path d='{''.join(paths[name])}' fill='{colour}' fill-opacity='{opacity}'/>"
        for name, (colour, opacity) in PART_TINTS.items()
        if name in paths
    }
