"""The task stream: a row per worker, time from left to right, a colour per function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scaler_protocol.monitor.bar_parts import BarPart
from scaler_protocol.monitor.format import display_width, format_moment, format_span, format_time, left, printable
from scaler_protocol.monitor.model import Model, StreamRow
from scaler_protocol.monitor.open_bars import OpenBar
from scaler_protocol.monitor.task_stream import CANCELED, FAILED, Bars
from scaler_scheduler.top.lines import FunctionColour, Line, Span, Style, line_of
from scaler_scheduler.top.pages import NOTE_HEIGHT_LEAST, Body
from scaler_scheduler.top.view import View

LABEL_WIDTH_LEAST = 28
"""Labels may have so many columns, and more on a wide screen."""

DELAY_SECONDS = 0.5
"""The stream ends so long before the newest message: what ended a moment ago is still on its way."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LEGEND_LIMIT = 12
_NAME_MARGIN = 6
"""An open bar that is longer than its name by this much contains it."""

_PARTS_FROM_COLUMNS = 4
"""Bars of single tasks that are so wide show the parts of their time."""

_PART_CHARACTERS = {"fetching": ("▂", "."), "loading": ("▄", ":"), "storing": ("▆", "'")}
"""The character of a part other than running: with blocks, and with letters."""

_SHADES = ((0.6, "█"), (0.35, "▓"), (0.15, "▒"), (0.0, "░"))
"""The character of a cell, by the part of its time that was spent in tasks."""


def stream_body(model: Model, view: View, width: int, height: int, blocks: bool) -> Body:
    """``blocks``: the terminal shows coloured blocks; otherwise each function is a letter."""
    wanted = view.filter_text.casefold()
    newest = model.time - DELAY_SECONDS
    stop = view.stream_stop(newest)
    start = stop - view.stream_seconds
    found = model.stream_rows(start, stop)
    rows = [row for row in found if wanted in f"{row.worker.host}|{row.worker.name}".casefold()]
    is_low = height < NOTE_HEIGHT_LEAST
    room = max(1, height if is_low else height - 3)
    last_first_row = max(0, len(rows) - room)
    first = min(view.table.first_row, last_first_row)
    shown = rows[first : first + room]
    if not shown:
        return Body([(), line_of("no task has ended while this monitor watched", Style.DIM)], room, 0, 0)
    label = min(max(LABEL_WIDTH_LEAST, width // 4), max(len(_label(row)) for row in shown), max(1, width // 3))
    columns = max(1, width - label - 2)
    bars = model.bars(start, stop, columns, [row.worker_index for row in shown])
    running = model.open_bars(start, stop, columns, [row.worker_index for row in shown])
    parts = model.bar_parts(bars, start, stop, columns, _PARTS_FROM_COLUMNS)
    painted = _painted(model, bars, parts, running, len(shown), columns, blocks)
    tasks = bars.tasks
    if len(shown) < len(rows) and not wanted:
        tasks = model.count_of_executions(start, stop)
    lines = [
        (Span(left(_label(row), label) + " |", Style.DIM), *cells) for row, cells in zip(shown, painted, strict=True)
    ]
    if not is_low:
        title = _title(view, stop, stop == newest, tasks, len(running))
        axis = _axis(start, stop, label + 2, columns)
        lines = [title, *lines, axis, _legend(model, bars, parts, running, blocks, width)]
    return Body(lines, room, last_first_row, len(rows))


def _label(row: StreamRow) -> str:
    return f"{row.worker.host}|{row.name}"


_KEY_HINTS = {True: ":03:00 goes there   / filters", False: "Esc follows   / filters"}


def _title(view: View, stop: float, follows: bool, tasks: int, running: int) -> Line:
    end = "now" if follows else format_moment(stop)
    span = format_span(view.stream_seconds)
    return (
        Span(f"{span} until {end}: {tasks:,} tasks" + (f", {running:,} running" if running else "")),
        Span(f"   + - zoom   [ ] move   {_KEY_HINTS[follows]}", Style.DIM),
    )


def _painted(
    model: Model, bars: Bars, parts: Sequence[BarPart], running: Sequence[OpenBar], rows: int, width: int, blocks: bool
) -> list[Line]:
    cells: list[list[Span]] = [[Span(" ")] * width for _ in range(rows)]
    for bar in running:
        _paint_open(cells[bar.row], bar, model.activity.colours.number_of(bar.running.task.function), blocks)
    colours = {function: model.activity.colour_number(function) for function in {*bars.functions}}
    columns = (bars.rows, bars.x0, bars.x1, bars.functions, bars.statuses, bars.busy)
    for row, x0, x1, function, status, busy in zip(*columns, strict=True):
        first = min(width - 1, int(x0))
        last = max(first + 1, min(width, round(x1)))
        cells[row][first:last] = [_cell(colours[function], status, busy, blocks)] * (last - first)
    for part in parts:
        _paint_part(cells[bars.rows[part.bar]], part, blocks)
    return [_merged(line) for line in cells]


def _paint_open(cells: list[Span], bar: OpenBar, colour: int, blocks: bool) -> None:
    """An arrow. It begins with the name of the function where there is room, or without colours with its letter."""
    first = min(len(cells) - 1, int(bar.x0))
    length = max(1, min(len(cells), round(bar.x1)) - first)
    name = printable(bar.running.task.function)
    named = f"━ {name} " if name.isascii() and length >= len(name) + _NAME_MARGIN else ""
    text = (named + "━" * length if blocks else _letter(colour) + "=" * length)[: length - 1] + ">"
    cells[first : first + length] = [Span(character, FunctionColour(colour)) for character in text]


def _paint_part(cells: list[Span], part: BarPart, blocks: bool) -> None:
    """Lower cells than those in which the task was running, in the same style."""
    for place in range(round(part.x0), min(len(cells), round(part.x1))):
        cells[place] = Span(_PART_CHARACTERS[part.name][0 if blocks else 1], cells[place].style)


def _letter(colour: int) -> str:
    return _LETTERS[colour % len(_LETTERS)]


def _cell(colour: int, status: int, busy: float, blocks: bool) -> Span:
    if status == FAILED:
        return Span("█" if blocks else "X", Style.BAD)
    if status == CANCELED:
        return Span("█" if blocks else "-", Style.DIM)
    shade = next((text for least, text in _SHADES if busy >= least), "░")
    return Span(shade if blocks else _letter(colour), FunctionColour(colour))


def _merged(cells: Sequence[Span]) -> Line:
    """Neighbours of one style as one span."""
    spans: list[Span] = []
    for cell in cells:
        if spans and spans[-1].style == cell.style:
            spans[-1] = Span(spans[-1].text + cell.text, cell.style)
        else:
            spans.append(cell)
    return tuple(spans)


def _axis(start: float, stop: float, indent: int, width: int) -> Line:
    first, last = format_time(start), format_time(stop)
    gap = width - len(first) - len(last)
    return (Span(" " * indent + first + (" " * gap + last if gap > 0 else ""), Style.DIM),)


def _legend(
    model: Model, bars: Bars, parts: Sequence[BarPart], running: Sequence[OpenBar], blocks: bool, width: int
) -> Line:
    """The legend of colours: the functions on the screen, those with most tasks first."""
    counts: Counter[str] = Counter()
    names = {function: model.activity.function_name(function) for function in {*bars.functions}}
    for function, count in zip(bars.functions, bars.counts, strict=True):
        counts[names[function]] += count
    counts.update(bar.running.task.function for bar in running)
    entries = [
        (Span("━" if blocks else "=", Style.PLAIN), "running"),
        (Span("█" if blocks else "X", Style.BAD), "failed"),
        (Span("█" if blocks else "-", Style.DIM), "cancelled"),
    ]
    seen = {part.name for part in parts}
    for name, characters in _PART_CHARACTERS.items():
        if name in seen:
            entries.append((Span(characters[0 if blocks else 1]), name))
    for name, _ in counts.most_common(_LEGEND_LIMIT):
        colour = model.activity.colours.number_of(name)
        entries.append((Span("█" if blocks else _letter(colour), FunctionColour(colour)), name or "?"))
    return _fitting(entries, width)


def _fitting(entries: Sequence[tuple[Span, str]], width: int) -> Line:
    """Return as many parts as there is room for, all of them complete."""
    spans: list[Span] = []
    for mark, name in entries:
        text = f" {name}  "
        width -= 1 + display_width(text)
        if width < -2:
            break
        spans += [mark, Span(text)]
    return tuple(spans)
