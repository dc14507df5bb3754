"""No message that can be encoded ends the window, or an exception would fail these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.hostile import Hostile

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from scaler_gui.main_window import MainWindow


@pytest.mark.parametrize("seed", range(4))
def test_every_view_shows_a_hostile_stream(window: MainWindow, qtbot: QtBot, seed: int) -> None:
    hostile = Hostile(seed)
    for _ in range(6):
        for _ in range(10):
            window.monitor.take(hostile.message())
        for name, pane in window.docks.panes.items():
            window.docks.go_to(name)
            pane.refresh()
            pane.grab()
        qtbot.wait(1)
