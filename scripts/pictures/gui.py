"""Pictures of scaler_gui, drawn without a screen."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from scaler_protocol.monitor.graphs import NodeState

PICTURES = (
    ("light", "light", (1440, 900), ("workers", "failures", "stream")),
    ("dark", "dark", (1440, 900), ("functions", "waits", "graphs")),
    ("stream", "dark", (1180, 560), ("stream",)),
    ("graph", "light", (1180, 640), ("graphs",)),
)
"""Name, colours, size, and the views to bring to the front; of one view alone a picture is of it alone."""

PAST_SECONDS = 40.0
SETTLED_SECONDS = 1.5
GRAPH_SECONDS = 20.0


def take(monitor_address: str, folder: Path) -> None:
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

    from scaler_gui.main_window import MainWindow
    from scaler_gui.models.recent import RecentAddress
    from scaler_gui.monitor import Monitor

    application = QApplication(["scaler_gui"])
    monitor = Monitor()
    with tempfile.TemporaryDirectory() as home:
        window = MainWindow(monitor, QSettings(f"{home}/settings.ini", QSettings.Format.IniFormat))
        window.show()
        window.connect_to(RecentAddress(monitor_address))
        _run(PAST_SECONDS)  # charts need a past
        for name, theme, size, views in PICTURES:
            window.set_theme(theme)
            window.resize(*size)
            for view in views:
                window.docks.go_to(view)
            _run(SETTLED_SECONDS)
            if "graphs" in views:
                _wait_for_running_graph(window.docks.panes["graphs"])
            pane = window.docks.panes[views[0]]
            if len(views) == 1:
                pane.resize(*size)
                pane.refresh()
            (pane if len(views) == 1 else window).grab().save(str(folder / f"gui-{name}.png"))
        window.close()
    application.shutdown()


def _wait_for_running_graph(pane: Any) -> None:
    wanted = {NodeState.WAITING, NodeState.HANDED, NodeState.SUCCEEDED}
    until = time.monotonic() + GRAPH_SECONDS
    while not wanted <= set(pane.states) and time.monotonic() < until:
        _run(0.1)


def _run(seconds: float) -> None:
    from PySide6.QtCore import QCoreApplication, QEventLoop

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 50)
