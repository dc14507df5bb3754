"""The time bar of a recording: play, stand, jump, faster, slower."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSlider, QToolButton, QToolTip, QWidget

from scaler_gui.models.time_axis import span_text
from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.palette import FAILED_COLOUR
from scaler_protocol.monitor.player import Player

_STEPS = 10_000
_HANDLE_PIXELS = 14
_MARKS_PER_TURN = 20


class MarkedSlider(QSlider):
    """A slider with marks below it; ``shares`` are from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.shares: Sequence[float] = ()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        super().paintEvent(event)
        painter = QPainter(self)
        for share in self.shares:
            x = _HANDLE_PIXELS // 2 + round(share * (self.width() - _HANDLE_PIXELS))
            painter.fillRect(x - 1, self.height() - 4, 2, 4, QColor(FAILED_COLOUR))


class Scrubber(QWidget):
    """Moves ``player`` and shows where it is; ``show_moment`` is called whenever it may have moved."""

    def __init__(self, actions: list[QAction]) -> None:
        super().__init__()
        self.player: Player | None = None
        self.slider = MarkedSlider()
        self.marks: FailureMarks | None = None
        self.slider.setRange(0, _STEPS)
        self.slider.setAccessibleName("Moment of the recording")
        self.slider.valueChanged.connect(self._on_slider)
        self._text = QLabel()
        self._text.setMinimumWidth(230)
        self.time = QLineEdit()
        self.time.setPlaceholderText("Go to 03:00")
        self.time.setAccessibleName("Go to a time")
        self.time.setMaximumWidth(150)
        self.time.returnPressed.connect(self._on_time)
        line = QHBoxLayout(self)
        line.setContentsMargins(8, 4, 12, 4)
        for action in actions:
            button = QToolButton()
            button.setDefaultAction(action)
            line.addWidget(button)
        line.addWidget(self.slider, 1)
        line.addWidget(self._text)
        line.addWidget(self.time)

    def show_moment(self) -> None:
        player = self.player
        self.setVisible(player is not None)
        if player is None:
            return
        self.slider.setSingleStep(max(1, int(_STEPS / max(1.0, player.end - player.start))))
        self.slider.setPageStep(max(1, int(10 * _STEPS / max(1.0, player.end - player.start))))
        if not self.slider.isSliderDown():
            self.slider.blockSignals(True)
            self.slider.setValue(round(player.fraction * _STEPS))
            self.slider.blockSignals(False)
        if self.marks is not None:
            self.marks.read(_MARKS_PER_TURN)
            self.slider.shares = tuple(self.marks.shares)
            self.slider.update()
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(player.clock))
        self._text.setText(f"{moment}  of {span_text(player.end - player.start)},  {player.speed:g} x")

    def _on_time(self) -> None:
        if self.player is None:
            return
        try:
            self.player.seek_text(self.time.text())
        except ValueError as error:
            self.time.selectAll()
            QToolTip.showText(self.time.mapToGlobal(QPoint()), str(error), self.time)
        else:
            self.time.clear()
            self.show_moment()

    def _on_slider(self, value: int) -> None:
        if self.player is not None:
            self.player.seek_fraction(value / _STEPS)
            self.show_moment()
