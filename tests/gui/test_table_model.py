"""The table model: sorted, filtered, and read in pages as it is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor

from scaler_gui.models.table import PAGE_ROWS, VALUE_ROLE, TableModel
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor.tables import FUNCTIONS, HOSTS, TASKS, WORKERS, Row
from tests.gui.conftest import feed


class ManyRows:
    """A million tasks, made when they are asked for."""

    def __init__(self, total: int = 1_000_000) -> None:
        self.total = total
        self.read: list[tuple[int, int]] = []

    def rows(
        self, table: str, filter_text: str, sort_key: str, descending: bool, offset: int, limit: int
    ) -> tuple[Sequence[Row], int]:
        self.read.append((offset, limit))
        numbers = range(offset, min(offset + limit, self.total))
        return [(1.0, n, "s", "f", "succeeded", 0.1, "h", "w", 1) for n in numbers], self.total


def text(model: TableModel, row: int, key: str) -> str:
    return model.data(model.index(row, model.spec.index(key)))


def test_a_million_rows_are_read_page_by_page(qapp: object) -> None:
    source = ManyRows()
    model = TableModel(TASKS, source)
    model.refresh()
    assert model.rowCount() == 1_000_000
    assert text(model, 999_999, "task") == "999999"
    assert len(source.read) == 2 and all(limit == PAGE_ROWS for _, limit in source.read)


def test_a_refresh_reads_again_only_what_is_looked_at(qapp: object) -> None:
    source = ManyRows()
    model = TableModel(TASKS, source)
    model.refresh()
    source.read.clear()
    model.refresh()
    assert text(model, 10, "task") == "10"
    assert source.read == [(0, PAGE_ROWS)]


def test_fewer_rows_than_before(qapp: object) -> None:
    source = ManyRows(1000)
    model = TableModel(TASKS, source)
    model.refresh()
    removed: list[tuple[int, int]] = []
    model.rowsRemoved.connect(lambda parent, first, last: removed.append((first, last)))
    source.total = 3
    model.refresh()
    assert (model.rowCount(), model.total, removed) == (3, 3, [(3, 999)])
    assert model.row(500) is None and model.data(model.index(2, 0)) is not None


def test_order_follows_the_column(monitor) -> None:  # type: ignore[no-untyped-def]
    feed(monitor)
    model = TableModel(FUNCTIONS, monitor)
    model.sort_by(FUNCTIONS.index("name"))
    names = [text(model, row, "name") for row in range(model.rowCount())]
    assert names == sorted(names, key=str.casefold)
    model.sort_by(FUNCTIONS.index("name"))
    assert [text(model, row, "name") for row in range(model.rowCount())] == names[::-1]
    model.sort_by(FUNCTIONS.index("finished"))
    counts = [model.value(row, "finished") for row in range(model.rowCount())]
    assert counts == sorted(counts, reverse=True)
    assert model.headerData(FUNCTIONS.index("finished"), Qt.Orientation.Horizontal) == "finished ▾"


def test_a_filter_leaves_matching_rows(monitor) -> None:  # type: ignore[no-untyped-def]
    feed(monitor)
    model = TableModel(WORKERS, monitor)
    model.set_filter("node-1")
    assert 0 < model.total < 12
    assert all("node-1" in model.value(row, "host") for row in range(model.total))
    model.set_filter("no such worker")
    assert model.rowCount() == 0


def test_values_are_written_as_on_other_screens(monitor) -> None:  # type: ignore[no-untyped-def]
    feed(monitor)
    model = TableModel(WORKERS, monitor)
    model.refresh()
    column = WORKERS.index("rss")
    index = model.index(0, column)
    assert model.data(index).endswith(" MiB")
    assert model.data(index, VALUE_ROLE) == model.value(0, "rss")
    assert model.data(index, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
    assert model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) == "its own memory"


def test_the_worst_of_several_states_has_its_colour(monitor) -> None:  # type: ignore[no-untyped-def]
    pane = TablePane(monitor, HOSTS)
    theme, row = pane._theme, [""] * len(HOSTS.columns)
    for state, colour in (("paused; draining", theme.warning), ("draining; lost", theme.bad), ("connected", None)):
        row[HOSTS.index("state")] = state
        found = pane._style(tuple(row), "state", Qt.ItemDataRole.ForegroundRole)
        assert (found.name() if found is not None else None) == (QColor(colour).name() if colour is not None else None)


def test_a_row_is_found_by_its_key(monitor) -> None:  # type: ignore[no-untyped-def]
    feed(monitor)
    model = TableModel(WORKERS, monitor)
    model.sort(WORKERS.index("pid"))
    key = model.key_of(0)
    assert key is not None
    model.sort(WORKERS.index("pid"), Qt.SortOrder.DescendingOrder)
    assert model.find(key) == 11
    assert model.find(("elsewhere", 1, "x")) is None


def test_a_table_is_no_tree(qapp: object) -> None:
    model = TableModel(TASKS, ManyRows(5))
    model.refresh()
    assert model.rowCount(model.index(0, 0)) == 0 and model.columnCount(model.index(0, 0)) == 0
    assert model.rowCount(QModelIndex()) == 5
