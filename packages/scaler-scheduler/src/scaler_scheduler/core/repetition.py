"""Warnings that any peer can cause as often as it likes."""

from __future__ import annotations

QUIET_SECONDS = 1.0


class Repetition:
    """Warnings of one kind: the first is written at once, then at most one per second, with a count of the others."""

    def __init__(self) -> None:
        self._quiet_until = float("-inf")
        self._held = 0
        self._last = ""
        self.due_at: float | None = None
        """The time at which ``take`` has something to write."""

    def note(self, text: str, now: float) -> str | None:
        """Count a warning. Return what to write at once, if anything."""
        if self._held or now < self._quiet_until:
            self._held += 1
            self._last = text
            self.due_at = self._quiet_until
            return None
        self._quiet_until = now + QUIET_SECONDS
        return text

    def take(self, now: float) -> str | None:
        """Return the collected warnings as one line, when it is time; None otherwise."""
        if not self._held or now < self._quiet_until:
            return None
        others, self._held = self._held - 1, 0
        self.due_at = None
        self._quiet_until = now + QUIET_SECONDS
        return f"{self._last} ({others} more like it)" if others else self._last
