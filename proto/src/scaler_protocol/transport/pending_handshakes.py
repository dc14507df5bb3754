"""Limits of connections that have not authenticated yet, in number and time."""

from __future__ import annotations

COUNT_LIMIT = 1024
SECONDS_LIMIT = 10.0


class PendingHandshakes:
    """The handshakes under way by number, the oldest first."""

    def __init__(self, count_limit: int = COUNT_LIMIT, seconds_limit: float = SECONDS_LIMIT) -> None:
        self._count_limit = count_limit
        self._seconds_limit = seconds_limit
        self._came_at: dict[int, float] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._came_at

    def add(self, number: int, now: float) -> list[int]:
        """Return those that must be closed to make room for it."""
        self._came_at[number] = now
        excess = len(self._came_at) - self._count_limit
        return [each for each, _ in zip(self._came_at, range(excess), strict=False)]

    def remove(self, number: int) -> None:
        """It has authenticated, or has ended."""
        self._came_at.pop(number, None)

    def late(self, now: float) -> list[int]:
        """Return those whose time is over."""
        return [number for number, came_at in self._came_at.items() if now >= came_at + self._seconds_limit]

    def next_deadline(self) -> float | None:
        return next(iter(self._came_at.values())) + self._seconds_limit if self._came_at else None
