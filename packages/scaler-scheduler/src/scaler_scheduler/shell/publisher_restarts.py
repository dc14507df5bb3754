"""The schedule by which the publisher, a child process, is started again after it has died."""

from __future__ import annotations

FIRST_PAUSE_SECONDS = 1.0
"""Seconds before the first restart; each further one waits twice as long."""

RESTARTS_LIMIT = 8
"""Restarts of a child that keeps dying: the last one is four minutes after the first death."""

HEALTHY_SECONDS = 60.0
"""A child that lived longer than this is not one that keeps dying."""

SHORTAGE_PAUSE_SECONDS = 5.0
"""Seconds before another try when this process lacked the means to start a child, which is not the child's fault."""


class Restarts:
    """The decision when to start another child. Time is an argument."""

    def __init__(self) -> None:
        self._deaths = 0
        self._started_at = 0.0
        self._due: float | None = None
        self._is_short = False

    def note_start(self, now: float) -> None:
        self._started_at, self._due, self._is_short = now, None, False

    def note_end(self, now: float) -> float | None:
        """The child died. Return how many seconds to wait before another is started; None: none is started."""
        self._deaths = 1 if now - self._started_at > HEALTHY_SECONDS else self._deaths + 1
        if self._deaths > RESTARTS_LIMIT:
            self._due = None
            return None
        pause = FIRST_PAUSE_SECONDS * float(2 ** (self._deaths - 1))
        self._due = now + pause
        return pause

    def note_shortage(self, now: float) -> bool:
        """No child could be started for lack of means. Return whether the attempt before did not lack them."""
        was_short, self._is_short = self._is_short, True
        self._due = now + SHORTAGE_PAUSE_SECONDS
        return not was_short

    def is_due(self, now: float) -> bool:
        """Return whether another child must be started now."""
        return self._due is not None and now >= self._due
