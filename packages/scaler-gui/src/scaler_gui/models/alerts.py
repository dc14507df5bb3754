"""The rule for telling the desktop that tasks have failed: soon, but not for each of a thousand."""

from __future__ import annotations

QUIET_SECONDS = 10.0


class FailureAlerts:
    """Looks at the total of failures; the first number that it sees is where it starts from."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._told = 0
        self._told_at = float("-inf")

    def due(self, epoch: int, failed: int, now: float) -> int:
        """Return how many failures to tell of now; what is not told now is told later, in one sum."""
        if epoch != self._epoch or failed < self._told:
            self._epoch, self._told = epoch, failed
            return 0
        if failed == self._told or now - self._told_at < QUIET_SECONDS:
            return 0
        new, self._told, self._told_at = failed - self._told, failed, now
        return new


def sentence(new: int, cause: str = "") -> str:
    text = "A task failed" if new == 1 else f"{new:,} tasks failed"
    return f"{text}: {cause}" if cause else text + "."
