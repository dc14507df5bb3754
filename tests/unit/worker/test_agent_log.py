"""An agent sends the lines of its log to its scheduler."""

from __future__ import annotations

from scaler_protocol.log_lines import LINES_LIMIT
from scaler_protocol.messages import LogLine, LogLines
from tests.unit.worker.playbook import Stage


def log(stage: Stage, *numbers: int) -> None:
    stage.core.on_logged([LogLine(number, 1.0, 20, "line") for number in numbers], stage.now)
    stage.turn()


def heard(stage: Stage) -> list[list[int]]:
    return [[line.number for line in body.lines] for body in stage.bodies(LogLines)]


def test_new_lines_are_sent() -> None:
    stage = Stage(1)
    log(stage, 0, 1)
    log(stage)
    log(stage, 2)
    assert heard(stage) == [[0, 1], [2]]


def test_lines_wait_for_the_connection() -> None:
    stage = Stage(1, welcome=False)
    log(stage, *range(2 * LINES_LIMIT))
    assert heard(stage) == []
    stage.connect()
    assert heard(stage) == [[*range(LINES_LIMIT, 2 * LINES_LIMIT)]]


def test_a_restarted_scheduler_gets_the_newest_lines_again() -> None:
    stage = Stage(1)
    log(stage, 0, 1)
    stage.core.on_peer_lost(b"", stage.now)
    log(stage, 2)
    stage.connect(epoch=2)
    assert heard(stage) == [[0, 1], [0, 1, 2]]
