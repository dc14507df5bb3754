"""The player of recordings: which moment is shown, how much is read for it, and what is said meanwhile."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import cast

import pytest

from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.format import format_moment
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import FeedState
from scaler_protocol.monitor.moments import find_moment
from scaler_protocol.monitor.player import LOOK_BACK_SECONDS, PROBLEM_NEW_SECONDS, SPEEDS, Player
from scaler_protocol.monitor.replay import Replay, Step
from scaler_scheduler.top.lines import cut, text_of
from scaler_scheduler.top.replay import line
from scaler_scheduler.top.source import Recording as Screens
from tests.support.monitor_stream import START_TIME, synthetic_messages

SECONDS = 20
LOOKED_THROUGH = 5


class Recording:
    """What a folder of event logs says, without the files. ``read`` counts frames."""

    def __init__(self, seconds: float = SECONDS, tasks_per_second: int = 100) -> None:
        self._messages = list(synthetic_messages(seconds, 4, tasks_per_second))
        self.start, self.end = START_TIME, START_TIME + seconds
        self.problems: list[str] = []
        self.read = 0
        self._read_to: float | None = None

    def find(self, text: str) -> float:
        return find_moment(text, self.start, self.end)

    def clock_at(self, moment: float) -> float:
        return moment

    def steps(self, start: float, stop: float) -> Iterator[Step]:
        for step in self._steps(start, stop):
            self.read += 1
            yield step

    def _steps(self, start: float, stop: float) -> Iterator[Step]:
        if self._read_to != start:
            yield from (Step(START_TIME) for _ in range(LOOKED_THROUGH))
        for each in self._messages:
            if (start < each.time or start <= self.start) and each.time <= stop:
                yield Step(each.time, each)
        self._read_to = stop


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def player(recording: Recording) -> Player:
    return arrived(Player(cast(Replay, recording)))


def test_a_time_is_gone_to_as_people_write_it(player: Player) -> None:
    moment = datetime.datetime.fromtimestamp(player.start + 2)
    player.seek_text(moment.isoformat())
    assert player.position == player.start + 2
    for unknown in ("soon", f"{moment + datetime.timedelta(hours=1):%H:%M:%S}"):
        with pytest.raises(ValueError, match="Cannot"):
            player.seek_text(unknown)
    assert player.position == player.start + 2


def test_the_prompt_of_the_terminal_goes_to_a_time(player: Player) -> None:
    source = Screens(player, cast(FailureMarks, None))
    assert source.go_to(f"{datetime.datetime.fromtimestamp(player.start + 3):%H:%M:%S}") is None
    assert int(player.position) == int(player.start + 3)


def arrived(player: Player) -> Player:
    while player.read():
        pass
    return player


def passed(player: Player, seconds: float) -> None:
    player.advance(seconds)
    arrived(player)


def moment(player: Player) -> float:
    return round(player.position - START_TIME, 6)


def test_it_plays_from_the_start_at_its_speed_and_stands_at_the_end(player: Player) -> None:
    assert moment(player) == 0
    passed(player, 2.0)
    assert moment(player) == 2
    player.set_speed(4)
    passed(player, 1.0)
    assert (moment(player), player.fraction) == (6, 6 / SECONDS)
    passed(player, 100.0)
    assert (moment(player), player.plays, player.is_at_end, player.fraction) == (SECONDS, False, True, 1.0)
    passed(player, 100.0)
    assert moment(player) == SECONDS
    player.toggle()
    arrived(player)
    assert (moment(player), player.plays) == (0, True)
    assert player.model.time == START_TIME


def test_a_paused_one_stands_and_still_jumps(player: Player) -> None:
    player.toggle()
    passed(player, 5.0)
    assert (moment(player), player.plays) == (0, False)
    player.seek(START_TIME + 3)
    passed(player, 5.0)
    assert moment(player) == 3


def test_a_jump_stays_inside(player: Player) -> None:
    player.seek_fraction(2.0)
    assert moment(player) == SECONDS
    player.seek(0.0)
    assert moment(player) == 0


def test_speeds_have_steps_and_bounds(player: Player) -> None:
    player.change_speed(1)
    assert player.speed == 2.0
    player.change_speed(-2)
    assert player.speed == 0.5
    player.set_speed(64)
    player.change_speed(1)
    assert player.speed == 120.0
    player.set_speed(64)
    player.change_speed(-1)
    assert player.speed == 60.0
    for steps, bound in ((-100, SPEEDS[0]), (100, SPEEDS[-1])):
        player.change_speed(steps)
        assert player.speed == bound
    player.set_speed(1e9)
    assert player.speed == SPEEDS[-1]


@pytest.mark.parametrize("path", [(12.0,), (20.0, 12.0), (3.0, 12.0), (12.0, 15.0, 0.0, 12.0), (1.0, 0.0, 12.0)])
@pytest.mark.parametrize("read_between", [0, 1, 7, 1000])
def test_a_moment_looks_the_same_however_one_came_there(
    recording: Recording, player: Player, path: tuple[float, ...], read_between: int
) -> None:
    for second in path:
        player.seek(START_TIME + second)
        for _ in range(read_between):
            player.read()
    arrived(player)
    other = arrived(Player(cast(Replay, Recording())))
    passed(other, 12.0)
    assert moment(player) == moment(other) == 12
    assert player.now == other.now == START_TIME + 12
    assert player.model.rows("tasks") == other.model.rows("tasks")
    assert player.model.history("running") == other.model.history("running")
    assert player.model.activity.missed == 0


def test_a_moment_far_away_has_its_past_and_no_more() -> None:
    long = LOOK_BACK_SECONDS * 3
    player = arrived(Player(cast(Replay, Recording(long, 1))))
    for share in (1.0, 0.5, 1.0):
        player.seek_fraction(share)
        arrived(player)
        times, _ = player.model.history("running")
        assert times[0] == pytest.approx(player.position - LOOK_BACK_SECONDS, abs=2)
        assert times[-1] == pytest.approx(player.position, abs=1)


def test_a_slightly_later_moment_after_a_jump_is_read_on_to(recording: Recording, player: Player) -> None:
    player.seek(START_TIME + 10)
    arrived(player)
    model, before = player.model, recording.read
    player.seek(START_TIME + 11)
    arrived(player)
    assert player.model is model
    assert recording.read - before == sum(10 < each.time - START_TIME <= 11 for each in recording._messages)


def test_one_frame_is_read_at_a_time_and_the_old_moment_stays_until_all_is_there(
    recording: Recording, player: Player
) -> None:
    player.seek_fraction(1.0)
    arrived(player)
    before, read, turns = player.model, recording.read, 0
    player.seek(START_TIME + 10)
    while player.read():
        turns += 1
        assert recording.read - read <= turns
        assert (player.model, player.now) == (before, START_TIME + SECONDS)
        assert player.reading.startswith("reading ")
    assert turns > LOOKED_THROUGH + 100
    assert player.model is not before
    assert (player.now, player.reading) == (START_TIME + 10, "")


def test_time_stands_while_it_reads(player: Player) -> None:
    player.advance(2.0)
    player.read()
    player.advance(100.0)
    assert moment(player) == 2
    arrived(player)
    player.advance(1.0)
    assert moment(player) == 3


def test_of_many_wishes_the_last_counts(recording: Recording, player: Player) -> None:
    player.seek_fraction(1.0)
    arrived(player)
    before = recording.read
    for second in range(15, 1, -1):
        player.seek(START_TIME + second)
    arrived(player)
    assert moment(player) == 2
    assert recording.read - before < LOOKED_THROUGH + 40


def test_a_model_goes_by_the_clock_of_the_recording(player: Player) -> None:
    passed(player, 5.5)
    assert isinstance(player.model.snapshot, Snapshot)
    assert player.model.state(player.now) is FeedState.LIVE
    assert player.model.silent_seconds(player.now) < 1


def test_what_cannot_be_read_is_said_and_is_new_for_a_while(recording: Recording, player: Player) -> None:
    player.advance(0.1)
    assert (player.problem, player.problem_is_new) == ("", False)
    recording.problems.append("1700000000-7.events: its end is cut off")
    player.advance(0.1)
    assert player.problem == "1700000000-7.events: its end is cut off. The rest is shown."
    assert player.problem_is_new
    player.advance(PROBLEM_NEW_SECONDS)
    assert player.problem and not player.problem_is_new
    recording.problems.append("b.events: nothing was recorded")
    player.advance(0.1)
    assert player.problem_is_new
    assert player.problem == "b.events: nothing was recorded (and 1 more). The rest is shown."


def test_a_recording_of_one_moment_is_at_its_end() -> None:
    player = arrived(Player(cast(Replay, Recording(0.0, 1))))
    passed(player, 1.0)
    assert (player.fraction, player.plays, player.is_at_end) == (1.0, False, True)


def test_a_narrow_screen_shows_the_time_of_a_recording(player: Player) -> None:
    shown = format_moment(player.position)
    for width in (20, 40):
        assert shown[11:] in text_of(cut(line(player, width, True), width))
    assert shown in text_of(line(player, 60, True))
