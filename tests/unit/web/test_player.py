"""The time scrubber: which moment of a recording is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from scaler_protocol.monitor.messages import MonitorMessage
from scaler_protocol.monitor.replay import Replay
from scaler_scheduler.web.player import Player
from scaler_scheduler.web.status import replay_status
from tests.support.monitor_stream import START_TIME, synthetic_messages

SECONDS = 20


class Recording:
    """What a folder of event logs says, without the files."""

    def __init__(self) -> None:
        self._messages = list(synthetic_messages(SECONDS, 4, 100))
        self.start, self.end = START_TIME, START_TIME + SECONDS
        self.problems: list[str] = []

    def messages(self, start: float, stop: float) -> Iterator[MonitorMessage]:
        return (each for each in self._messages if (start < each.time or start <= self.start) and each.time <= stop)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def player(recording: Recording) -> Player:
    made = Player(cast(Replay, recording))
    made.advance(0.0)
    return made


def moment(player: Player) -> float:
    return round(player.position - START_TIME, 6)


def test_it_plays_from_the_start_at_its_speed_and_stands_at_the_end(player: Player) -> None:
    assert moment(player) == 0
    player.advance(2.0)
    assert moment(player) == 2
    player.control({"speed": 4})
    player.advance(1.0)
    assert moment(player) == 6
    player.advance(100.0)
    assert (moment(player), player.playing, player.is_at_end) == (SECONDS, False, True)
    player.control({"play": True})
    player.advance(0.0)
    assert (moment(player), player.playing) == (0, True)


def test_a_paused_one_stands(player: Player) -> None:
    player.control({"play": False})
    player.advance(5.0)
    assert moment(player) == 0
    player.control({"seek": START_TIME + 3})
    player.advance(5.0)
    assert moment(player) == 3


@pytest.mark.parametrize("path", [(12.0,), (20.0, 12.0), (3.0, 12.0), (12.0, 15.0, 0.0, 12.0)])
def test_a_moment_looks_the_same_however_one_came_there(recording: Recording, player: Player, path: Any) -> None:
    for second in path:
        player.control({"seek": START_TIME + second})
        player.advance(0.0)
    other = Player(cast(Replay, recording))
    other.advance(0.0)
    other.advance(12.0)
    assert moment(player) == moment(other) == 12
    assert player.model.rows("tasks") == other.model.rows("tasks")
    assert player.model.history("running") == other.model.history("running")


def test_of_many_wishes_the_last_counts_and_none_is_outside(player: Player) -> None:
    for second in range(1, 15):
        player.control({"seek": START_TIME + second})
    player.advance(0.0)
    assert moment(player) == 14
    player.control({"seek": 0})
    player.advance(0.0)
    assert moment(player) == 0
    player.control({"seek": 1e12})
    player.advance(0.0)
    assert moment(player) == SECONDS
    for nonsense in ({"seek": "x"}, {"speed": None}):
        with pytest.raises((ValueError, TypeError)):
            player.control(nonsense)


def test_the_page_is_told_where_it_stands(recording: Recording, player: Player) -> None:
    player.advance(1.5)
    recording.problems.append("1700000000-7.events: its end is cut off")
    status = replay_status(player, "/tmp/log")
    assert status["replay"]["position"] == START_TIME + 1.5
    assert status["notices"] == [("warning", "1700000000-7.events: its end is cut off. The rest is shown.")]
    assert status["facts"][0] == ("/tmp/log", False)
