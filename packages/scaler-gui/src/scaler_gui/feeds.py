"""Feeds: a live stream from a scheduler, or a recording, into the monitor."""

from __future__ import annotations

import time
from typing import Protocol

import zmq
from PySide6.QtCore import QObject, QSocketNotifier, QTimer

from scaler_gui.models.recent import RecentAddress
from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.messages import MonitorMessage
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.subscription import Subscription

TURN_SECONDS = 0.02
"""After this long, key presses and painting get their turn before the next message."""

REPLAY_TICK_MILLISECONDS = 100

LOOK_MILLISECONDS = 1000
"""Period in which the descriptor's silence is checked: it does not show that the scheduler admits no monitor."""


class LiveTarget(Protocol):
    """The interface of the monitor to a live stream."""

    def take(self, message: MonitorMessage) -> None: ...

    def refuse(self, problem: str) -> None: ...


class ReplayTarget(Protocol):
    """The interface of the monitor to a recording."""

    def follow(self, player: Player, has_moved: bool) -> None: ...


class LiveFeed(QObject):
    """A live stream, which ends with its ``owner``. Raises ValueError with a sentence if ``place`` cannot be connected
    to."""

    def __init__(self, place: RecentAddress, owner: QObject, target: LiveTarget) -> None:
        super().__init__(owner)
        self._target = target
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._subscription = Subscription(self._context, place.address, events=True, keys=place.keys or None)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._notifier = QSocketNotifier(self._subscription.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._read)
        self._again = QTimer(self, singleShot=True, interval=0)
        self._again.timeout.connect(self._read)
        self._look = QTimer(self, interval=LOOK_MILLISECONDS)
        self._look.timeout.connect(self._read)
        self._look.start()
        self._again.start()  # the descriptor tells of changes only: what came before it was watched is read now

    def close(self) -> None:
        self._again.stop()
        self._look.stop()
        self._notifier.setEnabled(False)
        self._subscription.close()
        self._context.destroy(linger=0)
        self.deleteLater()

    def _read(self) -> None:
        """Everything that waits, but not for longer than a turn."""
        until = time.monotonic() + TURN_SECONDS
        while self._read_one():
            if time.monotonic() > until:
                self._again.start()
                return

    def _read_one(self) -> bool:
        try:
            received = self._subscription.receive()
        except FeedError as error:
            self._target.refuse(str(error))
            return True
        if received is not None:
            self._target.take(received.message)
        return received is not None


class ReplayFeed(QObject):
    """A recording, which plays until its ``owner`` ends. To move through it, move ``player``. Raises ValueError or
    OSError, with a sentence, if there is nothing to play."""

    def __init__(self, folder: str, owner: QObject, target: ReplayTarget) -> None:
        super().__init__(owner)
        self._target = target
        self._recording = Replay(folder)
        self.player = Player(self._recording)
        self.marks = FailureMarks(self._recording)
        self._last_tick = time.monotonic()
        self._timer = QTimer(self, interval=REPLAY_TICK_MILLISECONDS)
        self._timer.timeout.connect(self._on_timer)
        self._timer.start()
        self._again = QTimer(self, singleShot=True, interval=0)
        self._again.timeout.connect(self._read)

    def close(self) -> None:
        self._timer.stop()
        self._again.stop()
        self._recording.close()
        self.deleteLater()

    def _on_timer(self) -> None:
        now = time.monotonic()
        self.player.advance(now - self._last_tick)
        self._last_tick = now
        self._read()

    def _read(self) -> None:
        """On to the moment to be shown, but not for longer than a turn."""
        until, before = time.monotonic() + TURN_SECONDS, self.player.now
        while self.player.read():
            if time.monotonic() > until:
                self._again.start()
                break
        self._target.follow(self.player, self.player.now != before)
