"""The page of one thing in a terminal: facts, rows and texts as lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scaler_protocol.monitor.entities import EntityPage, Section, output_of, page_of
from scaler_protocol.monitor.format import display_width, format_count, right
from scaler_protocol.monitor.links import TASK, EntityLink, cell_link, row_link
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.tables import TABLES, Column, Row
from scaler_scheduler.top.grid import grid_of
from scaler_scheduler.top.lines import Line, Span, Style, line_of, wrapped
from scaler_scheduler.top.printed import printed_parts


def entity_lines(model: Model, link: EntityLink, width: int) -> list[Line]:
    """The whole page, in lines of at most ``width`` columns."""
    page = page_of(model, link)
    if page is None:
        return [line_of("nothing is known of it any more", Style.DIM)]
    lines: list[Line] = [line_of(page.title, Style.TITLE), *_facts(page, width)]
    for section in page.sections:
        lines += [(), *_section(section, width)]
    if page.text:
        lines += [(), line_of("Known failures", Style.HEADING)]
        lines += [line_of(part) for text in page.text.expandtabs(4).splitlines() for part in wrapped(text, width)]
    return [*lines, *_output(model, link, width)]


def _output(model: Model, link: EntityLink, width: int) -> list[Line]:
    """The newest lines at the bottom, as on the page of output."""
    printed, total = output_of(model, link)
    if not printed:
        return []
    more = f"  the newest {len(printed)} of {format_count(total)}" if total > len(printed) else ""
    title = (Span("Output", Style.HEADING), Span(more, Style.DIM))
    return [(), title, *(part for line in printed for part in printed_parts(line, width, link.kind != TASK))]


def _facts(page: EntityPage, width: int) -> list[Line]:
    names = [fact.name for fact in page.facts]
    wide = max((display_width(name) for name in names), default=0)
    lines: list[Line] = []
    for place, fact in enumerate(page.facts):
        repeated = place > 0 and names[place - 1] == fact.name
        name = Span(right("" if repeated else fact.name, wide) + "  ", Style.DIM)
        parts = wrapped(fact.text, max(10, width - wide - 2))
        style = Style.PLAIN if fact.link is None else Style.LINK
        lines.append((name, Span(parts[0], style, fact.link)))
        lines += [(Span(" " * (wide + 2)), Span(part, style)) for part in parts[1:]]
    return lines


def _section(section: Section, width: int) -> Sequence[Line]:
    more = f"  the first {len(section.rows)} of {format_count(section.total)}"
    title = Span(more if section.total > len(section.rows) else f"  {section.total}", Style.DIM)
    grid = grid_of(TABLES[section.table], section.rows, "", False, width)
    rows = (grid.line(row, link_of=partial(_cell_link, section.table, row)) for row in section.rows)
    return [(Span(section.title, Style.HEADING), title), grid.header(), *rows]


def _cell_link(table: str, row: Row, column: Column) -> EntityLink | None:
    """To the page of what the row stands for; if there is none, of what the cell mentions."""
    return row_link(table, row) or cell_link(table, column.key, row)
