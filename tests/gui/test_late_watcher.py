"""A window that is opened when tasks have ended already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.monitor.messages import Snapshot
from tests.support.monitor_stream import synthetic_messages

if TYPE_CHECKING:
    from scaler_gui.main_window import MainWindow


def test_a_log_that_starts_late_says_so(window: MainWindow) -> None:
    last = [message for message in synthetic_messages(3.0, 4, 400) if isinstance(message, Snapshot)][-1]
    window.monitor.take(last)
    window.docks.go_to("tasks")
    pane = window.docks.panes["tasks"]
    pane.refresh()
    assert pane._count.text().startswith("0 here; ")  # type: ignore[attr-defined]
    assert pane._count.text().endswith(" tasks ended in all; the earliest are not listed")  # type: ignore[attr-defined]
