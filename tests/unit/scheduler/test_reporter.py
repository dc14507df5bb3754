"""When the scheduler takes snapshots for monitors."""

from __future__ import annotations

import pytest

from scaler_scheduler.shell.reporter import due_after


def test_there_is_a_snapshot_a_second() -> None:
    assert due_after(10.0, 10.1, 0.005) == 11.0
    assert due_after(10.0, 14.0, 0.005) == pytest.approx(14.5)


def test_snapshots_take_a_hundredth_of_the_time() -> None:
    assert due_after(10.0, 10.0, 0.02) == pytest.approx(12.0)
    assert due_after(10.0, 10.0, 0.03) == pytest.approx(13.0)


def test_monitors_hear_of_a_scheduler_in_time_while_snapshots_take_long() -> None:
    assert due_after(10.0, 10.0, 0.2) == pytest.approx(14.0)
    assert due_after(10.0, 10.0, 1.5) == pytest.approx(14.0)


def test_tasks_get_half_of_the_time_in_any_case() -> None:
    assert due_after(10.0, 10.0, 10.0) == 30.0
