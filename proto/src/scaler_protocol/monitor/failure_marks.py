"""Marks for the time bar of a recording: where tasks failed.

Snapshots count failures, so a few of them, spread over the recording, tell between which moments tasks failed. Their
number is bounded: a recording of days costs no more than one of minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.replay import Replay, Step

SNAPSHOTS_LIMIT = 200


class FailureMarks:
    """``shares``: from 0, the start of the recording, to 1, its end. Filled by :meth:`read`."""

    def __init__(self, replay: Replay) -> None:
        self.shares: list[float] = []
        self._start, self._span = replay.start, max(1e-9, replay.end - replay.start)
        self._snapshots: Iterator[Step] | None = replay.some_snapshots(SNAPSHOTS_LIMIT)
        self._before: tuple[float, Snapshot] | None = None

    def read(self, count: int) -> None:
        """Read so many snapshots more, as far as there are any."""
        for _ in range(count):
            if self._snapshots is None:
                return
            try:
                time, message = next(self._snapshots)
            except StopIteration:
                self._snapshots = None
                return
            if isinstance(message, Snapshot):
                self._take(time, message)

    def _take(self, time: float, snapshot: Snapshot) -> None:
        before, self._before = self._before, (time, snapshot)
        failed_before = 0
        if before is not None and before[1].scheduler.epoch == snapshot.scheduler.epoch:
            failed_before, time = before[1].tasks.failed, (before[0] + time) / 2
        if snapshot.tasks.failed > failed_before:
            self.shares.append(min(1.0, max(0.0, (time - self._start) / self._span)))
