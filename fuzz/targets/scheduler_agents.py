"""The scheduler's core, attacked by an agent: wrong attempts, results of tasks it never had, absurd sizes, any message.

No exception escapes, every core's own check holds after each step, and what honest peers asked for ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.arena import attack, some_fights
from tests.simulation.lying import LyingScenario

SCENARIO = LyingScenario(agents=1, clients=1, lying_agents=1, lying_clients=1)
LONGEST_INPUT_BYTES = 2048
IS_SEQUENCE = True


def one_input(data: bytes) -> None:
    attack(data, SCENARIO)


def seeds() -> Iterator[bytes]:
    yield from some_fights()
