"""Keeps the stream in a file, as far as there is room."""

from __future__ import annotations

import time

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.eventlog import EVENTS, SNAPSHOT, EventLogWriter
from scaler_protocol.monitor.messages import Events

RETRY_SECONDS = 1.0
"""How long a log that could not be written is left alone."""


class LogKeeper:
    """OSError or NotAnEventLog when the file cannot be written at the start."""

    def __init__(self, path: str) -> None:
        self._writer = EventLogWriter(path)
        self._failed_at: float | None = None

    def keep(self, kind: bytes, payload: bytes, names: dict[tuple[int, int], bytes]) -> str:
        """Append a message. A sentence when the log stops, or goes on, growing; else nothing."""
        now = time.time()
        if self._failed_at is not None and now - self._failed_at < RETRY_SECONDS:
            return ""
        try:
            if self._failed_at is not None:
                self._write_names(now, names)
            self._writer.write(SNAPSHOT if kind == feed.SNAPSHOT_KIND else EVENTS, now, payload)
        except OSError as error:
            is_news = self._failed_at is None
            self._failed_at = now
            return f"The event log {self._writer.path} cannot be written: {error.strerror}." if is_news else ""
        was_failed, self._failed_at = self._failed_at is not None, None
        return f"The event log {self._writer.path} is written again." if was_failed else ""

    def close(self) -> None:
        self._writer.close()

    def _write_names(self, now: float, names: dict[tuple[int, int], bytes]) -> None:
        """They may have been in what could not be written."""
        if names:
            self._writer.write(EVENTS, now, feed.encode(Events(now, records=b"".join(names.values()))))
