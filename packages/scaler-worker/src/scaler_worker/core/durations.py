"""How long the tasks of a function take, as far as known."""

from __future__ import annotations

OVERHEAD_SECONDS = 1e-6
"""Added to each task: claiming it, loading its arguments, writing its result."""

FUNCTION_LIMIT = 10_000


class Durations:
    """Exponentially weighted means by function digest."""

    def __init__(self) -> None:
        self._seconds: dict[bytes, float] = {}

    def estimate(self, function: bytes) -> float | None:
        return self._seconds.get(function)

    def add(self, function: bytes, count: int, total_seconds: float) -> None:
        """``count`` more tasks took ``total_seconds`` together."""
        mean = total_seconds / count + OVERHEAD_SECONDS
        known = self._seconds.pop(function, None)
        weight = 1.0 if known is None else 1.0 - 0.8 ** min(count, 32)
        self._seconds[function] = mean if known is None else known + weight * (mean - known)
        if len(self._seconds) > FUNCTION_LIMIT:
            del self._seconds[next(iter(self._seconds))]
