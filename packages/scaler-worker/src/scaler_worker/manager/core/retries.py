"""The schedule of retries."""

from __future__ import annotations

from scaler_worker.manager.core.manager import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, STABLE_SECONDS


class RetryPause:
    """The pause after a failure doubles with each further one in a row, up to a limit. A failure a long time after the
    last start is counted as the first one."""

    def __init__(self) -> None:
        self._failures = 0
        self._started_at = 0.0
        self._resume_at = 0.0

    def on_started(self, now: float) -> None:
        self._started_at = now

    def on_failed(self, now: float, wait_seconds: float = 0.0) -> None:
        """``wait_seconds``: what failed accepts no start before."""
        if now - self._started_at >= STABLE_SECONDS:
            self._failures = 0
        self._failures += 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE_SECONDS)
        self._resume_at = now + max(pause, wait_seconds)

    def remaining_seconds(self, now: float) -> float:
        """Return the seconds until the next start."""
        return max(0.0, self._resume_at - now)
