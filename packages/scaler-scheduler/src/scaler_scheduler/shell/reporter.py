"""Feeds the publisher: a snapshot a second or less often, and event records while they are wanted."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace

import psutil

from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import MessageCount, Snapshot
from scaler_scheduler.shell.gateway import Gateway
from scaler_scheduler.shell.monitor_socket import MonitorSocket
from scaler_scheduler.shell.publisher import Publisher

_PERIOD_SECONDS = 1.0
_PAUSE_FACTOR, _LONGEST_PERIOD_SECONDS = 99, 4.0
"""The pause before the next snapshot is this many times the time that a snapshot takes, if the limit allows it:
monitors give a scheduler up after five seconds without a message."""

_LOOK_SECONDS = 0.2
"""Period in which new watchers are noticed."""

_RING_SECONDS = 0.02
"""The same for memory that was asked of the publisher: until it is there, nothing is recorded for that watcher."""

_START_SECONDS = 0.25
"""Seconds until the publisher is started: when a complete cluster starts, the first tasks need the processors more."""


def due_after(due: float, started: float, busy_seconds: float) -> float:
    """Return when to take the snapshot after one that was due and started at these times and took so much processor
    time. While snapshots take long, they are rarer: at least half of the time is left to tasks, and almost all of it
    while that keeps monitors informed."""
    pause = max(busy_seconds, min(busy_seconds * _PAUSE_FACTOR, _LONGEST_PERIOD_SECONDS - busy_seconds))
    return max(due + _PERIOD_SECONDS, started + busy_seconds + pause)


class Reporter:
    """Starts the publisher while the scheduler runs: tasks need not wait for monitors. Only an event log, which is
    to have everything, is there before the first message is taken in."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        gateway: Gateway,
        monitor_address: str,
        event_log: str | None = None,
        event_log_limit_bytes: int = 0,
        monitor_socket: MonitorSocket | None = None,
        log_tail: LogTail | None = None,
    ) -> None:
        """``log_tail``: lines that monitors show; None: a new one, which has none."""
        self.error: str | None = None
        self._loop = loop
        self._gateway = gateway
        self._publisher = Publisher(monitor_address, event_log, event_log_limit_bytes, monitor_socket)
        self._keeps_log = event_log is not None
        self._log_tail = log_tail or LogTail()
        self._recording = 0
        self._due = 0.0
        self._process = psutil.Process()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        gateway.describe = self._describe

    def start(self) -> None:
        """``error`` says why the publisher cannot listen. Without an event log this returns at once, and the loop is
        stopped should there be an error."""
        if self._keeps_log:
            self._start_with_log()
        else:
            self._timer = self._loop.call_later(_START_SECONDS, self._begin)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._keeps_log and self.error is None:
            self._report_log()
            self._publisher.publish_last(self._snapshot())
        self._publisher.close()

    def _start_with_log(self) -> None:
        try:
            self._publisher.start()
        except OSError as error:
            self.error = str(error)
            return
        self._record_from_the_start()
        self._report()

    def _begin(self) -> None:
        try:
            self._publisher.begin()
        except OSError as error:
            self._fail(str(error))
        else:
            self._report()

    def _fail(self, error: str) -> None:
        self.error = error
        self._loop.stop()

    def _record_from_the_start(self) -> None:
        ring = self._publisher.wait_for_ring(0, self._gateway.core.state.settings.epoch)
        if ring is not None:
            self._recording = self._publisher.wants_events()
            self._gateway.record(ring, time.time() - time.monotonic())

    def _report(self) -> None:
        self._look_again_after(_LOOK_SECONDS)
        watched = self._publisher.watched()
        for warning in self._publisher.take_warnings():
            logging.warning(warning)
        if self._publisher.error is not None:
            self._fail(self._publisher.error)
        self._record_events_if_watched()
        self._report_log()
        now = time.monotonic()
        if not watched:
            self._due = now
        elif now >= self._due:
            busy_before = time.thread_time()
            self._publisher.publish(self._snapshot())
            self._due = due_after(self._due, now, time.thread_time() - busy_before)
        if self._publisher.wants_events() not in (0, self._recording):
            self._look_again_after(_RING_SECONDS)

    def _report_log(self) -> None:
        lines = self._log_tail.take()
        if lines:
            self._gateway.core.on_logged(lines, time.monotonic())

    def _look_again_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._report)

    def _record_events_if_watched(self) -> None:
        wanted = self._publisher.wants_events()
        offset = time.time() - time.monotonic()
        events = self._gateway.core.state.events
        events.set_clock(offset)
        if wanted == self._recording:
            return
        ring = None
        if wanted:
            ring = self._publisher.ring(events.recorded + events.dropped, self._gateway.core.state.settings.epoch)
        if ring is not None or self._recording:
            self._recording = wanted if ring is not None else 0
            self._gateway.record(ring, offset)

    def _describe(self) -> bytes:
        """A snapshot for a message to a client; empty when it is too large for one."""
        payload = zlib.compress(feed.encode(self._snapshot(), 0), 1)
        return payload if len(payload) <= MESSAGE_LIMIT_BYTES else b""

    def _snapshot(self) -> Snapshot:
        gateway = self._gateway
        snapshot = gateway.core.snapshot(time.monotonic())
        snapshot = replace(
            snapshot,
            time=time.time(),
            sent=_counts(gateway.sent),
            received=_counts(gateway.received),
            trouble=self._publisher.trouble,
        )
        return snapshot.with_process(self._process.cpu_percent(), self._process.memory_info().rss)


def _counts(counts: Mapping[type, int]) -> tuple[MessageCount, ...]:
    """Return the counts by class of body."""
    return tuple(MessageCount(name, count) for name, count in sorted((kind.__name__, counts[kind]) for kind in counts))
