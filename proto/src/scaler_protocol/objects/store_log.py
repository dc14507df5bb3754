"""The log of a store, which has no output of its own: an agent of its host writes the lines to its log.

One agent gets the lines: of those that receive them, the one that connected first. While there is none, the newest
lines wait.
"""

from __future__ import annotations

from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.messages import LogLines


class StoreLog:
    def __init__(self, tail: LogTail) -> None:
        self._tail = tail
        self._receivers: dict[int, None] = {}  # in the order in which they connected

    def add_receiver(self, peer: int) -> None:
        self._receivers[peer] = None

    def remove_receiver(self, peer: int) -> None:
        """Harmless if it was none."""
        self._receivers.pop(peer, None)

    def take(self) -> tuple[int, LogLines] | None:
        """The peer to which lines must be sent, and the lines; None: there are no lines, or no receiver."""
        receiver = next(iter(self._receivers), None)
        if receiver is None:
            return None
        lines = self._tail.take()
        return (receiver, LogLines(tuple(lines))) if lines else None
