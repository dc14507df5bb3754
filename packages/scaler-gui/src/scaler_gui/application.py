"""The application: Qt, the window, and signals that end it cleanly."""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import TracebackType

from PySide6.QtCore import QSettings, QSocketNotifier, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from scaler_gui.config import GuiSettings
from scaler_gui.main_window import MainWindow
from scaler_gui.monitor import Monitor
from scaler_protocol.command.remedies import shortage_text

NAME = "scaler_gui"


def run_application(settings: GuiSettings) -> int:
    """Returns the exit code when its user closes the window or a signal comes."""
    QGuiApplication.setDesktopFileName(NAME)
    application = QApplication([NAME])
    application.setApplicationName(NAME)
    application.setOrganizationName("Scaler")
    stop = _StopSignals(application)
    shortage = _Shortage()
    monitor = Monitor(settings.timeout)
    window = MainWindow(monitor, QSettings(QSettings.Format.IniFormat, QSettings.Scope.UserScope, "Scaler", NAME))
    window.show()
    QTimer.singleShot(0, lambda: _begin(window, settings))
    code = application.exec()
    monitor.close()
    stop.close()
    shortage.close()
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


class _Shortage:
    """Ends the process with one sentence if it finds no memory, threads or descriptors, wherever that is: Qt would
    print a traceback each time, and continue with half a window."""

    def __init__(self) -> None:
        self._before = sys.excepthook
        sys.excepthook = self._take

    def close(self) -> None:
        sys.excepthook = self._before

    def _take(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        lack = shortage_text(error, "this process")
        if not lack:
            self._before(kind, error, traceback)
            return
        print(f"{NAME}: Cannot continue: {lack}", file=sys.stderr, flush=True)
        os._exit(2)  # a clean end needs memory, too, and libraries abort without it


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
