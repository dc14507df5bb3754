"""Scaling under a thousand simulated loads: its cost, its promptness, and its calm."""

from __future__ import annotations

import random

import pytest

from tests.simulation.scaling_model import (
    COOL_DOWN_SECONDS,
    TARGET_SECONDS,
    Outcome,
    clairvoyant_cost,
    curve,
    scale,
)

STEPS = 600
CURVES = 1000
COST_LIMIT = 1.2
"""Of the workers, against the cost of someone who knows the future."""


def outcomes(kinds: tuple[str, ...], count: int) -> list[tuple[Outcome, float]]:
    found = []
    for seed in range(count):
        chance = random.Random(seed)
        arrivals = curve(chance, STEPS, kinds)
        found.append((scale(arrivals, 10 ** chance.uniform(-2, 1.5)), clairvoyant_cost(arrivals)))
    return found


@pytest.mark.timeout(170)
def test_the_cost_stays_within_a_fifth_of_the_least_possible() -> None:
    found = outcomes(("steady", "ramp", "wave", "bursts", "steps"), CURVES)
    assert sum(outcome.cost for outcome, _ in found) <= COST_LIMIT * sum(least for _, least in found)


def test_the_number_of_workers_does_not_go_back_and_forth() -> None:
    assert [outcome.reversals(COOL_DOWN_SECONDS) for outcome, _ in outcomes(("steady", "ramp", "wave"), 100)] == [
        0
    ] * 100


def test_tasks_end_about_in_the_target_time() -> None:
    found = outcomes(("steady", "ramp", "wave", "steps"), 100)
    assert max(outcome.latest_seconds for outcome, _ in found) <= 1.5 * TARGET_SECONDS
