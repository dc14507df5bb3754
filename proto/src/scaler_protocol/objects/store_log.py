"""The log of a store, which has no output of its own: an agent of its host writes the lines to its log.

One agent gets the lines: of those that receive them, the one that connected first. While there is none, the newest
lines wait. Any peer can cause warnings, so lines are sent once a second, at most the newest ones that a tail keeps.
"""

from __future__ import annotations

from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.messages import LogLines

PERIOD_SECONDS = 1.0


class StoreLog:
    def __init__(self, tail: LogTail) -> None:
        self._tail = tail
        self._receivers: dict[int, None] = {}  # in the order in which they connected
        self._next_at: float | None = None

    def add_receiver(self, peer: int) -> None:
        self._receivers[peer] = None

    def remove_receiver(self, peer: int) -> None:
        """Harmless if the peer is not a receiver."""
        self._receivers.pop(peer, None)

    def next_deadline(self) -> float | None:
        """Return when further lines may be sent; None: now."""
        return self._next_at

    def take(self, now: float) -> tuple[int, LogLines] | None:
        """The peer to which lines must be sent, and the lines; None: there are no lines, no receiver, or lines have
        been sent a moment ago."""
        if self._next_at is not None and now < self._next_at:
            return None
        self._next_at = None
        receiver = next(iter(self._receivers), None)
        if receiver is None:
            return None
        lines = self._tail.take()
        if not lines:
            return None
        self._next_at = now + PERIOD_SECONDS
        return receiver, LogLines(tuple(lines))
