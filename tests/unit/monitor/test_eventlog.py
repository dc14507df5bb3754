"""What a scheduler's event log holds after anything that may happen to its writer or its disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from scaler_protocol.monitor.eventlog import EVENTS, SNAPSHOT, EventLogWriter, NotAnEventLog
from scaler_protocol.monitor.log_frames import frames, read_frame


def contents(path: Path) -> list[tuple[int, float, bytes]]:
    with path.open("rb") as file:
        return [(each.kind, each.time, read_frame(file, each)) for each in frames(file)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.events"
    writer = EventLogWriter(str(path))
    writer.write(SNAPSHOT, 1.5, b"one")
    writer.write(EVENTS, 2.5, b"two" * 1000)
    assert contents(path) == [(SNAPSHOT, 1.5, b"one"), (EVENTS, 2.5, b"two" * 1000)]
    assert path.stat().st_size < 200 and path.stat().st_mode & 0o077 == 0
    writer.close()


@pytest.mark.parametrize("cut", [1, 10, 17, 24])
def test_a_log_goes_on_after_its_writer_was_killed(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "log.events"
    writer = EventLogWriter(str(path))
    writer.write(SNAPSHOT, 1.0, b"whole")
    writer.write(SNAPSHOT, 2.0, os.urandom(100))
    writer.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    again = EventLogWriter(str(path))
    again.write(EVENTS, 3.0, b"later")
    again.close()
    assert contents(path) == [(SNAPSHOT, 1.0, b"whole"), (EVENTS, 3.0, b"later")]


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.events"
    path.write_text("somebody's only copy")
    with pytest.raises(NotAnEventLog, match="is not an event log"):
        EventLogWriter(str(path))
    assert path.read_text() == "somebody's only copy"


def test_a_full_disk_costs_whole_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.events"
    writer = EventLogWriter(str(path))
    writer.write(SNAPSHOT, 1.0, b"before")
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: write(descriptor, data[: len(data) // 2], at))
    with pytest.raises(OSError) as failed:
        writer.write(SNAPSHOT, 2.0, os.urandom(1000))
    assert failed.value.errno == errno.ENOSPC
    monkeypatch.undo()
    writer.write(SNAPSHOT, 3.0, b"after")
    writer.close()
    assert contents(path) == [(SNAPSHOT, 1.0, b"before"), (SNAPSHOT, 3.0, b"after")]
