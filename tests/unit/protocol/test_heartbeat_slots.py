"""Peers send heartbeats at times that they share with others."""

from __future__ import annotations

import random

import pytest

from scaler_protocol.heartbeat_slots import SLOT_SECONDS, seconds_to_next


@pytest.mark.parametrize("interval_seconds", [0.1, 0.5, 2.0, 2.003])
def test_heartbeats_are_in_time_and_in_a_slot(interval_seconds: float) -> None:
    generator = random.Random(interval_seconds)
    for _ in range(100):
        now = generator.uniform(1e9, 2e9)
        delay = seconds_to_next(interval_seconds, now)
        assert interval_seconds - SLOT_SECONDS <= delay <= interval_seconds
        slots = (now + delay) / SLOT_SECONDS
        assert slots == pytest.approx(round(slots), abs=1e-3)


def test_a_timer_that_is_late_delays_no_later_heartbeat() -> None:
    began, late_seconds = 1e9, 0.004
    now = began + late_seconds
    for number in range(1, 101):
        now += seconds_to_next(2.0, now) + late_seconds
        assert now == pytest.approx(began + 2.0 * number + late_seconds, abs=1e-4)


def test_a_very_short_interval_stays_one() -> None:
    assert 0.0005 <= seconds_to_next(0.001, 1e9 + 0.0087) <= 0.001
