"""The monitor: the model that all panes read, and the feed that fills it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from scaler_gui.models.recent import RecentAddress
from scaler_gui.models.status import ConnectionStatus, live_status, replay_status
from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.messages import Events, MonitorMessage, Snapshot
from scaler_protocol.monitor.model import DEFAULT_TIMEOUT_SECONDS, Model
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.tables import Row

TICK_MILLISECONDS = 1000
EVENTS_MILLISECONDS = 330
"""Milliseconds after events until panes that show them are told, so that a flood costs no more than three paintings a
second."""

_CLOCK_AHEAD_SECONDS = 1.5
"""Seconds that the time shown may run ahead of the last message."""


class Feed(Protocol):
    """The source of messages."""

    def close(self) -> None: ...


class Monitor(QObject):
    """Tells panes: ``ticked`` about once a second, ``events_came`` at most three times a second, ``replaced`` when the
    model is another one."""

    ticked = Signal()
    events_came = Signal()
    replaced = Signal()
    status_changed = Signal(object)

    def __init__(self, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        super().__init__()
        self._timeout_seconds = timeout_seconds
        self.model = self._new_model()
        self.place: RecentAddress | None = None
        self.recording = ""
        self.player: Player | None = None
        """The player of the recording that is shown; None while the stream is live."""

        self.marks: FailureMarks | None = None
        """The moments at which tasks failed in the recording that is shown."""

        self.problem = ""
        """The reason why no messages can arrive: one sentence."""

        self._feed: Feed | None = None
        self._status: ConnectionStatus | None = None
        self._heard_at = 0.0
        self._snapshot: Snapshot | None = None
        self._tick = QTimer(self, interval=TICK_MILLISECONDS)
        self._tick.timeout.connect(self._on_tick)
        self._tick.start()
        self._events = QTimer(self, singleShot=True, interval=EVENTS_MILLISECONDS)
        self._events.timeout.connect(self.events_came)

    # ---- where it comes from -----------------------------------------------------------------------------------

    def connect_to(self, place: RecentAddress) -> None:
        """Watch a scheduler from now on. A place where one cannot connect is said in the status."""
        from scaler_gui.feeds import LiveFeed  # not before the window is there

        self._start(place=place)
        try:
            self._feed = LiveFeed(place, self, self)
        except (ValueError, OSError) as error:
            self.problem = str(error)
        self._finish_start()

    def replay(self, folder: str) -> None:
        """Show a recording. One that cannot be read is said in the status."""
        from scaler_gui.feeds import ReplayFeed

        self._start(recording=folder)
        try:
            feed = ReplayFeed(folder, self, self)
        except (ValueError, OSError) as error:
            self.problem = str(error)
        else:
            self._feed, self.player, self.model = feed, feed.player, feed.player.model
            self.marks = feed.marks
        self._finish_start()

    def close(self) -> None:
        self._tick.stop()
        self._events.stop()
        self._drop_feed()

    # ---- what feeds say ----------------------------------------------------------------------------------------

    def take(self, message: MonitorMessage) -> None:
        self._heard_at = time.monotonic()
        first = self.model.snapshot is None
        self.model.apply(message, self._heard_at)
        if isinstance(message, Events):
            self._tell_of_events()
        elif first:
            self._on_tick()
        else:
            self._tick.start()  # the next one comes with the next snapshot, not just before it
            self._on_tick()

    def refuse(self, problem: str) -> None:
        self.model.refuse(problem)
        self._tell_status()

    def show(self, model: Model) -> None:
        """Another model: all that was known is forgotten."""
        self.model = model
        self.replaced.emit()
        self._tell_status()

    def follow(self, player: Player, has_moved: bool) -> None:
        """A recording is being read, which may have moved what it shows."""
        if player.model is not self.model:
            self.show(player.model)
        elif has_moved:
            self._tell_of_events()
            if player.model.snapshot is not self._snapshot:
                self._on_tick()
        self._snapshot = player.model.snapshot
        self._tell_status()

    # ---- what panes ask ----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The scheduler's clock, which runs on between messages."""
        if self.player is not None:
            return self.player.now
        ahead = min(time.monotonic() - self._heard_at, _CLOCK_AHEAD_SECONDS) if self._heard_at else 0.0
        return self.model.time + ahead if self.model.time else time.time()

    def rows(
        self, table: str, filter_text: str, sort_key: str, descending: bool, offset: int, limit: int
    ) -> tuple[Sequence[Row], int]:
        return self.model.rows(table, filter_text, sort_key, descending, offset, limit)

    def failure_details(self, group: int) -> str:
        return self.model.failure_details(group)

    @property
    def status(self) -> ConnectionStatus:
        if self.recording:
            return replay_status(self.player, self.recording, self.problem)
        if self.place is None:
            return ConnectionStatus("Not connected: Ctrl+O connects to a scheduler, Ctrl+R opens a recording")
        if self.problem:
            return ConnectionStatus(self.place.address, self.problem)
        return live_status(self.model, time.monotonic(), self.place.address)

    # ---- inside ------------------------------------------------------------------------------------------------

    def _new_model(self) -> Model:
        return Model(time.monotonic(), self._timeout_seconds)

    def _start(self, place: RecentAddress | None = None, recording: str = "") -> None:
        self._drop_feed()
        self.place, self.recording, self.player, self.problem = place, recording, None, ""
        self.model = self._new_model()
        self._heard_at = 0.0

    def _finish_start(self) -> None:
        self.replaced.emit()
        self._tell_status()

    def _drop_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _on_tick(self) -> None:
        self._events.stop()  # all panes look now
        self.ticked.emit()
        self._tell_status()

    def _tell_of_events(self) -> None:
        if not self._events.isActive():
            self._events.start()

    def _tell_status(self) -> None:
        status = self.status
        if status != self._status:
            self._status = status
            self.status_changed.emit(status)
