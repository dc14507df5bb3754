"""The line about trouble at the top of the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel


class Banner(QLabel):
    """Wraps its text in narrow windows, and needs the height of all its lines: layouts of windows would let the views
    below it overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "banner")
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.hide()

    def say(self, text: str) -> None:
        """Show the text; hide the line if it is empty."""
        self.setText(text)
        self._claim_height()
        self.setVisible(bool(text))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._claim_height()

    def _claim_height(self) -> None:
        self.setMinimumHeight(max(0, self.heightForWidth(self.width())))
