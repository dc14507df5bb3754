"""When a publisher that died is started again."""

from __future__ import annotations

import pytest

from scaler_scheduler.shell.publisher_restarts import (
    FIRST_PAUSE_SECONDS,
    HEALTHY_SECONDS,
    RESTARTS_LIMIT,
    SHORTAGE_PAUSE_SECONDS,
    Restarts,
)


def test_pauses_grow_and_end() -> None:
    restarts, now, pauses = Restarts(), 0.0, []
    restarts.note_start(now)
    while (pause := restarts.note_end(now)) is not None:
        assert not restarts.is_due(now + pause - 0.01) and restarts.is_due(now + pause)
        pauses.append(pause)
        now += pause
        restarts.note_start(now)
        assert not restarts.is_due(now + 1e6)
    assert pauses == [FIRST_PAUSE_SECONDS * 2**number for number in range(RESTARTS_LIMIT)]
    assert not restarts.is_due(now + 1e6)


def test_one_that_lived_long_enough_is_started_again_at_once() -> None:
    restarts, now = Restarts(), 0.0
    for _ in range(10 * RESTARTS_LIMIT):
        restarts.note_start(now)
        now += HEALTHY_SECONDS + 1
        assert restarts.note_end(now) == FIRST_PAUSE_SECONDS


def test_a_shortage_is_news_once_and_is_not_counted() -> None:
    restarts = Restarts()
    assert [restarts.note_shortage(now) for now in (0.0, 5.0, 10.0)] == [True, False, False]
    assert restarts.is_due(10.0 + SHORTAGE_PAUSE_SECONDS)
    restarts.note_start(20.0)
    assert restarts.note_end(20.0) == FIRST_PAUSE_SECONDS
    assert restarts.note_shortage(21.0)


@pytest.mark.parametrize("now", [0.0, 1e9])
def test_nothing_is_due_before_anything_happened(now: float) -> None:
    assert not Restarts().is_due(now)
