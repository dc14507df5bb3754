from __future__ import annotations

import datetime
import errno
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.format import format_moment
from scaler_protocol.monitor.log_frames import EVENTS, MAGIC, SNAPSHOT, SUFFIX, Frame, frame, read_frame
from scaler_protocol.monitor.messages import Events, MonitorMessage, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.replay import line
from tests.support.monitor_stream import START_TIME, synthetic_messages

SECONDS = 10


def recorded() -> list[MonitorMessage]:
    return list(synthetic_messages(SECONDS, 8, 500))


def log_of(messages: list[MonitorMessage]) -> bytes:
    found = [MAGIC]
    for message in messages:
        kind = SNAPSHOT if isinstance(message, Snapshot) else EVENTS
        found.append(frame(kind, message.time, feed.encode(message)))
    return b"".join(found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(recorded()))
    return tmp_path


def model_of(messages: list[MonitorMessage]) -> Model:
    model = Model(0.0)
    for message in messages:
        model.apply(message, message.time)
    return model


def test_a_recording_played_to_its_end_shows_what_was_seen_live(folder: Path) -> None:
    replay = Replay(folder)
    assert (replay.start, replay.end, replay.problems) == (START_TIME, START_TIME + SECONDS, [])
    played = model_of(list(replay.messages(replay.start, replay.end)))
    live = model_of(recorded())
    for table in ("functions", "failures", "tasks", "graphs", "notices"):
        assert played.rows(table) == live.rows(table)


def test_step_by_step_is_the_same(folder: Path) -> None:
    replay, played, at = Replay(folder), Model(0.0), START_TIME
    while at < replay.end:
        for message in replay.messages(at, at + 0.7):
            played.apply(message, message.time)
        at += 0.7
    assert played.rows("tasks") == model_of(recorded()).rows("tasks")
    assert played.activity.missed == 0


def test_from_the_middle_names_and_the_last_snapshot_come_first(folder: Path) -> None:
    replay = Replay(folder)
    found = list(replay.messages(START_TIME + 5.05, START_TIME + 6.05))
    assert isinstance(found[0], Snapshot)
    assert found[0].time == pytest.approx(START_TIME + 5)
    model = model_of(found)
    rows, total = model.rows("tasks", limit=1000)
    assert total == len(rows) == 500
    assert all(row[3] and row[7] for row in rows)
    assert model.activity.missed == 0


def test_back_again(folder: Path) -> None:
    replay = Replay(folder)
    end = model_of(list(replay.messages(replay.start, replay.end)))
    back = model_of(list(replay.messages(START_TIME, START_TIME + 3)))
    assert back.rows("tasks")[1] < end.rows("tasks")[1]
    assert back.time == START_TIME + 3


@pytest.mark.parametrize("missing", [1, 10, 16, 17, 100])
def test_a_log_that_was_cut_is_played_up_to_the_cut(folder: Path, missing: int) -> None:
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes()[:-missing])
    replay = Replay(folder)
    assert len(replay.problems) == 1
    assert replay.problems[0].startswith(f"{path.name}: truncated, the last ")
    assert model_of(list(replay.messages(replay.start, replay.end))).rows("tasks")[1] > 4000


def test_a_damaged_frame_is_left_out_and_said(folder: Path) -> None:
    path = next(folder.iterdir())
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    replay = Replay(folder)
    model = model_of(list(replay.messages(replay.start, replay.end)))
    assert len(replay.problems) == 1
    assert "damaged" in replay.problems[0] or "cut off" in replay.problems[0]
    assert model.snapshot is not None


@pytest.mark.parametrize("damage", [float("nan"), float("inf"), -1.0, 1e300, 0.0, START_TIME + 1e6])
@pytest.mark.parametrize("number", [0, 7, -1])
def test_a_damaged_time_moves_nothing(tmp_path: Path, damage: float, number: int) -> None:
    messages = recorded()
    framed = [log_of([each]).removeprefix(MAGIC) for each in messages]
    framed[number] = framed[number][:9] + struct.pack("<d", damage) + framed[number][17:]
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(MAGIC + b"".join(framed))
    replay = Replay(tmp_path)
    assert START_TIME <= replay.start <= replay.end <= START_TIME + SECONDS
    assert len(list(replay.messages(replay.start, replay.end))) == len(messages) - 1
    assert "damaged" in replay.problems[0]
    replay.close()


def test_a_clock_that_was_set_back_is_no_damage(tmp_path: Path) -> None:
    messages = [replace(each, time=each.time - 3600 * (number > 50)) for number, each in enumerate(recorded())]
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(messages))
    replay = Replay(tmp_path)
    assert not replay.problems
    played = list(replay.messages(replay.start, replay.end))
    assert [each.time for each in played] == [each.time for each in messages], "in the order in which they came"
    assert replay.end == messages[-1].time
    replay.close()


def test_a_time_before_the_clock_was_set_back_is_found_as_the_clock_showed_it(tmp_path: Path) -> None:
    messages = [replace(each, time=each.time - 3600 * (number > 50)) for number, each in enumerate(recorded())]
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(messages))
    replay = Replay(tmp_path)
    player = Player(replay)
    for wanted in (messages[50].time - 1, messages[51].time + 1):
        player.seek_text(datetime.datetime.fromtimestamp(wanted).isoformat())
        assert player.clock == pytest.approx(wanted, abs=0.01)
        assert format_moment(wanted + 0.01) in text_of(line(player, 80, True))
    assert replay.clock_at(replay.start) == pytest.approx(messages[0].time, abs=0.01)
    assert replay.clock_at(replay.end) == messages[-1].time
    with pytest.raises(ValueError, match="only the time"):
        replay.find(datetime.datetime.fromtimestamp(messages[51].time - 2).isoformat())
    replay.close()


def test_a_clock_that_ran_ahead_for_a_while_moves_only_that_while(tmp_path: Path) -> None:
    messages = [replace(each, time=each.time + 3600 * (30 < number <= 50)) for number, each in enumerate(recorded())]
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(messages))
    replay = Replay(tmp_path)
    assert (replay.start, replay.end) == (messages[0].time, messages[-1].time)
    played = list(replay.messages(replay.start, replay.end))
    assert [each.time for each in played] == [each.time for each in messages]
    assert replay.end - replay.start <= SECONDS
    replay.close()


def test_a_frame_that_holds_no_message_is_left_out(folder: Path) -> None:
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes() + frame(EVENTS, START_TIME + 11, b"nonsense"))
    replay = Replay(folder)
    list(replay.messages(replay.start, replay.end))
    assert replay.problems == [f"{path.name}: the stream at this address is not a Scaler monitor stream"]


def test_several_logs_are_one_recording(folder: Path) -> None:
    last = list(synthetic_messages(2, 4, 100, start=START_TIME + 100))
    (folder / f"20231114T221500Z-7{SUFFIX}").write_bytes(log_of(last))
    replay = Replay(folder)
    assert replay.end == START_TIME + 102
    assert isinstance(next(iter(replay.messages(START_TIME + 100.5, START_TIME + 101))), Snapshot)


def test_what_is_not_a_recording_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no event logs"):
        Replay(tmp_path)
    with pytest.raises(ValueError, match="there are no event logs"):
        Replay(tmp_path / "missing")
    (tmp_path / f"a{SUFFIX}").write_bytes(b"")
    with pytest.raises(ValueError, match="not an event log"):
        Replay(tmp_path)
    (tmp_path / f"a{SUFFIX}").write_bytes(MAGIC)
    with pytest.raises(ValueError, match="nothing was recorded"):
        Replay(tmp_path)


def test_a_disk_that_fails_costs_what_is_there_and_is_said_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, broken = Replay(folder), START_TIME + 4

    def read(file: BinaryIO, found: Frame) -> bytes:
        if found.time <= broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read_frame(file, found)

    monkeypatch.setattr("scaler_protocol.monitor.replay.read_frame", read)
    model = model_of(list(replay.messages(replay.start, replay.end)))
    assert model.snapshot is not None and model.snapshot.time == replay.end
    name = next(folder.iterdir()).name
    assert replay.problems == [f"{name}: cannot be read: Input/output error"]


def test_a_file_that_cannot_be_opened_leaves_the_others(folder: Path) -> None:
    (folder / f"20240101T000000Z-8{SUFFIX}").mkdir()
    replay = Replay(folder)
    assert replay.end == START_TIME + SECONDS
    assert replay.problems == [f"20240101T000000Z-8{SUFFIX}: not a regular file"]


def test_a_pipe_with_the_name_of_a_log_does_not_keep_a_reader_waiting(folder: Path) -> None:
    os.mkfifo(folder / f"20240101T000000Z-8{SUFFIX}")
    assert Replay(folder).problems == [f"20240101T000000Z-8{SUFFIX}: not a regular file"]


def test_a_log_of_a_later_version_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / f"a{SUFFIX}").write_bytes(b"scaler events 4\n")
    with pytest.raises(ValueError, match="of version 4, this program reads up to 3: use the scheduler's release"):
        Replay(tmp_path)


def test_a_small_frame_cannot_fill_the_memory(tmp_path: Path) -> None:
    bomb = zlib.compress(b"\0" * (64 * 1024 * 1024))
    checked = struct.pack("<Bd", EVENTS, 5.0)
    header = struct.pack("<II", len(bomb), zlib.crc32(bomb, zlib.crc32(checked))) + checked
    (tmp_path / f"a{SUFFIX}").write_bytes(MAGIC + header + bomb)
    replay = Replay(tmp_path)
    assert list(replay.messages(0.0, 10.0)) == []
    assert len(replay.problems) == 1


@pytest.mark.parametrize("size", [0, 7, 65 * 1024 * 1024, 2**32 - 1])
def test_a_frame_of_a_size_that_no_writer_makes_is_neither_read_nor_counted(folder: Path, size: int) -> None:
    """A file with holes takes no room on disk, whatever sizes it claims."""
    path = next(folder.iterdir())
    with path.open("ab") as file:
        start = file.tell()
        file.write(struct.pack("<IIBd", size, 0, EVENTS, START_TIME + SECONDS))
        file.truncate(start + 17 + max(size, 1000))
    replay = Replay(folder)
    skipped = max(size, 1000) + 17
    assert replay.problems == [f"{path.name}: damaged at byte {start:,}, the last {skipped:,} bytes are skipped"]
    assert replay.end == START_TIME + SECONDS


def test_events_keep_their_numbers(folder: Path) -> None:
    replay = Replay(folder)
    events = [message for message in replay.messages(replay.start, replay.end) if isinstance(message, Events)]
    assert all(one.first + one.count == other.first for one, other in zip(events, events[1:], strict=False))


def test_each_step_reads_one_frame_and_what_was_given_up_leaves_nothing_to_go_on_from(folder: Path) -> None:
    replay = Replay(folder)
    middle, end = START_TIME + 5, replay.end
    given_up = replay.steps(START_TIME, middle)
    assert [next(given_up).time for _ in range(3)] == [START_TIME] * 3
    given_up.close()
    steps = list(replay.steps(middle, end))
    assert isinstance(steps[0].message, Snapshot) and steps[0].time == middle
    looked_through = [step for step in steps if step.message is None]
    assert len(looked_through) == sum(message.time <= middle for message in recorded())
    messages = [step.message for step in steps if step.message is not None]
    assert model_of(messages).rows("tasks") == model_of(list(Replay(folder).messages(middle, end))).rows("tasks")
    assert all(step.message is not None for step in replay.steps(middle - 1, end))
