"""The effects that a core has asked for (contract; the code is in outbox.pyx)."""

from collections.abc import Iterable
from typing import Any

class Outbox:
    """Every part of a core adds its effects here; the shell takes all of them once per turn, in their order."""

    def __init__(self) -> None: ...
    def add(self, effect: Any) -> None: ...
    def extend(self, effects: Iterable[Any]) -> None: ...
    def last(self) -> Any:
        """The newest effect; None: there is none. The caller may add to it what belongs to the same turn."""

    def take(self) -> list[Any]:
        """The effects since the last call, oldest first."""
