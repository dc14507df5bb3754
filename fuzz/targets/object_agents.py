"""The scheduler's core and large objects, attacked by an agent: false locations, stores, chunks.

No exception escapes, every core's own check holds after each step, and what honest peers asked for ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.arena import attack, some_fights
from tests.simulation.lying import LyingObjectScenario

SCENARIO = LyingObjectScenario(agents=1, clients=1, lying_agents=1)
LONGEST_INPUT_BYTES = 2048
IS_SEQUENCE = True


def one_input(data: bytes) -> None:
    attack(data, SCENARIO)


def seeds() -> Iterator[bytes]:
    yield from some_fights()
