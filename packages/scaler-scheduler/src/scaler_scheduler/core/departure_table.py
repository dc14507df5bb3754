"""The departure of an agent: which of its values are on their way to agents that stay."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaler_protocol.messages import ObjectKey


@dataclass(slots=True)
class Departure:
    """``progress_at``: the last time at which a value arrived. ``waiting``: the values whose turn has not come.
    ``moves``: the session of the agent that fetches each value of this turn. ``arrived``: those that it has, and that
    others still read from the agent that leaves. ``tried``: the tasks whose values were to move, by client; each is
    tried once, unless the agent that should keep it goes first. ``lost``: the values that were lost with the store of
    such an agent. ``mute``: the sessions of agents that have kept nothing for too long. ``outstanding``: how many
    tasks the agent had when its values were last looked for; None: they have not been. ``is_over``: the agent was told
    that it may leave. ``held``: how many values each agent had at the beginning, by index, if that matters.
    ``retry_at``: when to look again for an agent that can keep values, because there was none among the first
    ``agents_seen`` that ever joined."""

    progress_at: float
    waiting: deque[ObjectKey] = field(default_factory=deque)
    moves: dict[ObjectKey, bytes] = field(default_factory=dict)
    arrived: dict[ObjectKey, bool] = field(default_factory=dict)
    tried: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))
    lost: dict[ObjectKey, bool] = field(default_factory=dict)
    mute: dict[bytes, bool] = field(default_factory=dict)
    moved: int = 0
    outstanding: int | None = None
    is_over: bool = False
    held: Sequence[int] = ()
    retry_at: float = 0.0
    agents_seen: int = 0

    def note_values(self, owner: bytes, tasks: Sequence[int]) -> None:
        """The agent has these values: those that are new wait for their turn."""
        tried = self.tried[owner]
        new = [task for task in tasks if task not in tried]
        tried.update(new)
        self.waiting.extend(ObjectKey(owner, task) for task in new)

    def end(self, key: ObjectKey) -> None:
        """The value has moved, or will not."""
        del self.moves[key]
        self.arrived.pop(key, None)

    def try_again(self, key: ObjectKey) -> None:
        """The agent that should keep the value goes."""
        self.end(key)
        self.waiting.append(key)
