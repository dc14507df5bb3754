"""A window with all that is known of one task, worker, host, client, function or graph. Its links lead to others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QDialog, QHBoxLayout, QMenu, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from scaler_gui.models.entity_text import entity_html, link_of
from scaler_gui.monitor import Monitor
from scaler_gui.theme import LIGHT, Theme
from scaler_gui.views.asking import ask
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.entity_actions import targets_of_page
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.operation import ACTION_LABELS, Action, Operation

_SIZE = (860, 620)
_TITLE_LIMIT = 80


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
        self.actions_button = QPushButton("&Actions")
        self.actions_button.setMenu(QMenu(self))
        self._targets: Mapping[Action, str] = {}
        close = QPushButton("&Close")
        close.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.addWidget(self.back)
        buttons.addStretch(1)
        buttons.addWidget(self.actions_button)
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
        self.setWindowTitle(f"{link.kind.capitalize()} {short_text(link.key[-1], _TITLE_LIMIT)}")
        self._offer(targets_of_page(link, page_of(self.monitor.model, link)))
        html = entity_html(self.monitor.model, link, self.theme)
        if html == self._html or self.text.textCursor().hasSelection():
            return
        self._html = html
        across, down = self.text.horizontalScrollBar(), self.text.verticalScrollBar()
        places = across.value(), down.value()
        self.text.setHtml(html)
        across.setValue(places[0])
        down.setValue(places[1])

    def _offer(self, targets: Mapping[Action, str]) -> None:
        """The menu stays as it is, perhaps open, while the actions are the same."""
        self.actions_button.setEnabled(bool(targets))
        if targets == self._targets:
            return
        self._targets = targets
        menu = self.actions_button.menu()
        menu.clear()
        for action, target in targets.items():
            menu.addAction(f"{ACTION_LABELS[action]} ...", partial(ask, Operation(action, target), self.monitor, self))

    def _follow(self, address: QUrl) -> None:
        link = link_of(address.toString())
        if link is not None:
            self.visit(link)
