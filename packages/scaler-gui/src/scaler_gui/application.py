"""The application: Qt, the window, and signals that end it cleanly."""

from __future__ import annotations

import signal
import socket
import sys

from PySide6.QtCore import QSettings, QSocketNotifier, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from scaler_gui.config import GuiSettings
from scaler_gui.main_window import MainWindow
from scaler_gui.monitor import Monitor

NAME = "scaler_gui"


def run_application(settings: GuiSettings) -> int:
    """Returns the exit code when its user closes the window or a signal comes."""
    QGuiApplication.setDesktopFileName(NAME)
    application = QApplication([NAME])
    application.setApplicationName(NAME)
    application.setOrganizationName("Scaler")
    stop = _StopSignals(application)
    monitor = Monitor(settings.timeout)
    window = MainWindow(monitor, QSettings(QSettings.Format.IniFormat, QSettings.Scope.UserScope, "Scaler", NAME))
    window.show()
    QTimer.singleShot(0, lambda: _begin(window, settings))
    code = application.exec()
    monitor.close()
    stop.close()
    return code


def _begin(window: MainWindow, settings: GuiSettings) -> None:
    """Run the slow part of the start, once the window is shown."""
    if settings.replay is not None:
        window.replay(settings.replay)
        if settings.go_to is not None and window.monitor.player is not None:
            window.go_to_moment(settings.go_to)
    elif settings.address is not None:
        window.connect_to_address(settings.address)
    else:
        window.ask_for_address()


class _StopSignals:
    """Ends the application when a signal comes: Qt's loop would not let Python see it."""

    def __init__(self, application: QApplication) -> None:
        self._inner, self._outer = socket.socketpair()
        for end in (self._inner, self._outer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._outer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._notifier = QSocketNotifier(self._inner.fileno(), QSocketNotifier.Type.Read)
        self._notifier.activated.connect(lambda *_: self._on_signal(application))

    def close(self) -> None:
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(-1)
        self._inner.close()
        self._outer.close()

    def _on_signal(self, application: QApplication) -> None:
        """The first one closes windows, so that the layout is remembered; the next one ends at once."""
        numbers = self._inner.recv(64)
        for window in application.topLevelWidgets():
            window.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        application.exit(0)
        if len(numbers) > 1:
            sys.exit(128 + numbers[-1])
