"""Numbers that are always in sight, next to each other; in several rows where one row is too narrow for all."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from scaler_gui.models.overview import Figure
from scaler_gui.models.tips import plain_tip

_NUMBER_WIDTH = 56
_SPACING = 18
_MARGIN = 10
_MOST_ROWS = 4


class FigureRow(QWidget):
    def __init__(self, figures: Sequence[Figure]) -> None:
        super().__init__()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(_MARGIN, 8, _MARGIN, 4)
        self._grid.setHorizontalSpacing(_SPACING)
        self._grid.setVerticalSpacing(4)
        self._numbers: dict[str, tuple[QFrame, QLabel]] = {}
        self._cards = [self._card(each) for each in figures]
        self._columns = 0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._arrange()

    def show_figures(self, figures: Sequence[Figure]) -> None:
        for each in figures:
            self._show(*self._numbers[each.title], each)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._needed(-(-len(self._cards) // _MOST_ROWS)), super().minimumSizeHint().height())

    def _card(self, figure: Figure) -> QFrame:
        card = QFrame()
        box = QVBoxLayout(card)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        number, title = QLabel(figure.text), QLabel(figure.title)
        number.setProperty("role", "number")
        number.setMinimumWidth(max(_NUMBER_WIDTH, number.sizeHint().width()))
        title.setProperty("role", "muted")
        box.addWidget(number)
        box.addWidget(title)
        card.setToolTip(plain_tip(figure.help))
        self._numbers[figure.title] = card, number
        return card

    def _show(self, card: QFrame, number: QLabel, figure: Figure) -> None:
        """Numbers change each second, and their neighbors should not move with them: widths only grow."""
        if number.text() != figure.text:
            number.setText(figure.text)
            number.setMinimumWidth(max(number.minimumWidth(), number.sizeHint().width()))
        card.setToolTip(plain_tip(figure.help))
        if number.property("tone") != figure.tone:
            number.setProperty("tone", figure.tone)
            number.style().polish(number)

    def _arrange(self) -> None:
        """Arrange the figures in as few rows as have room."""
        count = len(self._cards)
        fitting = [-(-count // rows) for rows in range(1, _MOST_ROWS + 1)]
        columns = next((each for each in fitting if self._needed(each) <= self.width()), fitting[-1])
        if columns == self._columns:
            return
        self._grid.setColumnStretch(self._columns, 0)
        self._columns = columns
        for place, card in enumerate(self._cards):
            self._grid.addWidget(card, place // columns, place % columns)
        self._grid.setColumnStretch(columns, 1)
        self.updateGeometry()

    def _needed(self, columns: int) -> int:
        """Return how wide so many columns are."""
        widths = [card.sizeHint().width() for card in self._cards]
        return sum(max(widths[column::columns]) + _SPACING for column in range(columns)) - _SPACING + 2 * _MARGIN
