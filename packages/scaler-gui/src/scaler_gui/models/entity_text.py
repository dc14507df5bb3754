"""The page of one thing as HTML with links, for a text view."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from scaler_gui.theme import Theme
from scaler_protocol.monitor.entities import EntityPage, Fact, Section, output_of, page_of
from scaler_protocol.monitor.format import format_count, format_time, format_value
from scaler_protocol.monitor.links import TASK, EntityLink, cell_link
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.output_log import STDERR, PrintedLine
from scaler_protocol.monitor.tables import TABLES

_SCHEME = "scaler:"
_UNKNOWN = "<h2>{}</h2><p>It never existed, or this monitor does not remember it.</p>"


def address_of(link: EntityLink) -> str:
    """The address of a link in the text."""
    return _SCHEME + json.dumps([link.kind, *link.key]).encode().hex()


def link_of(address: str) -> EntityLink | None:
    """The inverse; None for other addresses."""
    if not address.startswith(_SCHEME):
        return None
    kind, *key = json.loads(bytes.fromhex(address.removeprefix(_SCHEME)))
    return EntityLink(kind, tuple(key))


def entity_html(model: Model, link: EntityLink, theme: Theme) -> str:
    """Names come from other people's programs: they are text, whatever they contain."""
    page = page_of(model, link)
    if page is None:
        return _UNKNOWN.format(escape(f"{link.kind} {link.key[-1]}".capitalize()))
    parts = [f"<h2>{escape(page.title)}</h2>", _facts(page, theme)]
    parts += [_section(section, theme) for section in page.sections]
    if page.text:
        parts.append(f"<h3>Known failures</h3><pre>{escape(page.text)}</pre>")
    return "".join([*parts, _output(model, link, theme)])


def _output(model: Model, link: EntityLink, theme: Theme) -> str:
    """The newest lines that it has printed; nothing without any."""
    printed, total = output_of(model, link)
    if not printed:
        return ""
    more = f" ({format_count(total)} lines, the newest {len(printed)} shown)" if total > len(printed) else ""
    lines = [_printed(line, link.kind != TASK, theme) for line in printed]
    return f"<h3>Output{more}</h3><pre style='white-space: pre-wrap'>{'<br>'.join(lines)}</pre>"


def _printed(line: PrintedLine, names_task: bool, theme: Theme) -> str:
    prefix = f"{format_time(line.time)[:8]} {line.prefix if names_task else ''}".rstrip()
    colour = theme.bad if line.stream == STDERR else theme.text
    return (
        f"<span style='color: {theme.muted}'>{escape(prefix)}</span> "
        f"<span style='color: {colour}'>{escape(line.text)}</span>"
    )


def _facts(page: EntityPage, theme: Theme) -> str:
    rows = [_fact(fact, place > 0 and page.facts[place - 1].name == fact.name, theme)
            for place, fact in enumerate(page.facts)]  # fmt: skip
    return f"<table cellspacing='0' cellpadding='2'>{''.join(rows)}</table>"


def _fact(fact: Fact, is_repeated: bool, theme: Theme) -> str:
    name = "" if is_repeated else escape(fact.name)
    text = _linked(fact.text, fact.link, theme)
    return f"<tr><td style='color: {theme.muted}'>{name}&nbsp;&nbsp;</td><td>{text}</td></tr>"


def _section(section: Section, theme: Theme) -> str:
    spec = TABLES[section.table]
    more = f", the first {len(section.rows)} shown" if section.total > len(section.rows) else ""
    heads = "".join(
        f"<th align='{column.align}' style='color: {theme.muted}'>{escape(column.title)}&nbsp;</th>"
        for column in spec.columns
    )
    rows = "".join(f"<tr>{_cells(section.table, row, theme)}</tr>" for row in section.rows)
    title = f"<h3>{escape(section.title)} ({format_count(section.total)}{more})</h3>"
    return f"{title}<table cellspacing='0' cellpadding='3'><tr>{heads}</tr>{rows}</table>"


def _cells(table: str, row: Sequence[object], theme: Theme) -> str:
    cells = []
    for column, value in zip(TABLES[table].columns, row, strict=True):
        text = format_value(column.kind, value)
        link = cell_link(table, column.key, tuple(row))
        cells.append(f"<td align='{column.align}'>{_linked(text, link, theme)}&nbsp;</td>")
    return "".join(cells)


def _linked(text: str, link: EntityLink | None, theme: Theme) -> str:
    if link is None:
        return escape(text)
    style = f"color: {theme.accent}; text-decoration: none"
    return f"<a href='{address_of(link)}' style='{style}'>{escape(text)}</a>"
