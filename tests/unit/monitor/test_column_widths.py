"""Which columns of a table a screen has room for, and how wide they are."""

from __future__ import annotations

import pytest

from scaler_protocol.monitor.column_widths import IN_CHARACTERS, CellSize, fitted_columns
from scaler_protocol.monitor.tables import CLIENTS, FAILURES, LOGS, TABLES, WAITS, WORKERS, TableSpec


def ideals(table: TableSpec, size: CellSize) -> list[int]:
    """Widths of usual values and of titles."""
    characters = [max(column.width, len(column.title) + 2) for column in table.columns]
    return [each * size.character + size.margins for each in characters]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
@pytest.mark.parametrize("size", [IN_CHARACTERS, CellSize(7, 16, 0)], ids=["characters", "pixels"])
def test_columns_fit_and_the_first_one_and_that_of_the_order_stay(table: TableSpec, size: CellSize) -> None:
    for width in range(60 * size.character, 300 * size.character, 7 * size.character):
        fitted = fitted_columns(table, ideals(table, size), table.default_sort, width, size)
        assert {0, table.index(table.default_sort)} <= {position for position, _ in fitted}
        assert sum(each + size.gap for _, each in fitted) - size.gap <= width or len(fitted) <= 2
    assert len(fitted_columns(table, ideals(table, size), table.default_sort, 10_000, size)) == len(table.columns)


@pytest.mark.parametrize(("table", "key"), [(LOGS, "text"), (WAITS, "reason")], ids=["logs", "waits"])
def test_long_texts_are_cut_and_not_left_out(table: TableSpec, key: str) -> None:
    long = [
        200 if column.key == key else width
        for column, width in zip(table.columns, ideals(table, IN_CHARACTERS), strict=True)
    ]
    fitted = {
        table.columns[position].key: width for position, width in fitted_columns(table, long, table.default_sort, 100)
    }
    assert fitted[key] > 24


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_texts_that_are_longer_than_usual_make_no_table_wider(table: TableSpec) -> None:
    size = CellSize(7, 16, 0)
    long = [
        width + (30 * size.character if column.kind == "text" else 0)
        for column, width in zip(table.columns, ideals(table, size), strict=True)
    ]
    for width in range(60 * size.character, 300 * size.character):
        fitted = fitted_columns(table, long, table.default_sort, width, size)
        assert sum(each for _, each in fitted) <= width or len(fitted) <= 2


def test_texts_share_what_numbers_leave() -> None:
    fitted = dict(fitted_columns(LOGS, [8, 8, 30, 30, 100, 4], "time", 120))
    assert fitted[0] == 8 and sum(width + 1 for width in fitted.values()) - 1 == 120
    assert fitted[LOGS.index("text")] > fitted[LOGS.index("log")]


def test_columns_without_values_are_left_out_except_the_first_one_and_that_of_the_order() -> None:
    numbers = range(len(WORKERS.columns))
    host, odd = WORKERS.index("host"), [each for each in numbers if each % 2]
    fitted = fitted_columns(WORKERS, [8 for _ in numbers], "host", 1000, blank=odd)
    assert [number for number, _ in fitted] == [each for each in numbers if each not in odd or each == host]
    assert [number for number, _ in fitted_columns(WORKERS, [8 for _ in numbers], "pid", 10, blank=numbers)] == [0]


@pytest.mark.parametrize(("blank", "shown"), [((), "type"), ((FAILURES.index("type"),), "message")])
def test_a_table_of_failures_shows_their_kind_however_narrow_the_screen_is(blank: tuple[int, ...], shown: str) -> None:
    fitted = fitted_columns(FAILURES, ideals(FAILURES, IN_CHARACTERS), "count", 20, blank=blank)
    assert [FAILURES.columns[position].key for position, _ in fitted] == ["count", shown]
    assert sum(width + 1 for _, width in fitted) - 1 == 20


def test_limits_that_operators_have_set_have_room_in_a_narrow_table() -> None:
    fitted = fitted_columns(CLIENTS, ideals(CLIENTS, IN_CHARACTERS), "unassigned", 100)
    shown = {CLIENTS.columns[position].key for position, _ in fitted}
    assert {"group_weight", "group_limit"} <= shown
