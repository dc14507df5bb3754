"""Peers that lie at random: no message raises, every count stays right, and whatever is sent can be encoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import pytest

from scaler_scheduler.core.message_rules import AGENT_RULES, CLIENT_RULES
from tests.unit.scheduler.attackers import Attack

SEEDS = int(os.environ.get("SCALER_SEEDS", "12"))
STEPS = 300


@pytest.mark.parametrize("seed", range(SEEDS))
def test_liars_neither_break_the_scheduler_nor_its_counts(seed: int) -> None:
    attack = Attack(seed)
    for _ in range(STEPS):
        attack.step()
    attack.core.check()


def test_liars_say_all_that_the_scheduler_handles() -> None:
    attack = Attack(1)
    advice = "Add these messages, with hostile values, to {} of attackers.py: {}"
    missing = never_said(CLIENT_RULES, lambda: attack.client_body(attack.clients[0]))
    assert not missing, advice.format("client_body", missing)
    missing = never_said(AGENT_RULES, lambda: attack.agent_body(attack.agents[0]))
    assert not missing, advice.format("agent_body", missing)


def never_said(rules: Iterable[type], say: Callable[[], object]) -> set[type]:
    missing = set(rules)
    for _ in range(50_000):
        missing.discard(type(say()))
        if not missing:
            break
    return missing
