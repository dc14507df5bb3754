"""The one session with Symphony: whether it is open, and when the next is tried."""

from __future__ import annotations

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 10.0
PAUSE_SECONDS = 0.2
REFUSALS_LIMIT = 2
"""A session that refuses so many inputs in a row, and says nothing else, is given up."""


class SessionState:
    """Sessions are numbered. One that ended is followed by the next, after a pause that doubles while none lasts."""

    def __init__(self, now: float) -> None:
        self.number = 1
        self.is_open = False
        self.away_since: float | None = now
        self._open_at: float | None = now
        self._resume_at: float | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._refusals = 0

    def opened(self, number: int) -> bool:
        """False: this session is no longer awaited."""
        if number != self.number or self.is_open:
            return False
        self.is_open = True
        self.away_since = self._resume_at = None
        self._refusals = 0
        return True

    def ended(self, number: int, now: float) -> bool:
        """It ended, or could not be opened. False: that is known already."""
        if number != self.number:
            return False
        if self.away_since is None:
            self.away_since = now
        self.number += 1
        self.is_open = False
        self._open_at = now + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, LAST_RETRY_SECONDS)
        return True

    def proved(self) -> None:
        """It answered: the next one need not wait long."""
        self._retry_seconds = FIRST_RETRY_SECONDS

    def accepted(self) -> None:
        """It took an input."""
        self._refusals = 0

    def refused(self, now: float) -> bool:
        """It did not take an input: nothing is sent for a moment, so that it can say whether it has ended. True: it is
        to be given up."""
        self._refusals += 1
        self._resume_at = now + PAUSE_SECONDS
        return self._refusals >= REFUSALS_LIMIT

    def may_send(self, now: float) -> bool:
        return self.is_open and (self._resume_at is None or now >= self._resume_at)

    def take_due(self, now: float) -> int | None:
        """The session to be opened now, once."""
        if self._open_at is None or now < self._open_at:
            return None
        self._open_at = None
        return self.number

    def next_deadline(self) -> float | None:
        """Return when something is due by itself."""
        times = [at for at in (self._open_at, self._resume_at) if at is not None]
        return min(times, default=None)

    def on_deadline(self, now: float) -> None:
        if self._resume_at is not None and now >= self._resume_at:
            self._resume_at = None

    def check(self) -> None:
        assert not (self.is_open and self._open_at is not None)
        assert self.is_open == (self.away_since is None)
