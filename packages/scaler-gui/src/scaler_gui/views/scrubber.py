"""The time bar of a recording: play, stand, jump, faster, slower."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QToolButton, QWidget

from scaler_gui.models.time_axis import span_text
from scaler_protocol.monitor.player import Player

_STEPS = 10_000


class Scrubber(QWidget):
    """Moves ``player`` and shows where it is; ``show_moment`` is called whenever it may have moved."""

    def __init__(self, actions: list[QAction]) -> None:
        super().__init__()
        self.player: Player | None = None
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, _STEPS)
        self.slider.setAccessibleName("Moment of the recording")
        self.slider.valueChanged.connect(self._on_slider)
        self._text = QLabel()
        self._text.setMinimumWidth(230)
        line = QHBoxLayout(self)
        line.setContentsMargins(8, 4, 12, 4)
        for action in actions:
            button = QToolButton()
            button.setDefaultAction(action)
            line.addWidget(button)
        line.addWidget(self.slider, 1)
        line.addWidget(self._text)

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
        moment = time.strftime("%d %b %H:%M:%S", time.localtime(player.position))
        self._text.setText(f"{moment}  of {span_text(player.end - player.start)},  {player.speed:g} x")

    def _on_slider(self, value: int) -> None:
        if self.player is not None:
            self.player.seek_fraction(value / _STEPS)
            self.show_moment()
