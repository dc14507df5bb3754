"""The clients of an earlier scheduler: until when they may come back, and which of them do not any more."""

from __future__ import annotations

LEFT_LIMIT = 10_000
"""The number of latest clients of which it is known that they have left and do not come back."""


class AbsentSessions:
    """The sessions that are kept for clients of an earlier scheduler."""

    def __init__(self) -> None:
        self.return_until = 0.0
        """0 until a peer tells of an earlier scheduler."""

        self._left: dict[bytes, None] = {}

    def note_left(self, session: bytes, now: float) -> None:
        """A client has left for good."""
        if now >= self.return_until:
            self._left.clear()
            return
        self._left[session] = None
        if len(self._left) > LEFT_LIMIT:
            del self._left[next(iter(self._left))]

    def note_here(self, session: bytes) -> None:
        """A client has come: its session may have begun again."""
        self._left.pop(session, None)

    def may_return(self, session: bytes, now: float) -> bool:
        """Return whether a client that is not here may come back."""
        return now < self.return_until and session not in self._left

    def put_off(self, seconds: float, now: float) -> None:
        """Extend the time by that in which the scheduler did not run."""
        if now - seconds < self.return_until:
            self.return_until += seconds
