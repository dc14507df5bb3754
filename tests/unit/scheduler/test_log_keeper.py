"""What is in the folder of an event log while it grows."""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

import pytest

from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor.messages import SchedulerStatus, Setting, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingWriter
from scaler_scheduler.shell import log_keeper
from scaler_scheduler.shell.event_stream import EventStream
from scaler_scheduler.shell.log_keeper import LogKeeper, log_name

EPOCH = 0xAB
DAY = 86_400.0


class Log:
    """A log that is told of tasks; its clock is ``time``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, limit_bytes: int = 0) -> None:
        self.folder, self.time, self.limit_bytes, self.task = folder, 1_700_000_000.0, limit_bytes, 0
        monkeypatch.setattr(log_keeper.time, "time", lambda: self.time)
        descriptor = os.memfd_create("ring")
        os.ftruncate(descriptor, RING_HEADER_BYTES + 1024 * 1024)
        self.ring = RingWriter(mmap.mmap(descriptor, 0))
        self.stream = EventStream()
        self.stream.open(descriptor, 0, EPOCH)
        self.keeper = self.open()
        self.ring.write(records.name_record(Naming.FUNCTION, 0, {"digest": "00" * 16, "name": "square"}))
        self.said = [self.says_snapshot(0), *self.says_tasks(0)]

    def open(self) -> LogKeeper:
        return LogKeeper(str(self.folder / log_name(self.time, f"{EPOCH:x}")), self.limit_bytes)

    def says_tasks(self, count: int) -> list[str]:
        for _ in range(count):
            row = ([self.task], [10], [1], [0])
            self.ring.write(records.ended_record(*row, time=int(self.time * 1e6), session=0, function=0))
            self.task += 1
        return [self.keeper.keep(feed.EVENTS_KIND, payload, self.stream) for payload in self.stream.take()]

    def says_snapshot(self, padding_bytes: int) -> str:
        padding = tuple(Setting(f"{place}", os.urandom(500).hex()) for place in range(padding_bytes // 1000))
        snapshot = Snapshot(SchedulerStatus("address", EPOCH, "1", "host", 1, 1.0), time=self.time, settings=padding)
        return self.keeper.keep(feed.SNAPSHOT_KIND, feed.encode(snapshot), self.stream)

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


def functions_in(files: list[Path], tmp_path: Path) -> list[str]:
    """Of all tasks that these files alone speak of."""
    folder = tmp_path / "some"
    folder.mkdir()
    for path in files:
        os.link(path, folder / path.name)
    replay, model = Replay(folder), Model(0.0)
    for message in replay.messages(replay.start, replay.end):
        model.apply(message, 0.0)
    assert not replay.problems and model.snapshot is not None and model.activity.missed == 0
    replay.close()
    return [row[3] for row in model.rows("tasks", limit=100)[0]]


def test_a_day_begins_a_file_that_can_be_played_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log", monkeypatch)
    log.says_tasks(3)
    log.time += DAY - 1
    log.says_tasks(3)
    assert [each.name for each in log.files()] == ["20231114T221320Z-ab.events"]
    log.time += 1
    log.says_tasks(2)
    assert [each.name for each in log.files()] == ["20231114T221320Z-ab.events", "20231115T221320Z-ab.events"]
    assert functions_in(log.files()[1:], tmp_path) == ["square"] * 2


def test_no_file_grows_beyond_its_share_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 800_000
    log = Log(tmp_path / "log", monkeypatch, limit)
    other = tmp_path / "log" / "20200101T000000Z-1.events"
    other.write_bytes(bytes(200_000))
    first = log.files()[1]
    for _ in range(100):
        log.time += 10
        log.says_snapshot(20_000)
        log.says_tasks(1)
        sizes = [each.stat().st_size for each in log.files()]
        assert sum(sizes) <= limit and sizes[-1] <= limit // 8
    assert not other.exists() and not first.exists() and len(sizes) in (7, 8)
    assert set(functions_in(log.files()[-2:], tmp_path)) == {"square"}


def test_another_publisher_goes_on_with_the_last_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log", monkeypatch)
    log.time += DAY
    log.says_tasks(1)
    log.keeper.close()
    log.keeper = LogKeeper(str(log.files()[0]))
    log.says_tasks(1)
    assert len(log.files()) == 2
    assert functions_in(log.files()[1:], tmp_path) == ["square"] * 2


def test_a_file_that_cannot_be_begun_is_said_once_and_begun_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log", monkeypatch)
    write, said = os.pwrite, []
    log.time += DAY
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: write(descriptor, data[:10], at))
    for _ in range(5):
        said += log.says_tasks(1)
        log.time += 1
    monkeypatch.setattr(os, "pwrite", write)
    said += log.says_tasks(1)
    path = tmp_path / "log" / "20231114T221320Z-ab.events"
    assert [each for each in said if each] == [
        f"The event log {path} cannot be written: No space left on device.",
        f"The event log {log.files()[-1]} is written again.",
    ]
    assert len(log.files()) == 2 and not log.keeper.is_failing
    kinds = [each.kind for message in played(log.files()[1], tmp_path) for each in records.records(message.records)]
    assert kinds == [Kind.NAME, Kind.ENDED]


def played(path: Path, tmp_path: Path) -> list:
    folder = tmp_path / "one"
    folder.mkdir()
    os.link(path, folder / path.name)
    replay = Replay(folder)
    found = [each for each in replay.messages(replay.start, replay.end) if not isinstance(each, Snapshot)]
    replay.close()
    return found


@pytest.mark.parametrize("harm", ["file", "folder", "moved", "cut"])
def test_a_log_that_others_deleted_moved_or_cut_goes_on_in_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    log = Log(tmp_path / "log", monkeypatch)
    log.says_tasks(3)
    (path,) = log.files()
    log.time += 2
    if harm == "folder":
        shutil.rmtree(tmp_path / "log")
    elif harm == "file":
        path.unlink()
    elif harm == "moved":
        path.rename(tmp_path / "moved.events")
    else:
        os.truncate(path, 5)
    said = log.says_snapshot(0)
    new = log.files()[-1]
    assert said == f"The event log {path} was deleted, moved or cut by others; it goes on in {new}."
    assert new != path and not log.keeper.is_failing
    log.says_tasks(2)
    assert log.says_snapshot(0) == ""
    assert functions_in([new], tmp_path) == ["square"] * 2


def test_a_log_whose_folder_cannot_be_made_again_says_so_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log", monkeypatch)
    log.says_tasks(3)
    (path,) = log.files()
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").write_text("in the way")
    log.time += 2
    assert "cannot be written: " in log.says_snapshot(0)
    log.time += 2
    assert log.says_snapshot(0) == ""
    (tmp_path / "log").unlink()
    log.time += 2
    assert "it goes on in" in log.says_snapshot(0)
    assert log.says_tasks(2) == [""] * 1 and functions_in(log.files(), tmp_path) == ["square"] * 2
