"""A window with all that is known of one task, worker, host, client, function or graph. Its links lead to others."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from scaler_gui.models.entity_text import entity_html, link_of
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_protocol.monitor.links import EntityLink

_SIZE = (860, 620)


class EntityWindow(QDialog):
    """Follows the monitor while it is open."""

    def __init__(self, monitor: Monitor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.monitor = monitor
        self.theme: Theme = LIGHT
        self._visited: list[EntityLink] = []
        self._html = ""
        self.text = QTextBrowser()
        self.text.setOpenLinks(False)
        self.text.setAccessibleName("All that is known of it")
        self.text.anchorClicked.connect(self._follow)
        self.back = QPushButton("&Back")
        self.back.clicked.connect(self.go_back)
        close = QPushButton("&Close")
        close.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.addWidget(self.back)
        buttons.addStretch(1)
        buttons.addWidget(close)
        box = QVBoxLayout(self)
        box.addWidget(self.text)
        box.addLayout(buttons)
        self.resize(*_SIZE)

    def visit(self, link: EntityLink) -> None:
        """Show this page; Back leads to the one before."""
        self._visited.append(link)
        self._html = ""
        self.refresh()
        self.text.verticalScrollBar().setValue(0)
        self.show()
        self.raise_()
        self.text.setFocus(Qt.FocusReason.OtherFocusReason)

    def go_back(self) -> None:
        if len(self._visited) > 1:
            self._visited.pop()
            self.visit(self._visited.pop())

    def refresh(self) -> None:
        """Show what the model says now; the text stays where it was scrolled to."""
        if not self._visited:
            return
        link = self._visited[-1]
        self.back.setEnabled(len(self._visited) > 1)
        self.setWindowTitle(f"{link.kind.capitalize()} {link.key[-1][:80]}")
        html = entity_html(self.monitor.model, link, self.theme)
        if html == self._html or self.text.textCursor().hasSelection():
            return
        self._html = html
        across, down = self.text.horizontalScrollBar(), self.text.verticalScrollBar()
        places = across.value(), down.value()
        self.text.setHtml(html)
        across.setValue(places[0])
        down.setValue(places[1])

    def _follow(self, address: QUrl) -> None:
        link = link_of(address.toString())
        if link is not None:
            self.visit(link)
