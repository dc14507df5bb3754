"""The page of output: what tasks print, the newest lines at the bottom."""

from __future__ import annotations

from itertools import islice

from scaler_protocol.monitor.format import clip, format_count, format_time
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.output_log import STDERR, PrintedBy, PrintedLine
from scaler_scheduler.top.lines import Line, Span, Style, line_of, wrapped
from scaler_scheduler.top.pages import Body
from scaler_scheduler.top.view import View

_TIME_WIDTH = len("14:03:59")
_LEAST_TEXT_WIDTH = 20
_EMPTY_TEXT = "no task has printed anything while this monitor watched"


def output_body(model: Model, view: View, width: int, height: int) -> Body:
    """``first_row`` of the page counts lines back from the newest one."""
    output, back = model.activity.output, view.table.first_row
    room = max(1, height - 1)
    lines, total = output.newest(PrintedBy(text=view.filter_text), back, room)
    if not lines:
        empty = f"nothing contains {view.filter_text!r}" if view.filter_text else _EMPTY_TEXT
        return Body([_note(total, output.total, 0), line_of(empty, Style.DIM)], room, 0, 0)
    shown = [part for line in lines for part in _shown(line, width)][-room:]
    return Body([_note(total, output.total, back), *shown], room, max(0, total - 1), total)


def _note(shown: int, total: int, back: int) -> Line:
    text = f"{format_count(shown)} line{'' if shown == 1 else 's'}"
    kept = f" of {format_count(total)}" if total > shown else ""
    place = f", {format_count(back)} newer below" if back else ", follows the newest"
    return (Span(text), Span(f"{kept}{place if shown else ''}", Style.DIM))


def _shown(line: PrintedLine, width: int) -> list[Line]:
    """The line behind the time and the one that has written it; what is too long goes on below."""
    prefix = clip(line.prefix, max(8, width * 2 // 5 - _TIME_WIDTH))
    style = Style.WARNING if line.stream == STDERR else Style.PLAIN
    head: Line = (Span(f"{format_time(line.time)[:_TIME_WIDTH]} ", Style.DIM), Span(f"{prefix} ", Style.HEADING))
    indent = " " * (_TIME_WIDTH + 3)
    room = max(_LEAST_TEXT_WIDTH, width - _TIME_WIDTH - 2 - len(prefix))
    first, *_ = wrapped(line.text, room)
    rest = line.text[len(first) :].strip()
    more = islice(wrapped(rest, max(_LEAST_TEXT_WIDTH, width - len(indent))), 50) if rest else ()
    return [(*head, Span(first, style)), *((Span(indent), Span(part, style)) for part in more)]
