"""A table of the monitor model, as Qt's views want it: sorted, filtered, and read in pages as it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from scaler_gui.models.tips import plain_tip
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.tables import Row, TableSpec

PAGE_ROWS = 256
MOST_ROWS = 2_000_000
"""More rows are not shown, because a view keeps some memory for each. The total next to the table counts them all."""

_Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()


class RowSource(Protocol):
    """The part of the monitor model that tables read."""

    def rows(
        self, table: str, filter_text: str, sort_key: str, descending: bool, offset: int, limit: int
    ) -> tuple[Sequence[Row], int]: ...


class TableModel(QAbstractTableModel):
    """Rows of one table. :meth:`refresh` reads again what is shown; ``style`` may give a row a role of its own, such
    as a colour (it is asked with the row and the name of the column)."""

    def __init__(
        self,
        spec: TableSpec,
        source: RowSource,
        style: Callable[[Row, str, int], Any] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.spec = spec
        self.sort_key = spec.default_sort
        self.descending = spec.descending
        self.filter_text = ""
        self.total = 0
        """The number of rows that match, shown or not."""

        self._source = source
        self._style = style
        self._pages: dict[int, Sequence[Row]] = {}
        self._shown = 0
        self._key = [spec.index(key) for key in spec.key]

    # ---- what users choose -------------------------------------------------------------------------------------

    def set_source(self, source: RowSource) -> None:
        self._source = source
        self.refresh()

    def set_filter(self, text: str) -> None:
        self.filter_text = text
        self.refresh()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if 0 <= column < len(self.spec.columns):
            self.sort_key = self.spec.columns[column].key
            self.descending = order == Qt.SortOrder.DescendingOrder
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.spec.columns) - 1)
            self.refresh()

    def sort_by(self, column: int) -> None:
        """Sort by this column: numbers start with the largest, texts with the first letter. The same again turns it."""
        chosen = self.spec.columns[column]
        descending = not self.descending if chosen.key == self.sort_key else chosen.align == "right"
        self.sort(column, Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder)

    @property
    def sort_column(self) -> int:
        return self.spec.index(self.sort_key)

    # ---- rows --------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Forget what was read; views ask again for what they show."""
        first = min(self._pages, default=0)
        self._pages = {}
        page, self.total = self._read(first * PAGE_ROWS, PAGE_ROWS)
        self._pages[first] = page
        self._resize(min(self.total, MOST_ROWS))
        if self._shown:
            self.dataChanged.emit(self.index(0, 0), self.index(self._shown - 1, len(self.spec.columns) - 1))

    def row(self, number: int) -> Row | None:
        """None: there is no such row any more."""
        page = number // PAGE_ROWS
        if page not in self._pages:
            self._pages[page], _ = self._read(page * PAGE_ROWS, PAGE_ROWS)
        rows = self._pages[page]
        place = number - page * PAGE_ROWS
        return rows[place] if 0 <= place < len(rows) else None

    def value(self, number: int, key: str) -> Any:
        row = self.row(number)
        return None if row is None else row[self.spec.index(key)]

    def key_of(self, number: int) -> tuple[Any, ...] | None:
        """The key that identifies the row, wherever it is later."""
        row = self.row(number)
        return None if row is None else tuple(row[index] for index in self._key)

    def find(self, key: tuple[Any, ...]) -> int | None:
        """Return where the row with this key stands now, among those that are in sight."""
        for page, rows in self._pages.items():
            for place, row in enumerate(rows):
                if tuple(row[index] for index in self._key) == key:
                    return page * PAGE_ROWS + place
        return None

    def read_rows(self) -> Iterator[Row]:
        """The rows that have been read since the last refresh: those in sight, and some around them."""
        for rows in self._pages.values():
            yield from rows

    def all_rows(self, limit: int = MOST_ROWS) -> Sequence[Row]:
        """Every row that matches, in the order shown: for exports."""
        return self._read(0, limit)[0]

    def _read(self, offset: int, limit: int) -> tuple[Sequence[Row], int]:
        return self._source.rows(self.spec.name, self.filter_text, self.sort_key, self.descending, offset, limit)

    def _resize(self, rows: int) -> None:
        """Rows come and go at the end: which row stands where is said by the values."""
        if rows > self._shown:
            self.beginInsertRows(_ROOT, self._shown, rows - 1)
            self._shown = rows
            self.endInsertRows()
        elif rows < self._shown:
            self.beginRemoveRows(_ROOT, rows, self._shown - 1)
            self._shown = rows
            self.endRemoveRows()

    # ---- what Qt asks ------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _ROOT) -> int:  # noqa: N802
        return 0 if parent.isValid() else self._shown

    def columnCount(self, parent: _Index = _ROOT) -> int:  # noqa: N802
        return 0 if parent.isValid() else len(self.spec.columns)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(self.spec.columns[index.column()].align)
        if role not in _VALUE_ROLES and self._style is None:
            return None
        row = self.row(index.row())
        if row is None:
            return None
        column = self.spec.columns[index.column()]
        if role in _VALUE_ROLES:
            value = row[index.column()]
            if role == VALUE_ROLE:
                return value
            text = format_value(column.kind, value)
            return plain_tip(text) if role == Qt.ItemDataRole.ToolTipRole else text
        return self._style(row, column.key, role) if self._style is not None else None

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.spec.columns):
            return None
        column = self.spec.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title + (_MARKS[self.descending] if column.key == self.sort_key else "")
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.help
        return _alignment(column.align) if role == Qt.ItemDataRole.TextAlignmentRole else None


_MARKS = {False: " \N{BLACK UP-POINTING SMALL TRIANGLE}", True: " \N{BLACK DOWN-POINTING SMALL TRIANGLE}"}

VALUE_ROLE = int(Qt.ItemDataRole.UserRole)
"""The value itself, where ``DisplayRole`` is its text."""

_VALUE_ROLES = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, VALUE_ROLE)


def _alignment(align: str) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if align == "right" else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
