"""The departure of an agent: which of its values are on their way to agents that stay."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from scaler_protocol.messages import ObjectKey


@dataclass(slots=True)
class Departure:
    """``moves``: the session of the agent that fetches each value. ``arrived``: the values that it has, and that others
    still read from the agent that leaves. ``tried``: the tasks whose values were to move, by client; each is tried
    once, unless the agent that should keep it goes first. ``progress_at``: the last time at which one arrived."""

    progress_at: float
    moves: dict[ObjectKey, bytes] = field(default_factory=dict)
    arrived: dict[ObjectKey, bool] = field(default_factory=dict)
    tried: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))
    moved: int = 0

    def begin(self, key: ObjectKey, target: bytes) -> None:
        self.moves[key] = target
        self.tried[key.owner].add(key.number)

    def end(self, key: ObjectKey) -> None:
        """The value has moved, or will not."""
        del self.moves[key]
        self.arrived.pop(key, None)
