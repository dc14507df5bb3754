"""The clock of a recording: stands, runs at some speed, jumps."""

from __future__ import annotations

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class ReplayClock:
    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, max(start, end)
        self.position = start
        self.plays = True
        self._speed_index = SPEEDS.index(1.0)

    @property
    def speed(self) -> float:
        return SPEEDS[self._speed_index]

    @property
    def fraction(self) -> float:
        """0 at the start, 1 at the end."""
        return (self.position - self.start) / (self.end - self.start) if self.end > self.start else 1.0

    def advance(self, seconds: float) -> None:
        """So much time of the watcher has passed. At the end it stands."""
        if self.plays:
            self.position = min(self.end, self.position + seconds * self.speed)
            self.plays = self.position < self.end

    def seek(self, position: float) -> None:
        self.position = min(max(position, self.start), self.end)

    def seek_fraction(self, fraction: float) -> None:
        self.seek(self.start + fraction * (self.end - self.start))

    def toggle(self) -> None:
        """Play or stand; at the end, play again from the start."""
        if not self.plays and self.position >= self.end:
            self.position = self.start
        self.plays = not self.plays

    def change_speed(self, steps: int) -> None:
        self._speed_index = min(max(self._speed_index + steps, 0), len(SPEEDS) - 1)
