"""Plays a recording: what a model has heard at the moment that its user chose."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.monitor.format import format_span, format_time
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.replay import Replay
from scaler_scheduler.top.lines import Line, Span, Style

LOOK_BACK_SECONDS = 600.0
"""How much before the chosen moment is read, so that histories and the task stream have a past."""

PROBLEM_SHOWN_SECONDS = 15.0
_STEPS = {"left": -5.0, "right": 5.0, ",": -1.0, ".": 1.0}
_SHARES = {"{": -0.1, "}": 0.1}
_SLOWEST, _FASTEST = 1 / 16, 1024.0


@dataclass
class Player:
    """``position`` is a time of the recording, ``speed`` its seconds per second."""

    replay: Replay
    timeout_seconds: float
    paused: bool = False
    speed: float = 1.0

    def __post_init__(self) -> None:
        self._ticked_at: float | None = None
        self._problems_told = 0
        self._told_at = 0.0
        self._begin_at(self.replay.start)

    def tick(self, now: float) -> None:
        """Go on, by what has passed on the clock of whoever looks."""
        passed = 0.0 if self._ticked_at is None else now - self._ticked_at
        self._ticked_at = now
        if not self.paused and self.position < self.replay.end:
            self._play_to(min(self.replay.end, self.position + passed * self.speed))
        self._tell_problems(now)

    def pressed(self, key: str) -> bool:
        """Whether the key was one of the player's."""
        if key == " ":
            self.paused = not self.paused
        elif key in ("<", ">"):
            self.speed = max(_SLOWEST, min(_FASTEST, self.speed * (2 if key == ">" else 0.5)))
        elif key in _STEPS:
            self.seek(self.position + _STEPS[key])
        elif key in _SHARES:
            self.seek(self.position + _SHARES[key] * (self.replay.end - self.replay.start))
        else:
            return False
        return True

    def seek(self, time: float) -> None:
        """Show what was at a moment, forth or back."""
        time = max(self.replay.start, min(self.replay.end, time))
        if self.position <= time <= self.position + LOOK_BACK_SECONDS:
            self._play_to(time)
        else:
            self._begin_at(time)

    def line(self, width: int, blocks: bool) -> Line:
        """Where the recording stands."""
        state = "paused" if self.paused else "end" if self.position >= self.replay.end else f"{self.speed:g}x"
        length = format_span(self.replay.end - self.replay.start)
        left = f"{state:>6} {format_time(self.position)} "
        right = f" {length}  space < > arrows ?"
        room = max(0, width - len(left) - len(right))
        done = round(room * self._share())
        bar = [
            Span(("━" if blocks else "=") * done, Style.GOOD),
            Span(("─" if blocks else "-") * (room - done), Style.DIM),
        ]
        return (Span(left, Style.TITLE), *bar, Span(right, Style.DIM))

    def _tell_problems(self, now: float) -> None:
        """What of the recording cannot be read, for a while."""
        if len(self.replay.problems) > self._problems_told:
            self._problems_told = len(self.replay.problems)
            self._told_at = now
        if self._problems_told and now - self._told_at < PROBLEM_SHOWN_SECONDS:
            self.model.refuse(self.replay.problems[-1])
        elif self._problems_told and self.model.problem in self.replay.problems:
            self.model.problem = None

    def _share(self) -> float:
        length = self.replay.end - self.replay.start
        return (self.position - self.replay.start) / length if length > 0 else 1.0

    def _begin_at(self, time: float) -> None:
        self.model = Model(time, self.timeout_seconds)
        self._take(time - LOOK_BACK_SECONDS, time)
        self.position = time

    def _play_to(self, time: float) -> None:
        self._take(self.position, time)
        self.position = time

    def _take(self, start: float, stop: float) -> None:
        for message in self.replay.messages(start, stop):
            self.model.apply(message, message.time if isinstance(message, Snapshot) and message.time else stop)
