"""A pane: one view of the cluster, which a dock holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QVBoxLayout, QWidget

from scaler_gui.models.csv_text import write_csv
from scaler_gui.monitor import Monitor
from scaler_gui.theme import Theme

LEAST_WIDTH_PIXELS = 240
"""Narrower panes would show less than two columns of a table."""


class Pane(QWidget):
    """Reads the monitor's model when it is seen: ``refresh`` is called about once a second, and for panes that show
    single events (``shows_events``) up to three times a second, never while the pane is hidden."""

    name = ""
    title = ""
    shows_events = False
    keys: Sequence[tuple[str, str]] = ()
    """Keys of this pane and what they do, for the help."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.setObjectName(self.name)
        self.setProperty("role", "surface")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(self.title)
        self.box = QVBoxLayout(self)
        self.box.setContentsMargins(0, 0, 0, 0)
        self.box.setSpacing(0)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return super().minimumSizeHint().expandedTo(QSize(LEAST_WIDTH_PIXELS, 0))

    def refresh(self) -> None:
        """Show what the model says now."""

    def replaced(self) -> None:
        """Another model has come: another address, or another moment of a recording."""

    def show_moment(self, moment: float) -> None:
        """Show what happened at a moment, in unix seconds, if this view shows the past."""

    def set_theme(self, theme: Theme) -> None:
        """Colours that the application's style does not bring."""

    def focus(self) -> None:
        """Put the keyboard where it is most useful."""
        self.setFocus()

    def picture(self) -> QPixmap:
        return self.grab()

    def csv(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]] | None:
        """A header and rows; None when a table says nothing about this view."""
        return None

    def export(self, path: str) -> None:
        """Write a PNG or a CSV file, by the end of its name. ValueError or OSError with a sentence."""
        kind = Path(path).suffix.lower()
        if kind == ".csv":
            table = self.csv()
            if table is None:
                raise ValueError(f"Cannot write {self.title} as a table. Choose a name that ends in .png.")
            write_csv(path, *table)
        elif kind == ".png":
            if not self.picture().save(path, "PNG"):
                raise OSError(f"Cannot write {path}.")
        else:
            raise ValueError(f"Cannot write {path}: the type is unknown. Choose a name that ends in .png or .csv.")
