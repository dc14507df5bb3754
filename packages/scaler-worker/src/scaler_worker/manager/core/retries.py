"""The schedule of retries."""

from __future__ import annotations

from scaler_worker.manager.core.manager import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, STABLE_SECONDS

LASTING_PAUSE_SECONDS, LASTING_FACTOR, LONGEST_LASTING_PAUSE_SECONDS = 5.0, 8, 900.0
"""The pause after a failure that will not pass by itself, how it grows with each further failure in a row, and its
limit. A user who corrects the cause at once is not kept waiting, and a host that bans addresses after some failed
logins in ten minutes sees few of them."""


class RetryPause:
    """The pause after a failure doubles with each further one in a row, up to a limit. A failure a long time after the
    last start is counted as the first one."""

    def __init__(self) -> None:
        self._failures = 0
        self._started_at = 0.0
        self._resume_at = 0.0

    def on_started(self, now: float) -> None:
        self._started_at = now

    def on_failed(self, now: float, wait_seconds: float = 0.0, is_lasting: bool = False) -> None:
        """``wait_seconds``: what failed accepts no start before. ``is_lasting``: the failure will not pass by
        itself."""
        if now - self._started_at >= STABLE_SECONDS:
            self._failures = 0
        self._failures += 1
        steps = min(self._failures - 1, 10)
        if is_lasting:
            pause = min(LASTING_PAUSE_SECONDS * LASTING_FACTOR**steps, LONGEST_LASTING_PAUSE_SECONDS)
        else:
            pause = min(FIRST_PAUSE_SECONDS * 2**steps, LONGEST_PAUSE_SECONDS)
        self._resume_at = now + max(pause, wait_seconds)

    def remaining_seconds(self, now: float) -> float:
        """Return the seconds until the next start."""
        return max(0.0, self._resume_at - now)
