"""Qt without a screen, a window with a made-up cluster, and no exception in a slot that goes unseen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_LOGGING_RULES", "qt.qpa.*=false")

try:
    import PySide6.QtWidgets  # noqa: F401
    from PySide6.QtCore import QEvent
    from pytestqt.exceptions import capture_exceptions, format_captured_exceptions
    from pytestqt.qt_compat import qt_api
    from pytestqt.qtbot import QtBot, _close_widgets
except ImportError:  # test_qt says so
    collect_ignore_glob = ["test_[!q]*.py"]

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from scaler_gui.main_window import MainWindow
    from scaler_gui.monitor import Monitor


@pytest.fixture(scope="session")
def qapp() -> Iterator[QApplication]:
    from PySide6.QtWidgets import QApplication

    qt_api.set_qt_api("pyside6")
    application = QApplication.instance() or QApplication(["scaler_gui"])
    assert isinstance(application, QApplication)
    application.setQuitOnLastWindowClosed(False)
    yield application


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> Iterator[QtBot]:
    with capture_exceptions() as exceptions:
        yield QtBot(request)
        _close_widgets(request.node)
        qapp.processEvents()
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # type: ignore[arg-type]
    assert not exceptions, format_captured_exceptions(exceptions)


@pytest.fixture
def settings_path(tmp_path: Path) -> str:
    return str(tmp_path / "settings.ini")


@pytest.fixture
def monitor(qapp: QApplication) -> Iterator[Monitor]:
    from scaler_gui.monitor import Monitor

    made = Monitor()
    yield made
    made.close()


@pytest.fixture
def window(qtbot: QtBot, monitor: Monitor, settings_path: str) -> MainWindow:
    """Shown, and not connected."""
    return make_window(qtbot, monitor, settings_path)


@pytest.fixture
def busy_window(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> MainWindow:
    """With ten seconds of a made-up cluster of 12 workers."""
    from scaler_gui.models.recent import RecentAddress

    window.monitor.connect_to(RecentAddress(f"ipc://{tmp_path}/monitor"))
    feed(window.monitor, seconds=10)
    qtbot.wait(1)
    return window


def make_window(qtbot: QtBot, monitor: Monitor, settings_path: str) -> MainWindow:
    from PySide6.QtCore import QSettings

    from scaler_gui.main_window import MainWindow

    window = MainWindow(monitor, QSettings(settings_path, QSettings.Format.IniFormat))
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


def feed(monitor: Monitor, seconds: float = 10.0, workers: int = 12, tasks_per_second: int = 500) -> None:
    from scaler_protocol.monitor.model import Model
    from tests.support.monitor_stream import synthetic_messages

    model = Model(time.monotonic())
    for message in synthetic_messages(seconds, workers, tasks_per_second):
        model.apply(message, time.monotonic())
    monitor.show(model)
