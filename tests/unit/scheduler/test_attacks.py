"""Peers that lie at random: no message raises, every count stays right, and whatever is sent can be encoded."""

from __future__ import annotations

import os

import pytest

from tests.unit.scheduler.attackers import Attack

SEEDS = int(os.environ.get("SCALER_SEEDS", "12"))
STEPS = 300


@pytest.mark.parametrize("seed", range(SEEDS))
def test_liars_neither_break_the_scheduler_nor_its_counts(seed: int) -> None:
    attack = Attack(seed)
    for _ in range(STEPS):
        attack.step()
    attack.core.check()
