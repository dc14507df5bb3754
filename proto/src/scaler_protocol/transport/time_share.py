"""A limit on the part of a process's time that secondary work may take.

Time is credited as a share of the time that passes, up to a burst, and paid for as it is used: what comes now and then
is served at once, what comes without end gets its share.
"""

from __future__ import annotations

BURST_SECONDS = 0.1
"""The burst that is allowed: if a hundred peers or more connect at once, none waits."""

SLICE_SECONDS = 0.00025
"""Maximum duration of one slice. An authenticated peer's message may come at its begin and wait till its end: the time
of a single task is about as long."""

BUSY_SHARE = 0.05
IDLE_SHARE = 0.5
_LEAST_SECONDS = 0.0002
"""Less credit is not worth a turn."""


class TimeShare:
    """``is_busy``: there is real work."""

    def __init__(self, now: float) -> None:
        self._credit = BURST_SECONDS
        self._credited_at = now
        self._began_at = now

    def begin(self, now: float, is_busy: bool) -> float:
        """Return until when the work may continue."""
        self._earn(now, is_busy)
        self._began_at = now
        return now + min(SLICE_SECONDS, max(self._credit, _LEAST_SECONDS))

    def end(self, now: float, is_busy: bool) -> float:
        """Return how many seconds to wait before it begins again; 0: it need not wait."""
        self._earn(now, is_busy)
        self._credit -= now - self._began_at
        if self._credit > 0:
            return 0.0
        return (_LEAST_SECONDS - self._credit) / (BUSY_SHARE if is_busy else IDLE_SHARE)

    def _earn(self, now: float, is_busy: bool) -> None:
        share = BUSY_SHARE if is_busy else IDLE_SHARE
        self._credit = min(BURST_SECONDS, self._credit + (now - self._credited_at) * share)
        self._credited_at = now
