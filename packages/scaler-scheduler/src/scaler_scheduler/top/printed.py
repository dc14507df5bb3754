"""A line that a task has printed, as lines of the terminal."""

from __future__ import annotations

from itertools import islice

from scaler_protocol.monitor.format import clip, format_time
from scaler_protocol.monitor.output_log import STDERR, PrintedLine
from scaler_scheduler.top.lines import Line, Span, Style, wrapped

_TIME_WIDTH = len("14:03:59")
_LEAST_TEXT_WIDTH = 20
_PARTS_LIMIT = 50


def printed_parts(line: PrintedLine, width: int, names_task: bool = True) -> list[Line]:
    """The line behind the time and, with ``names_task``, the one that has written it; what is too long goes on
    below."""
    prefix = f"{clip(line.prefix, max(8, width * 2 // 5 - _TIME_WIDTH))} " if names_task else ""
    style = Style.WARNING if line.stream == STDERR else Style.PLAIN
    head: Line = (Span(f"{format_time(line.time)[:_TIME_WIDTH]} ", Style.DIM), Span(prefix, Style.HEADING))
    indent = " " * (_TIME_WIDTH + 3)
    room = max(_LEAST_TEXT_WIDTH, width - _TIME_WIDTH - 1 - len(prefix))
    first, *_ = wrapped(line.text, room)
    rest = line.text[len(first) :].strip()
    more = islice(wrapped(rest, max(_LEAST_TEXT_WIDTH, width - len(indent))), _PARTS_LIMIT) if rest else ()
    return [(*head, Span(first, style)), *((Span(indent), Span(part, style)) for part in more)]
