from __future__ import annotations

import random

from scaler_protocol.transport.time_share import BURST_SECONDS, BUSY_SHARE, IDLE_SHARE, SLICE_SECONDS, TimeShare


def used_share(is_busy: bool, need_seconds: float, seconds: float = 60.0) -> float:
    """Of the time, by something that takes as long each time as it may, at most ``need_seconds``."""
    chance, now, used = random.Random(1), 100.0, 0.0
    share = TimeShare(now)
    while now < 100.0 + seconds:
        until = share.begin(now, is_busy)
        taken = min(need_seconds, until - now + chance.uniform(0.0, 0.0003))  # the last step takes longer
        now += taken
        used += taken
        now += share.end(now, is_busy) + chance.uniform(0.0, 0.0001)
    return used / seconds


def test_what_comes_without_end_gets_its_share() -> None:
    assert 0.5 * BUSY_SHARE < used_share(True, 1.0) < 1.1 * BUSY_SHARE
    assert 0.5 * IDLE_SHARE < used_share(False, 1.0) < 1.1 * IDLE_SHARE


def test_so_does_what_takes_little_each_time() -> None:
    assert used_share(True, 0.00005) < 1.1 * BUSY_SHARE


def test_what_comes_now_and_then_does_not_wait() -> None:
    share, now = TimeShare(0.0), 0.0
    for _ in range(100):
        now += 0.1
        assert share.begin(now, True) == now + SLICE_SECONDS
        now += 0.0005
        assert share.end(now, True) == 0.0


def test_a_long_step_is_paid_for_later() -> None:
    share = TimeShare(0.0)
    share.begin(0.0, True)
    assert share.end(0.1, True) > (0.1 - BURST_SECONDS) / BUSY_SHARE * 0.8
