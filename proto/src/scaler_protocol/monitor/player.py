"""The player of recordings, the same for every screen: which moment is shown, and a model that has heard what was said
up to then.

Pure: time passes by :meth:`Player.advance` only, and nothing is read but by :meth:`Player.read`, one frame at a call,
so that a screen goes on answering its user however busy the log is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from scaler_protocol.monitor.format import format_time
from scaler_protocol.monitor.model import DEFAULT_TIMEOUT_SECONDS, Model
from scaler_protocol.monitor.replay import Replay, Step

LOOK_BACK_SECONDS = 600.0
"""Seconds before a chosen moment that are read as well, so that histories, task log and task stream have a past."""

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1000.0)
"""The speeds that :meth:`Player.change_speed` steps through."""

PROBLEM_NEW_SECONDS = 15.0


class Player:
    """``position`` is the moment to be shown, in seconds of the recording since 1970; ``speed`` its seconds per second.

    ``model`` is another one after a jump, but not before everything for it has been read: until then it shows what it
    showed before, and :attr:`reading` says how far reading has come."""

    def __init__(self, replay: Replay, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self.start, self.end = replay.start, replay.end
        self.position = replay.start
        self.plays = True
        self.speed = 1.0
        self._replay = replay
        self._timeout_seconds = timeout_seconds
        self._steps: Iterator[Step] | None = None
        self._now = replay.start
        self._problem_count = 0
        self._problem_seconds = 0.0
        self._begin()
        self.model = self._next_model

    # ---- what its user does ------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Play or stand; at the end, play again from the start."""
        self.plays = not self.plays
        if self.plays and self.is_at_end:
            self.position = self.start

    def seek_text(self, text: str) -> None:
        """Go to a time as people write it. ValueError, with a sentence, if the recording does not include it."""
        self.seek(self._replay.find(text))

    def seek(self, moment: float) -> None:
        """Forth or back; the nearest moment that there is."""
        self.position = max(self.start, min(self.end, moment))

    def seek_fraction(self, fraction: float) -> None:
        self.seek(self.start + fraction * (self.end - self.start))

    def set_speed(self, speed: float) -> None:
        self.speed = max(SPEEDS[0], min(SPEEDS[-1], speed))

    def change_speed(self, steps: int) -> None:
        """Go ``steps`` entries of ``SPEEDS`` forward, or back."""
        index = bisect_left(SPEEDS, self.speed) if steps < 0 else bisect_right(SPEEDS, self.speed) - 1
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, index + steps))]

    # ---- what screens do ---------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let this much time of the watcher pass. The recording stands at its end, and while something is read that is
        before the moment to be shown."""
        self._note_problems(seconds)
        if self.plays and self._is_there:
            self.position = min(self.end, self.position + seconds * self.speed)
        self.plays = self.plays and not self.is_at_end

    def read(self) -> bool:
        """Read one frame; False: all that is needed has been read."""
        if self._is_there:
            return False
        if not self._is_within_reach:
            self._begin()
        elif self._steps is None:
            self._read_on(self._read_to)
        assert self._steps is not None
        step = next(self._steps, None)
        if step is None:
            self._arrive()
        else:
            self._take(step)
        return not self._is_there

    # ---- how it stands -----------------------------------------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        return self.position >= self.end

    @property
    def clock(self) -> float:
        """The time that the scheduler's clock showed at that moment, in seconds since 1970."""
        return self._replay.clock_at(self.position)

    @property
    def fraction(self) -> float:
        """0 at the start, 1 at the end."""
        return (self.position - self.start) / (self.end - self.start) if self.end > self.start else 1.0

    @property
    def now(self) -> float:
        """The moment that the model shows, by the clock that it goes by."""
        return self._now

    @property
    def reading(self) -> str:
        """The position of reading on its way to the moment to be shown; empty if there is nothing more to be read."""
        return f"reading {format_time(self._read_at)}" if self._steps is not None else ""

    @property
    def problem(self) -> str:
        """The parts of the recording that cannot be read, in sentences; empty if there are none."""
        problems = self._replay.problems
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[-1].rstrip('.')}{others}. The rest is shown." if problems else ""

    @property
    def problem_is_new(self) -> bool:
        return self._problem_count > 0 and self._problem_seconds < PROBLEM_NEW_SECONDS

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return self._steps is None and self._read_to == self.position

    @property
    def _is_within_reach(self) -> bool:
        """True if the messages that were read for another moment are enough for this one, too."""
        ahead = self.position - self._read_to
        return 0 <= ahead <= LOOK_BACK_SECONDS and self._read_from <= max(self.start, self.position - LOOK_BACK_SECONDS)

    def _begin(self) -> None:
        self._read_from = self._read_at = max(self.start, self.position - LOOK_BACK_SECONDS)
        self._next_model = Model(self.position, self._timeout_seconds)
        self._read_on(self.position - LOOK_BACK_SECONDS)

    def _read_on(self, after: float) -> None:
        self._read_to = self.position
        self._steps = self._replay.steps(after, self.position)

    def _take(self, step: Step) -> None:
        self._read_at = step.time
        if step.message is not None:
            self._next_model.apply(step.message, step.time)
            if self._next_model is self.model:
                self._now = step.time

    def _arrive(self) -> None:
        self._steps = None
        if self._is_there:
            self.model, self._now = self._next_model, self.position

    def _note_problems(self, seconds: float) -> None:
        count = len(self._replay.problems)
        self._problem_seconds = self._problem_seconds + seconds if count == self._problem_count else 0.0
        self._problem_count = count
