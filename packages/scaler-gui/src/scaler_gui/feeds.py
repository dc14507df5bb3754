"""Feeds: a live stream from a scheduler, or a recording, into the monitor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq
from PySide6.QtCore import QObject, QSocketNotifier, QTimer

from scaler_gui.models.recent import Place
from scaler_gui.models.replay_clock import ReplayClock
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.subscription import Subscription

if TYPE_CHECKING:
    from scaler_gui.monitor import Monitor

TURN_SECONDS = 0.02
"""After so long, keys and paintings get their turn before the next message."""

REPLAY_TICK_MILLISECONDS = 100
LOOK_BACK_SECONDS = 120.0
"""How much before the moment chosen is read, so that charts and task stream have a past."""


class LiveFeed(QObject):
    """ValueError with a sentence when one cannot connect there."""

    def __init__(self, place: Place, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._monitor = monitor
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._subscription = Subscription(self._context, place.address, events=True, keys=place.keys or None)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        descriptor = self._subscription.socket.getsockopt(zmq.FD)
        assert isinstance(descriptor, int)
        self._notifier = QSocketNotifier(descriptor, QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._read)
        self._again = QTimer(self, singleShot=True, interval=0)
        self._again.timeout.connect(self._read)
        self._again.start()  # the descriptor tells of changes only: what came before it was watched is read now

    def close(self) -> None:
        self._again.stop()
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
            self._monitor.refuse(str(error))
            return True
        if received is not None:
            self._monitor.take(received.message)
        return received is not None


class ReplayFeed(QObject):
    """Plays a recording by its clock; whoever moves the clock calls :meth:`seek`. ValueError or OSError with a sentence
    when there is nothing to play."""

    def __init__(self, folder: str, monitor: Monitor) -> None:
        super().__init__(monitor)
        self._monitor = monitor
        self._recording = Replay(folder)
        self.clock = ReplayClock(self._recording.start, self._recording.end)
        self._shown_to = self.clock.position
        self._last_tick = time.monotonic()
        self._timer = QTimer(self, interval=REPLAY_TICK_MILLISECONDS)
        self._timer.timeout.connect(self._on_timer)
        self._timer.start()

    def close(self) -> None:
        self._timer.stop()
        self._recording.close()
        self.deleteLater()

    def _on_timer(self) -> None:
        now = time.monotonic()
        passed, self._last_tick = now - self._last_tick, now
        self.clock.advance(passed)
        if self.clock.position != self._shown_to:
            self._show()

    def _show(self) -> None:
        """What the clock says now: on from where it was, or all anew after a jump."""
        position = self.clock.position
        if position < self._shown_to or position - self._shown_to > LOOK_BACK_SECONDS:
            first = max(self.clock.start, position - LOOK_BACK_SECONDS)
            self._monitor.start_again(list(self._recording.messages(first, position)))
        else:
            for message in self._recording.messages(self._shown_to, position):
                self._monitor.take(message)
        self._shown_to = position
        self._monitor.problem = "; ".join(self._recording.problems[:1])
