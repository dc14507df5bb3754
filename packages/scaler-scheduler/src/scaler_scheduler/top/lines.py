"""Lines of text with styles: what is drawn, before any terminal."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from scaler_protocol.monitor.format import clip, display_width, printable
from scaler_protocol.monitor.links import EntityLink


class Style(Enum):
    PLAIN = "plain"
    TITLE = "title"
    DIM = "dim"
    HEADER = "header"
    SORTED = "sorted"
    HEADING = "heading"
    CHOSEN = "chosen"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    ALARM = "alarm"
    LINK = "link"


class FunctionColour(NamedTuple):
    """The colour of a function by its number in the palette, as all screens show it."""

    number: int


class Span(NamedTuple):
    text: str
    style: Style | FunctionColour = Style.PLAIN
    link: EntityLink | None = None
    """To the page of what it mentions."""


Line = tuple[Span, ...]
SEPARATOR = Span(" | ", Style.DIM)


def line_of(text: str, style: Style = Style.PLAIN) -> Line:
    return (Span(text, style),)


def text_of(line: Line) -> str:
    return "".join(span.text for span in line)


def width_of(line: Line) -> int:
    return sum(display_width(span.text) for span in line)


def cut(line: Line, width: int) -> Line:
    """Return at most ``width`` columns of the line, and nothing that could move a cursor: texts come from others'
    programs. ``+`` at the end shows that more than spaces is missing: the beginning of a number is another number."""
    clean = tuple(span._replace(text=printable(span.text)) for span in line)
    if display_width(text_of(clean).rstrip()) <= width:
        return _beginning(clean, width)
    return (*_beginning(clean, width - 1), Span("+", Style.DIM)) if width > 0 else ()


def _beginning(line: Line, width: int) -> Line:
    kept: list[Span] = []
    room = width
    for span in line:
        used = display_width(span.text)
        if used > room:
            return (*kept, span._replace(text=clip(span.text, room + 1)[:-1] if room > 0 else ""))
        kept.append(span)
        room -= used
    return tuple(kept)


def ending(line: Line, width: int) -> Line:
    """Return the line, or as much of its end as fits, in one style; ``+`` shows that the beginning is missing."""
    text = printable(text_of(line))
    if display_width(text) <= width:
        return line
    end = text[max(0, len(text) - width + 1) :]
    while display_width(end) >= width > 0:
        end = end[1:]
    return (Span("+", Style.DIM), Span(end, line[-1].style))


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` columns, broken between words where there are any."""
    lines: list[str] = []
    rest = printable(text)
    while 0 < width < len(rest) or 0 < width < display_width(rest):
        line = _first_columns(rest, width)
        if rest[len(line) : len(line) + 1] != " " and line.rpartition(" ")[0].strip():
            line = line.rpartition(" ")[0]
        lines.append(line)
        rest = rest[len(line) :].removeprefix(" ")
    return [*lines, rest] if rest or not lines else lines


def _first_columns(text: str, width: int) -> str:
    """Return the first columns of the text, at least one character."""
    part, used = text[:width], 0
    if part.isascii():
        return part
    for count, character in enumerate(part):
        used += display_width(character)
        if used > width:
            return part[: max(1, count)]
    return part


def padded(line: Line, width: int) -> Line:
    """The line, filled with blanks up to ``width`` columns."""
    missing = width - width_of(line)
    return (*line, Span(" " * missing)) if missing > 0 else line


def joined(lines: Iterable[Line], separator: Span = SEPARATOR) -> Line:
    """The lines next to each other."""
    spans: list[Span] = []
    for line in lines:
        if spans:
            spans.append(separator)
        spans.extend(line)
    return tuple(spans)


def links_in(lines: Iterable[Line]) -> list[tuple[int, EntityLink]]:
    """The links of each line, from left to right, with the number of the line. Neighbours with one link are one."""
    found: list[tuple[int, EntityLink]] = []
    for number, line in enumerate(lines):
        found += dict.fromkeys((number, span.link) for span in line if span.link is not None)
    return found


def chosen_link(line: Line, link: EntityLink) -> Line:
    """Show that this link of a line is chosen."""
    return tuple(span._replace(style=Style.CHOSEN) if span.link == link else span for span in line)


def dimmed(lines: Iterable[Line]) -> list[Line]:
    """Old values must not look like present ones."""
    return [tuple(Span(span.text, Style.DIM) for span in line) for line in lines]
