"""The source of a screen's model: a scheduler, or a recording."""

from __future__ import annotations

import time
from typing import Protocol

import zmq

from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.past import find_past
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.top import replay
from scaler_scheduler.top.lines import Line

_MARKS_PER_TURN = 5
TURN_SECONDS = 0.05
"""After this time, keys get their turn before the next message."""


class ScreenSource(Protocol):
    """The source of the model that the application draws."""

    @property
    def repaint_seconds(self) -> float:
        """Maximum seconds between paintings, since ages on the screen grow by themselves."""

    @property
    def model(self) -> Model: ...

    @property
    def now(self) -> float:
        """The time on the clock of the model."""

    def register(self, poller: zmq.Poller) -> None:
        """Register the descriptors that wake the application."""

    def take(self) -> None:
        """Everything that has come."""

    def pressed(self, key: str) -> bool:
        """Return whether the key was for this source."""

    def go_to(self, text: str) -> float | None:
        """Show a time as people write it. Returns the moment at which the task stream ends then, and None if all pages
        show that time. ValueError, with a sentence, if nothing is known of it."""

    def line(self, width: int, blocks: bool) -> Line:
        """A line below everything else; empty: none."""


class Live:
    """A scheduler that is watched."""

    repaint_seconds = 1.0

    def __init__(self, subscription: Subscription, timeout_seconds: float) -> None:
        self._subscription = subscription
        self._model = Model(time.monotonic(), timeout_seconds)

    @property
    def model(self) -> Model:
        return self._model

    @property
    def now(self) -> float:
        return time.monotonic()

    def register(self, poller: zmq.Poller) -> None:
        poller.register(self._subscription.socket, zmq.POLLIN)

    def take(self) -> None:
        until = time.monotonic() + TURN_SECONDS
        while time.monotonic() < until and self._take_one():
            pass

    def pressed(self, key: str) -> bool:
        return False

    def go_to(self, text: str) -> float | None:
        return find_past(self._model, text, "scaler_top")

    def line(self, width: int, blocks: bool) -> Line:
        return ()

    def _take_one(self) -> bool:
        try:
            received = self._subscription.receive()
        except FeedError as error:
            self._model.refuse(str(error))
            return True
        if received is not None:
            self._model.apply(received.message, time.monotonic())
        return received is not None


class Recording:
    """A recording that is played."""

    def __init__(self, player: Player, marks: FailureMarks) -> None:
        self._player = player
        self._marks = marks
        self._advanced_at = time.monotonic()

    @property
    def repaint_seconds(self) -> float:
        return 0.0 if self._player.reading else 0.1

    @property
    def model(self) -> Model:
        return self._player.model

    @property
    def now(self) -> float:
        return self._player.now

    def register(self, poller: zmq.Poller) -> None:
        """Nothing: it goes by the clock."""

    def take(self) -> None:
        now = time.monotonic()
        self._player.advance(now - self._advanced_at)
        self._advanced_at = now
        self._marks.read(_MARKS_PER_TURN)
        while self._player.read() and time.monotonic() < now + TURN_SECONDS:
            pass
        self._tell_problem()

    def pressed(self, key: str) -> bool:
        return replay.press(self._player, key)

    def go_to(self, text: str) -> float | None:
        self._player.seek_text(text)
        return None

    def line(self, width: int, blocks: bool) -> Line:
        return replay.line(self._player, width, blocks, self._marks.shares)

    def _tell_problem(self) -> None:
        """Show the problem for a while: the status line has other things to show too."""
        problem = self._player.problem
        if self._player.problem_is_new:
            self.model.refuse(problem)
        elif self.model.problem == problem:
            self.model.problem = None
