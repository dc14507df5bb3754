"""When the scheduler takes snapshots for monitors."""

from __future__ import annotations

import pytest

from scaler_scheduler.shell.reporter import due_after


def test_there_is_a_snapshot_a_second() -> None:
    assert due_after(10.0, 10.1, 10.12) == 11.0
    assert due_after(10.0, 14.0, 14.02) == pytest.approx(14.2)


def test_snapshots_that_take_long_leave_most_of_the_time_to_tasks() -> None:
    assert due_after(10.0, 10.0, 10.2) == pytest.approx(12.0)
    now = due = busy = 0.0
    while now < 100.0:
        started, now = max(now, due), max(now, due) + 1.0
        busy += 1.0
        due = due_after(due, started, now)
    assert busy <= 26.0


def test_monitors_hear_of_a_scheduler_in_time_while_tasks_get_half_of_it() -> None:
    assert due_after(10.0, 10.0, 11.5) == 14.0
    assert due_after(10.0, 10.0, 20.0) == 30.0
