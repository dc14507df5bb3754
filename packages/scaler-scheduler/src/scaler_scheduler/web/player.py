"""The player: which moment of a recording is shown, and a model that has heard what was said up to then."""

from __future__ import annotations

from typing import Any

from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.replay import Replay

LOOK_BACK_SECONDS = 600.0
"""How much before a chosen moment is read, so that charts, task log and task stream have a past."""

SPEEDS = (0.01, 1000.0)


class Player:
    """Time passes by :meth:`advance` only. A moment that is wished for is gone to then, so that of the many that a
    moving slider names one is read."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.playing = True
        self.speed = 1.0
        self.position = replay.start
        self.model = Model(replay.start)
        self._wished: float | None = replay.start

    @property
    def is_at_end(self) -> bool:
        return self.position >= self.replay.end

    def control(self, wish: dict[str, Any]) -> None:
        """``seek`` to unix seconds, ``play`` or not, at a ``speed``. ValueError for what is none."""
        if "seek" in wish:
            self._wished = max(self.replay.start, min(self.replay.end, float(wish["seek"])))
        if "speed" in wish:
            self.speed = max(SPEEDS[0], min(SPEEDS[1], float(wish["speed"])))
        if "play" in wish:
            self.playing = bool(wish["play"])
            if self.playing and self.is_at_end and self._wished is None:
                self._wished = self.replay.start

    def advance(self, seconds: float) -> None:
        """So much time of the watcher has passed. At its end the recording stands."""
        if self._wished is not None:
            self._go_to(self._wished)
            self._wished = None
        elif self.playing:
            self._play_to(min(self.replay.end, self.position + seconds * self.speed))
            self.playing = not self.is_at_end

    def _go_to(self, moment: float) -> None:
        if not self.position < moment <= self.position + LOOK_BACK_SECONDS:
            self.model = Model(moment)
            self.position = moment - LOOK_BACK_SECONDS
        self._play_to(moment)

    def _play_to(self, moment: float) -> None:
        for message in self.replay.messages(self.position, moment):
            self.model.apply(message, message.time if isinstance(message, Snapshot) and message.time else moment)
        self.position = moment
