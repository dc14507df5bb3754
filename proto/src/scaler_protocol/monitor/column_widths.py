"""The columns of a table that fit on a screen, and their widths, in characters or pixels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from scaler_protocol.monitor.importance import columns_by_importance
from scaler_protocol.monitor.tables import Column, TableSpec

TEXT_WIDTH_LEAST, TEXT_WIDTH_USUAL, TEXT_WIDTH_LIMIT = 10, 24, 100
"""In characters: the least width of a text, the usual one, and the greatest."""


class CellSize(NamedTuple):
    """The width of a character, of the margins inside a cell, and of the gap between two columns."""

    character: int = 1
    margins: int = 0
    gap: int = 1


IN_CHARACTERS = CellSize()


def fitted_columns(
    table: TableSpec,
    ideals: Sequence[int],
    sort_key: str,
    width: int,
    size: CellSize = IN_CHARACTERS,
    blank: Collection[int] = (),
) -> list[tuple[int, int]]:
    """The positions and widths of the columns that have room: numbers are as wide as they are, the rest is for texts.
    One text stays in any case. ``ideals``: the widths at which nothing would be cut. ``blank``: the columns without
    values, which are left out, apart from the first one and that of the order."""
    kept = [
        number for number, each in enumerate(table.columns) if not number or each.key == sort_key or number not in blank
    ]
    for key in columns_by_importance(table, sort_key):
        usual = sum(_usual(table.columns[each], ideals[each], size) + size.gap for each in kept)
        if usual - size.gap <= width:
            break
        if table.index(key) in kept and not _is_only_text(table, table.index(key), kept):
            kept.remove(table.index(key))
    return list(zip(kept, _shared([(table.columns[each], ideals[each]) for each in kept], width, size), strict=True))


def _is_only_text(table: TableSpec, position: int, kept: Collection[int]) -> bool:
    return [each for each in kept if table.columns[each].kind == "text"] == [position]


def _usual(column: Column, ideal: int, size: CellSize) -> int:
    """Return the usual width of a column, beyond which others leave."""
    return _cut_to(min(column.width, TEXT_WIDTH_USUAL), column, ideal, size)


def _cut_to(characters: int, column: Column, ideal: int, size: CellSize) -> int:
    if column.kind != "text":
        return ideal
    return min(ideal, max(characters, len(column.title) + 2) * size.character + size.margins)


def _shared(columns: Sequence[tuple[Column, int]], width: int, size: CellSize) -> list[int]:
    """The width of each column: its usual width, or at least its minimum if there is too little room. Texts share the
    rest from left to right, evenly at first."""
    gaps = (len(columns) - 1) * size.gap
    widths = [_usual(column, ideal, size) for column, ideal in columns]
    if sum(widths) + gaps > width:
        widths = [_cut_to(min(column.width, TEXT_WIDTH_LEAST), column, ideal, size) for column, ideal in columns]
    spare = width - sum(widths) - gaps
    wanting = [index for index, (_, ideal) in enumerate(columns) if ideal > widths[index]]
    while spare > 0 and wanting:
        for index in list(wanting):
            more = min(max(1, spare // len(wanting)), columns[index][1] - widths[index], spare)
            widths[index] += more
            spare -= more
        wanting = [index for index in wanting if columns[index][1] > widths[index]]
    return widths
