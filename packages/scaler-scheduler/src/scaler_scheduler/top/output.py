"""The page of output: what tasks print, the newest lines at the bottom."""

from __future__ import annotations

from scaler_protocol.monitor.format import format_count
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.output_log import PrintedBy
from scaler_scheduler.top.lines import Line, Span, Style, line_of
from scaler_scheduler.top.pages import NOTE_HEIGHT_LEAST, Body
from scaler_scheduler.top.printed import printed_parts
from scaler_scheduler.top.view import View

_EMPTY_TEXT = "no task has printed anything while this monitor watched"


def output_body(model: Model, view: View, width: int, height: int) -> Body:
    """``first_row`` of the page counts lines back from the newest one."""
    output, back = model.activity.output, view.table.first_row
    has_note = height >= NOTE_HEIGHT_LEAST
    room = max(1, height - has_note)
    lines, total = output.newest(PrintedBy(text=view.filter_text), back, room)
    if not lines:
        empty = f"nothing contains {view.filter_text!r}" if view.filter_text else _EMPTY_TEXT
        note = [_note(total, output.total, 0)] if has_note else []
        return Body([*note, line_of(empty, Style.DIM)], room, 0, 0)
    shown = [part for line in lines for part in printed_parts(line, width)][-room:]
    note = [_note(total, output.total, back)] if has_note else []
    return Body([*note, *shown], room, max(0, total - 1), total)


def _note(shown: int, total: int, back: int) -> Line:
    text = f"{format_count(shown)} line{'' if shown == 1 else 's'}"
    kept = f" of {format_count(total)}" if total > shown else ""
    place = f", {format_count(back)} newer below" if back else ", follows the newest"
    return (Span(text), Span(f"{kept}{place if shown else ''}", Style.DIM))
