"""The texts of the task stream: rows, tips, the visible functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from scaler_protocol.monitor.format import format_time, format_value
from scaler_protocol.monitor.model import Model, StreamRow
from scaler_protocol.monitor.open_bars import OpenBar
from scaler_protocol.monitor.rows import short_id, task_row
from scaler_protocol.monitor.tables import TASKS
from scaler_protocol.monitor.task_stream import Bars


def labels(rows: Sequence[StreamRow]) -> list[str]:
    """Names of workers; the host goes before them where there are several."""
    several = len({row.worker.host for row in rows}) > 1
    return [f"{row.worker.host} {row.name}" if several else row.name for row in rows]


def bar_at(bars: Bars, row: int, x: float) -> int | None:
    """The bar that is nearest to a pixel of a row, within two pixels; of several, the one that was painted last."""
    rows = numpy.frombuffer(bars.rows, numpy.uint32)
    x0, x1 = numpy.frombuffer(bars.x0, numpy.float32), numpy.frombuffer(bars.x1, numpy.float32)
    distance = numpy.maximum(numpy.maximum(x0 - x, x - x1), 0)
    distance = numpy.where(rows == row, distance, numpy.inf)
    if not distance.size or distance.min() > 2:
        return None
    return int(distance.size - 1 - distance[::-1].argmin())


def open_ends(bars: Bars) -> Any:
    """Return the pixel up to which each bar is seen: its end, or the start of the next bar of its row."""
    rows, x0 = numpy.frombuffer(bars.rows, numpy.uint32), numpy.frombuffer(bars.x0, numpy.float32)
    ends = numpy.array(numpy.frombuffer(bars.x1, numpy.float32))
    order = numpy.argsort(rows, kind="stable")
    same = rows[order][:-1] == rows[order][1:]
    first, following = order[:-1][same], order[1:][same]
    ends[first] = numpy.minimum(ends[first], x0[following])
    return ends


def name_room(bars: Bars, bar: OpenBar) -> tuple[float, float]:
    """Return from which to which pixel the name of a running task has room: in front of all bars of its row, or behind
    them. The bars of an actor's calls are painted on that of the actor."""
    there = numpy.frombuffer(bars.rows, numpy.uint32) == bar.row
    if not there.any():
        return bar.x0, bar.x1
    first = float(numpy.frombuffer(bars.x0, numpy.float32)[there].min())
    last = float(numpy.frombuffer(bars.x1, numpy.float32)[there].max())
    rooms = (max(bar.x0, last), bar.x1), (bar.x0, min(first, bar.x1))
    return max(rooms, key=lambda room: room[1] - room[0])


def tip(model: Model, bars: Bars, bar: int) -> str:
    """The description of a bar, on a few lines."""
    serial = int(bars.serials[bar])
    found = model.log.row(serial)
    if found is None:
        return ""
    ended, started = found[1] / 1e6, (found[1] - found[2]) / 1e6
    row = dict(zip([column.key for column in TASKS.columns], task_row(model, serial), strict=True))
    lines = [
        str(row["function"]) or "(unknown function)",
        *([f"actor {row['actor']}"] if row["actor"] else []),
        f"task {row['task']} of client {row['session']}, attempt {row['attempt']}",
        f"{row['status']}, ran {format_value('duration', row['duration'])}",
        f"{format_time(started)} to {format_time(ended)}",
        " ".join(str(part) for part in (row["host"], row["worker"]) if part),
    ]
    lines += [str(row["parts"]).replace(", ", "\n")] if row["parts"] else []
    count = int(bars.counts[bar])
    return "\n".join([*lines, f"and {count - 1:,} shorter tasks here"] if count > 1 else lines)


def open_bar_at(bars: Sequence[OpenBar], row: int, x: float) -> OpenBar | None:
    """The bar of a running task at a pixel of a row; the last one drawn of several."""
    return next((bar for bar in reversed(bars) if bar.row == row and bar.x0 - 2 <= x <= bar.x1 + 2), None)


def open_tip(bar: OpenBar) -> str:
    """The description of a running task, on a few lines."""
    task, row = bar.running.task, bar.running
    return "\n".join(
        (
            task.function or "(unknown function)",
            *([f"actor {task.actor_name}"] if task.actor_name else []),
            f"task {task.task} of client {short_id(task.session)}, attempt {task.attempt}",
            f"{row.state}, for {format_value('age', task.seconds)} since {format_time(row.started)}",
            f"CPU {format_value('percent', task.cpu_percent)}, memory {format_value('bytes', task.rss_bytes)}",
            f"{row.agent.host} {row.worker}, pid {task.pid}",
        )
    )


def task_of(model: Model, bars: Bars, bar: int) -> int | None:
    """The number of the task that a bar stands for."""
    found = model.log.row(int(bars.serials[bar]))
    return None if found is None else found[0]


def functions_in(bars: Bars, most: int) -> list[int]:
    """Indices of the functions in sight, those that fill most first."""
    if not len(bars):
        return []
    functions = numpy.frombuffer(bars.functions, numpy.uint32).astype(numpy.int64)
    widths: Any = numpy.frombuffer(bars.x1, numpy.float32) - numpy.frombuffer(bars.x0, numpy.float32)
    found, places = numpy.unique(functions, return_inverse=True)
    sums = numpy.bincount(places, widths)
    return [int(found[place]) for place in numpy.argsort(-sums)[:most]]
