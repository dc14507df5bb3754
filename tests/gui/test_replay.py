"""Recordings in the window: played, stopped, moved through; also when they are cut or none at all."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from scaler_gui.main_window import MainWindow
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.eventlog import EVENTS, SNAPSHOT, EventLogWriter
from scaler_protocol.monitor.messages import Snapshot
from tests.support.monitor_stream import START_TIME, synthetic_messages

SECONDS = 20.0
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    log = EventLogWriter(str(folder / "1-7.events"))
    for message in synthetic_messages(SECONDS, 4, 200):
        kind = SNAPSHOT if isinstance(message, Snapshot) else EVENTS
        log.write(kind, message.time, feed.encode(message))
    log.close()
    return folder


def ended(window: MainWindow) -> int:
    return window.monitor.model.log.total


def test_a_recording_plays(window: MainWindow, recording: Path, qtbot: QtBot) -> None:
    window.replay(str(recording))
    assert window.scrubber.isVisible() and not window.banner.isVisible()
    qtbot.waitUntil(lambda: ended(window) > 20)
    assert str(recording) in window.windowTitle()


def test_it_stands_and_goes_on_by_key(window: MainWindow, recording: Path, qtbot: QtBot) -> None:
    window.replay(str(recording))
    player = window.monitor.player
    assert player is not None and player.plays
    QTest.keyClick(window, Qt.Key.Key_Space, CONTROL)
    assert not player.plays
    before = player.position
    QTest.keyClick(window, Qt.Key.Key_Right, CONTROL)
    assert player.position == before + 10
    qtbot.waitUntil(lambda: ended(window) > 1500)
    QTest.keyClick(window, Qt.Key.Key_Period, CONTROL)
    assert player.speed == 2.0


def test_moving_back_shows_how_it_was(window: MainWindow, recording: Path, qtbot: QtBot) -> None:
    window.replay(str(recording))
    player = window.monitor.player
    assert player is not None
    player.plays = False
    window.scrubber.slider.setValue(window.scrubber.slider.maximum())
    qtbot.waitUntil(lambda: ended(window) > 3500)
    qtbot.waitUntil(lambda: window.monitor.now == pytest.approx(START_TIME + SECONDS, abs=0.5))
    window.scrubber.slider.setValue(window.scrubber.slider.maximum() // 2)
    qtbot.waitUntil(lambda: 1500 < ended(window) < 2500)
    snapshot = window.monitor.model.snapshot
    assert snapshot is not None and snapshot.time <= START_TIME + SECONDS / 2 + 0.1


def test_a_time_is_typed(window: MainWindow, recording: Path, qtbot: QtBot) -> None:
    window.replay(str(recording))
    player = window.monitor.player
    assert player is not None
    player.plays = False
    window.scrubber.time.setText(datetime.datetime.fromtimestamp(player.start + 2).isoformat())
    window.scrubber.time.returnPressed.emit()
    assert player.position == pytest.approx(player.start + 2, abs=1e-3) and not window.scrubber.time.text()
    window.scrubber.time.setText("soon")
    window.scrubber.time.returnPressed.emit()
    assert player.position == pytest.approx(player.start + 2, abs=1e-3) and window.scrubber.time.text() == "soon"


def test_a_cut_recording_plays_to_the_cut_and_says_so(window: MainWindow, recording: Path, qtbot: QtBot) -> None:
    path = next(recording.glob("*.events"))
    path.write_bytes(path.read_bytes()[:-100])
    window.replay(str(recording))
    player = window.monitor.player
    assert player is not None
    player.seek_fraction(1.0)
    qtbot.waitUntil(lambda: ended(window) > 3000)
    qtbot.waitUntil(window.banner.isVisible)
    assert path.name in window.banner.text()


def test_a_folder_without_recordings(window: MainWindow, tmp_path: Path) -> None:
    window.replay(str(tmp_path))
    assert window.banner.isVisible() and "no event logs" in window.banner.text()
    assert not window.scrubber.isVisible()
