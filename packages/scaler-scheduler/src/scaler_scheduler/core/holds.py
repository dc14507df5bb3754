"""Tasks that a client has submitted again after a restart of the scheduler: an agent may have them."""

from __future__ import annotations


class Holds:
    """Ranges of tasks that wait together, ``seconds`` from the time at which the last one came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ranges: list[tuple[int, int]] = []
        self._until: float | None = None

    @property
    def has_tasks(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, stop: int, now: float) -> None:
        self._ranges.append((first, stop))
        self.extend(now)

    def keep(self, first: int, stop: int, now: float) -> None:
        """A range that ``end`` has returned waits until the next look at it."""
        self._ranges.append((first, stop))
        self._until = now

    def extend(self, now: float) -> None:
        self._until = now + self._seconds

    def put_off(self, seconds: float) -> None:
        """Agents had no time to report meanwhile."""
        if self._until is not None:
            self._until += seconds

    def are_over(self, now: float) -> bool:
        return self._until is not None and now >= self._until

    def have_lasted(self, seconds: float, now: float) -> bool:
        """Return whether tasks have waited for ``seconds`` since the last one came."""
        return self._until is not None and now >= self._until - self._seconds + seconds

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._ranges)

    def end(self) -> list[tuple[int, int]]:
        """Agents had time to report these ranges. Returns them."""
        ended, self._ranges, self._until = self._ranges, [], None
        return ended

    def clear(self) -> None:
        """No task waits any more."""
        self._ranges.clear()
