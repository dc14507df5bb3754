"""Lines of text with styles: what is drawn, before any terminal."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from scaler_protocol.monitor.format import clip, display_width


class Style(Enum):
    PLAIN = "plain"
    TITLE = "title"
    DIM = "dim"
    HEADER = "header"
    SORTED = "sorted"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    ALARM = "alarm"


class Span(NamedTuple):
    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]
SEPARATOR = Span(" | ", Style.DIM)


def line_of(text: str, style: Style = Style.PLAIN) -> Line:
    return (Span(text, style),)


def text_of(line: Line) -> str:
    return "".join(span.text for span in line)


def width_of(line: Line) -> int:
    return sum(display_width(span.text) for span in line)


def cut(line: Line, width: int) -> Line:
    """At most ``width`` columns of the line."""
    kept: list[Span] = []
    for span in line:
        room = width - width_of(tuple(kept))
        if display_width(span.text) > room:
            return (*kept, Span(clip(span.text, room + 1)[:-1] if room > 0 else "", span.style))
        kept.append(span)
    return tuple(kept)


def padded(line: Line, width: int) -> Line:
    """The line, filled with blanks up to ``width`` columns."""
    missing = width - width_of(line)
    return (*line, Span(" " * missing)) if missing > 0 else line


def joined(lines: Iterable[Line], separator: Span = SEPARATOR) -> Line:
    """The lines beside each other."""
    spans: list[Span] = []
    for line in lines:
        if spans:
            spans.append(separator)
        spans.extend(line)
    return tuple(spans)
