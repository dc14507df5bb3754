"""A table, and below it the whole text of the selected row."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit, QSplitter

from scaler_gui.monitor import Monitor
from scaler_gui.views.table_pane import TablePane
from scaler_protocol.monitor.tables import Row, TableSpec


class DetailsPane(TablePane):
    """``text_of`` gives the text of a row. As long as no row is selected, that of the first one is shown."""

    def __init__(
        self, monitor: Monitor, spec: TableSpec, text_of: Callable[[Row], str], shows_events: bool = False
    ) -> None:
        super().__init__(monitor, spec, shows_events=shows_events)
        self._text_of = text_of
        self.details = QPlainTextEdit()
        self.details.setReadOnly(True)
        self.details.setAccessibleName(f"Details: {self.title}")
        self.details.setTabChangesFocus(True)
        self.splitter = QSplitter(Qt.Orientation.Vertical)
        self.splitter.addWidget(self.view)
        self.splitter.addWidget(self.details)
        self.splitter.setSizes([400, 100])
        self.box.addWidget(self.splitter, 1)
        self.view.row_selected.connect(self.show_details)

    def refresh(self) -> None:
        super().refresh()
        if self.view.selected_row is None:
            self.show_details(None)

    def show_details(self, row: Row | None) -> None:
        row = row or self.table.row(0)
        text = "" if row is None else self._text_of(row)
        if text != self.details.toPlainText():
            self.details.setPlainText(text)


def column_text(spec: TableSpec, key: str) -> Callable[[Row], str]:
    """Return a function that gives the text in a column of a row."""
    place = spec.index(key)
    return lambda row: str(row[place])
