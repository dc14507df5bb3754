"""The audit log on a disk that is full for a while: each line that was recorded can be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scaler_scheduler.core.effects import Audit
from scaler_scheduler.shell.audit_log import AuditLog


def audit(target: str) -> Audit:
    return Audit("alice", "host", 1, "drain", target, 0.0, (), 0)


def targets(path: Path) -> list[str]:
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line)["target"])
        except ValueError:
            found.append("cut")
    return found


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of bytes for which there is room in the next writes; all if empty."""
    room: list[int] = []
    write = os.write

    def write_a_part(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[: room.pop(0)] if room else data)

    monkeypatch.setattr(os, "write", write_a_part)
    return room


def test_a_line_for_which_there_is_no_room_spoils_no_other(
    tmp_path: Path, room: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path))
    log.record(audit("one"))
    room.append(10)
    log.record(audit("two"))
    room.append(1)  # the end of the cut line only
    log.record(audit("three"))
    log.record(audit("four"))
    log.close()
    assert targets(path) == ["one", "cut", "four"]
    assert [f'"target": "{name}"' in text for name, text in zip(("two", "three"), caplog.messages, strict=True)] == [
        True,
        True,
    ]


def test_a_line_that_was_cut_before_a_restart_spoils_no_other(tmp_path: Path, room: list[int]) -> None:
    path = tmp_path / "audit"
    log = AuditLog(str(path))
    room.append(10)
    log.record(audit("one"))
    log.close()
    log = AuditLog(str(path))
    log.record(audit("two"))
    log.close()
    assert targets(path) == ["cut", "two"]
