"""Lists every key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QTextBrowser, QVBoxLayout, QWidget

Group = tuple[str, Sequence[tuple[str, str]]]


class HelpDialog(QDialog):
    def __init__(self, groups: Iterable[Group], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        self.resize(620, 640)
        self.text = QTextBrowser()
        self.text.setHtml("".join(_section(title, keys) for title, keys in groups))
        self.text.setFrameShape(QTextBrowser.Shape.NoFrame)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        box = QVBoxLayout(self)
        box.addWidget(self.text)
        box.addWidget(buttons)
        self.text.setFocus(Qt.FocusReason.OtherFocusReason)


def _section(title: str, keys: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr><td style='padding: 2px 18px 2px 0'><b>{_escaped(key)}</b></td><td>{_escaped(_begun(meaning))}</td></tr>"
        for key, meaning in keys
    )
    return f"<h3>{_escaped(title)}</h3><table>{rows}</table>"


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
