"""Sources: where the model comes from, the stream of a scheduler or (``replay``) files of recorded events."""

from __future__ import annotations

import time
from typing import Any, Protocol

import zmq

from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.web.status import live_status, replay_status

MARKS_PER_TURN = 10
"""Snapshots that are read for marks of failures before pages get their turn."""

TURN_SECONDS = 0.1
"""Seconds for which messages are taken in before pages get their turn."""


def obey(player: Player, command: dict[str, Any]) -> None:
    """``seek`` to unix seconds, ``go_to`` a time as people write it, ``play`` or not, at a ``speed``. ValueError, with
    a sentence, if the recording does not include the time."""
    if "seek" in command:
        player.seek(float(command["seek"]))
    if "go_to" in command:
        player.seek_text(str(command["go_to"]))
    if "speed" in command:
        player.set_speed(float(command["speed"]))
    if "play" in command and bool(command["play"]) is not player.plays:
        player.toggle()


class PageSource(Protocol):
    @property
    def model(self) -> Model: ...

    def advance(self) -> bool:
        """Take in what has come; False: there is more."""

    def status(self) -> dict[str, Any]: ...

    def control(self, command: dict[str, Any]) -> None:
        """Apply a command of the time scrubber. ValueError or TypeError for an invalid one."""

    @property
    def watched(self) -> str:
        """The address that was given for a scheduler; empty for a recording."""

    def close(self) -> None: ...


class LiveSource:
    """A scheduler. Raises ValueError if the text is not an address."""

    def __init__(self, address: str) -> None:
        self.watched = address
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._subscription = Subscription(self._context, address, events=True)
        except ValueError:
            self._context.term()
            raise
        self.model = Model(time.monotonic())

    def advance(self) -> bool:
        deadline = time.monotonic() + TURN_SECONDS
        while self._take():
            if time.monotonic() > deadline:
                return False
        return True

    def _take(self) -> bool:
        """Return whether there was anything."""
        try:
            received = self._subscription.receive()
        except FeedError as error:
            self.model.refuse(str(error))
            return True
        if received is not None:
            self.model.apply(received.message, time.monotonic())
        return received is not None

    def status(self) -> dict[str, Any]:
        return live_status(self.model, time.monotonic(), self.watched)

    def control(self, command: dict[str, Any]) -> None:
        """Nothing: what happens now cannot be stopped."""

    def close(self) -> None:
        self._subscription.close()
        self._context.term()


class RecordedSource:
    """A folder of event logs. ValueError when there is nothing to play, or not at the time to begin at."""

    watched = ""

    def __init__(self, folder: str, go_to: str | None = None) -> None:
        """``go_to``: the time at which it begins, as people write it."""
        self._folder = folder
        self._replay = Replay(folder)
        self._player = Player(self._replay)
        self._problem = ""
        if go_to is not None:
            self._player.seek_text(go_to)
        self._marks = FailureMarks(self._replay)
        self._advanced_at = time.monotonic()

    @property
    def model(self) -> Model:
        return self._player.model

    def advance(self) -> bool:
        now = time.monotonic()
        self._player.advance(now - self._advanced_at)
        self._advanced_at = now
        self._marks.read(MARKS_PER_TURN)
        while self._player.read():
            if time.monotonic() > now + TURN_SECONDS:
                return False
        return True

    def status(self) -> dict[str, Any]:
        return replay_status(self._player, self._folder, self._marks.shares, self._problem)

    def control(self, command: dict[str, Any]) -> None:
        self._problem = ""
        if "go_to" not in command:
            obey(self._player, command)
            return
        try:
            obey(self._player, {"go_to": command["go_to"]})
        except ValueError as error:
            self._problem = str(error)

    def close(self) -> None:
        self._replay.close()
