"""A table of the model as lines: columns as wide as their values need; those without room are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scaler_protocol.monitor.column_widths import TEXT_WIDTH_LIMIT, fitted_columns
from scaler_protocol.monitor.format import display_width, format_value, left, right
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.tables import Column, Row, TableSpec
from scaler_scheduler.top.lines import Line, Span, Style

_ROW_STYLES = {
    "failed": Style.BAD,
    "canceled": Style.WARNING,
}


@dataclass(frozen=True, slots=True)
class ScreenGrid:
    """Columns with the widths they got."""

    columns: tuple[tuple[int, Column, int], ...]
    """The position of the column in a row, the column, its width."""

    sort_key: str
    descending: bool

    def header(self) -> Line:
        spans: list[Span] = []
        for _, column, width in self.columns:
            sorted_by = column.key == self.sort_key
            title = f"[{column.title}]" if sorted_by else column.title
            spans += [Span(" ", Style.HEADER)] if spans else []
            spans.append(Span(_placed(column, title, width), Style.SORTED if sorted_by else Style.HEADER))
        return tuple(spans)

    def line(
        self, row: Row, style: Style = Style.PLAIN, link_of: Callable[[Column], EntityLink | None] | None = None
    ) -> Line:
        """``link_of``: the links of its cells."""
        spans: list[Span] = []
        for position, column, width in self.columns:
            text = _placed(column, format_value(column.kind, row[position]), width)
            spans += [Span(" ", style)] if spans else []
            link = link_of(column) if link_of is not None else None
            spans.append(Span(text, _cell_style(column, row[position]) if style is Style.PLAIN else style, link))
        return tuple(spans)


def grid_of(table: TableSpec, rows: Sequence[Row], sort_key: str, descending: bool, width: int) -> ScreenGrid:
    """Widths for these rows: numbers as wide as they are, the rest for texts."""
    ideals = [_ideal(column, position, rows, sort_key) for position, column in enumerate(table.columns)]
    blank = [position for position, column in enumerate(table.columns) if rows and not _widest(column, position, rows)]
    fitted = fitted_columns(table, ideals, sort_key, width, blank=blank)
    columns = [(position, table.columns[position], got) for position, got in fitted]
    return ScreenGrid(tuple(columns), sort_key, descending)


def _ideal(column: Column, position: int, rows: Sequence[Row], sort_key: str) -> int:
    title = len(column.title) + (2 if column.key == sort_key else 0)
    return max(title, min(_widest(column, position, rows), TEXT_WIDTH_LIMIT))


def _widest(column: Column, position: int, rows: Sequence[Row]) -> int:
    return max((display_width(format_value(column.kind, row[position])) for row in rows), default=0)


def _placed(column: Column, text: str, width: int) -> str:
    return left(text, width) if column.align == "left" else right(text, width)


def _cell_style(column: Column, value: object) -> Style:
    if column.key in _ROW_STYLES and value:
        return _ROW_STYLES[column.key]
    if column.key == "status" and value != "succeeded":
        return Style.WARNING if value == "cancelled" else Style.BAD
    return Style.DIM if value in (0, "", "-") else Style.PLAIN
