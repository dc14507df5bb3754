"""The table widget of all panes: sorts by header or key, keeps its selection, copies rows."""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView

from scaler_gui.models.table import TableModel
from scaler_protocol.monitor.column_widths import TEXT_WIDTH_LIMIT, CellSize, fitted_columns
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.operation import ACTION_LABELS, Operation, targets_of

ROW_HEIGHT_PIXELS = 22
_MARGINS_PIXELS = 16
_FITTED_ROWS = 40
"""Number of rows from which on widths stay as they are."""


class TableWidget(QTableView):
    """``row_selected`` gives the row under the cursor whenever it, or what it says, changes."""

    row_selected = Signal(object)
    opened = Signal(object)
    """Gives the row that was double-clicked, or chosen with Enter."""

    acted = Signal(object)
    """Gives the Operation that was chosen in the menu of a row."""

    def __init__(self, model: TableModel) -> None:
        super().__init__()
        self.table = model
        self._selected: tuple[Any, ...] | None = None
        self._restoring = False
        self._fitted_rows = 0
        self._ideals: list[int] = []  # widths at which nothing is cut
        self._blank: list[int] = []  # columns without values
        self._fitting = False
        self.setModel(model)
        self._set_looks()
        self._set_header()
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.doubleClicked.connect(lambda index: self.opened.emit(self.table.row(index.row())))
        self._is_users = False
        self.empty_text = ""

    def refresh(self) -> None:
        """Read again; the selected row stays selected wherever it stands now."""
        self.table.refresh()
        rows = min(self.table.rowCount(), _FITTED_ROWS)
        if rows > self._fitted_rows or self._has_new_column():
            self._fit_columns(rows)
        self._restore_selection()

    def sort_by(self, column: int) -> None:
        self.table.sort_by(column)
        self._restore_selection()

    @property
    def selected_row(self) -> tuple[Any, ...] | None:
        index = self.currentIndex()
        return self.table.row(index.row()) if index.isValid() else None

    def copy(self) -> None:
        """Selected rows to the clipboard, as text with tabs."""
        columns = self.table.spec.columns
        rows = [self.table.row(index.row()) for index in self.selectionModel().selectedRows()]
        lines = [
            "\t".join(format_value(column.kind, value) for column, value in zip(columns, row, strict=True))
            for row in rows
            if row is not None
        ]
        QGuiApplication.clipboard().setText("\n".join(lines))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.text() == "s" and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self.sort_by(max(0, self.currentIndex().column()))
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.selected_row is not None:
            self.opened.emit(self.selected_row)
        elif event.key() == Qt.Key.Key_Menu:
            self._show_menu(self.visualRect(self.currentIndex()).center())
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        super().paintEvent(event)
        if not self.table.rowCount() and self.empty_text:
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect().adjusted(12, 12, -12, -12), int(flags), self.empty_text)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """Hide the least important columns if there is no room, and cut texts, unless the user has chosen columns or
        widths."""
        if self._is_users:
            return
        self._fitting = True
        spec, room = self.table.spec, self.viewport().width()
        size = CellSize(self.fontMetrics().horizontalAdvance("0"), _MARGINS_PIXELS, gap=0)
        fitted = dict(fitted_columns(spec, self._ideals, self.table.sort_key, room, size, self._blank))
        last = max(fitted, key=self.horizontalHeader().visualIndex)
        if spec.columns[last].align == "left":
            fitted[last] += max(0, room - sum(fitted.values()))
        for number in range(len(self._ideals)):
            self.setColumnHidden(number, number not in fitted)
        for number, width in fitted.items():
            self.horizontalHeader().resizeSection(number, width)
        self._fitting = False

    def _set_looks(self) -> None:
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)  # Tab leaves the table
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(self.table.spec.title)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(max(ROW_HEIGHT_PIXELS, self.fontMetrics().height() + 6))

    def _set_header(self) -> None:
        header = self.horizontalHeader()
        header.setSectionsMovable(True)
        header.setSectionsClickable(True)
        header.setHighlightSections(False)
        header.setStretchLastSection(False)  # _share_width does it: the header would resize columns at any time
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._show_columns_menu)
        header.sectionClicked.connect(self.sort_by)
        width = self.fontMetrics().horizontalAdvance("0")
        self._ideals = [
            max(self._title_width(column.title), width * column.width + _MARGINS_PIXELS)
            for column in self.table.spec.columns
        ]
        header.sectionResized.connect(self._on_resized)

    def _fit_columns(self, rows: int) -> None:
        """Fit the columns to the first rows that arrive; as soon as the user changes one, widths are the user's."""
        self._fitted_rows = rows
        self.horizontalHeader().setResizeContentsPrecision(_FITTED_ROWS)
        most = TEXT_WIDTH_LIMIT * self.fontMetrics().horizontalAdvance("0") + _MARGINS_PIXELS
        self._ideals = [
            max(self._title_width(column.title), min(self.sizeHintForColumn(number) + _MARGINS_PIXELS, most))
            for number, column in enumerate(self.table.spec.columns)
        ]
        self._blank = [number for number in range(len(self._ideals)) if not self._has_values(number)]
        self._share_width()

    def _has_values(self, number: int) -> bool:
        kind = self.table.spec.columns[number].kind
        return any(format_value(kind, row[number]) for row in self.table.read_rows())

    def _has_new_column(self) -> bool:
        """Return whether a column that was left out because it had no values has one now."""
        return not self._is_users and any(self._has_values(number) for number in self._blank)

    def _title_width(self, title: str) -> int:
        return self.fontMetrics().horizontalAdvance(title + "000") + _MARGINS_PIXELS

    def _on_resized(self) -> None:
        if not self._fitting:
            self._fitted_rows = _FITTED_ROWS
            self._is_users = True

    def _on_current(self, current: QModelIndex, previous: QModelIndex) -> None:
        if not self._restoring:
            self._selected = self.table.key_of(current.row()) if current.isValid() else None
            self.row_selected.emit(self.selected_row)

    def _restore_selection(self) -> None:
        if self._selected is None:
            return
        place = self.table.find(self._selected)
        self._restoring = True
        if place is None:
            self._selected = None
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())
        elif place != self.currentIndex().row():
            bar = self.verticalScrollBar()
            before = bar.value()
            self.setCurrentIndex(self.table.index(place, max(0, self.currentIndex().column())))
            bar.setValue(before)
        self._restoring = False
        self.row_selected.emit(self.selected_row)

    def _show_menu(self, position: QPoint) -> None:
        menu = QMenu(self)
        menu.addAction("&Copy rows", self.copy)
        column = self.columnAt(position.x())
        if column >= 0:
            title = self.table.spec.columns[column].title
            menu.addAction(f"&Sort by {title}", lambda: self.sort_by(column))
        menu.addMenu(self._columns_menu(menu))
        self._add_actions(menu)
        menu.exec(self.viewport().mapToGlobal(position))

    def operations(self) -> list[Operation]:
        """The actions on the selected row."""
        row = self.selected_row
        if row is None:
            return []
        return [Operation(action, target) for action, target in targets_of(self.table.spec, row).items()]

    def _add_actions(self, menu: QMenu) -> None:
        for number, operation in enumerate(self.operations()):
            if number == 0:
                menu.addSeparator()
            menu.addAction(f"{ACTION_LABELS[operation.action]} ...", partial(self.acted.emit, operation))

    def _choose_column(self, number: int, is_shown: bool) -> None:
        """The columns are the user's from now on."""
        self._is_users = True
        self._fitted_rows = _FITTED_ROWS
        self.setColumnHidden(number, not is_shown)

    def _show_columns_menu(self, position: QPoint) -> None:
        self._columns_menu(self).exec(self.horizontalHeader().mapToGlobal(position))

    def _columns_menu(self, parent: QTableView | QMenu) -> QMenu:
        menu = QMenu("C&olumns", parent)
        for number, column in enumerate(self.table.spec.columns):
            action = QAction(column.title, menu, checkable=True, checked=not self.isColumnHidden(number))
            action.toggled.connect(lambda shown, number=number: self._choose_column(number, shown))
            menu.addAction(action)
        return menu
