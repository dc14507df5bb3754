"""The cores of scheduler and agent, attacked by clients inside tasks: in any order, in any task, with any message.

No exception escapes, every core's own check holds after each step, and what honest peers asked for ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.arena import attack, some_fights
from tests.simulation.lying import LyingScenario

SCENARIO = LyingScenario(agents=1, clients=1, lying_nested=2, function_names=("short", "long", "parent"))
LONGEST_INPUT_BYTES = 1024
IS_SEQUENCE = True


def one_input(data: bytes) -> None:
    attack(data, SCENARIO)


def seeds() -> Iterator[bytes]:
    yield from some_fights()
