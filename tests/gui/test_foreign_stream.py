"""Somebody else at the address: said in the banner, and the window goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zmq

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.feed import SNAPSHOT_KIND
from tests.support.monitoring import snapshot

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from scaler_gui.main_window import MainWindow


def test_another_version_and_another_program_are_one_sentence(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scaler_gui.models.recent import RecentAddress

    address = f"ipc://{tmp_path}/monitor"
    with zmq.Context() as context, context.socket(zmq.XPUB) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.bind(address)
        window.connect_to(RecentAddress(address))
        qtbot.waitUntil(lambda: bool(stranger.poll(0)), timeout=10_000)
        stranger.send_multipart([SNAPSHOT_KIND, b"hello"])
        qtbot.waitUntil(lambda: "is not a Scaler monitor stream" in window.banner.text(), timeout=10_000)
        with monkeypatch.context() as patch:
            patch.setattr(feed, "MONITOR_MAJOR", 9)
            stranger.send_multipart([SNAPSHOT_KIND, feed.encode(snapshot())])
        qtbot.waitUntil(lambda: "uses monitor protocol 9" in window.banner.text(), timeout=10_000)
        stranger.send_multipart([SNAPSHOT_KIND, feed.encode(snapshot())])
        qtbot.waitUntil(lambda: not window.banner.isVisible(), timeout=10_000)
        assert window.monitor.model.snapshot is not None
