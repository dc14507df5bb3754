"""Notifications of the desktop: by its tray, or, where it has none, such as GNOME, by ``notify-send``. Without both,
the window asks for attention."""

from __future__ import annotations

import shutil

from PySide6.QtCore import QProcess
from PySide6.QtWidgets import QApplication, QStyle, QSystemTrayIcon, QWidget

_SHOWN_MILLISECONDS = 8000
_ATTENTION_MILLISECONDS = 5000


class Notifier:
    def __init__(self, window: QWidget) -> None:
        self._window = window
        self._tray: QSystemTrayIcon | None = None
        self.last = ""
        """The text of the last notification."""

    def tell(self, title: str, text: str) -> None:
        self.last = text
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            self._icon().showMessage(title, text, QSystemTrayIcon.MessageIcon.Warning, _SHOWN_MILLISECONDS)
        elif (command := shutil.which("notify-send")) is not None:
            QProcess.startDetached(
                command, ["--app-name=scaler_gui", f"--expire-time={_SHOWN_MILLISECONDS}", "--", title, text]
            )
        else:
            QApplication.alert(self._window, _ATTENTION_MILLISECONDS)

    def _icon(self) -> QSystemTrayIcon:
        """Made when there is something to tell: it takes a place on the desktop."""
        if self._tray is None:
            icon = self._window.style().standardIcon(QStyle.StandardPixmap.SP_ComputerIcon)
            self._tray = QSystemTrayIcon(icon, self._window)
            self._tray.messageClicked.connect(self._window.activateWindow)
        self._tray.show()
        return self._tray
