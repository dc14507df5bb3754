"""Keeps the stream in files, as far as there is room: a new one after 64 MiB or a day, the oldest deleted when all
together would exceed the configured size."""

from __future__ import annotations

import contextlib
import os
import time

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.eventlog import EVENTS, SNAPSHOT, EventLogWriter
from scaler_protocol.monitor.log_frames import SUFFIX, frame
from scaler_scheduler.shell.event_stream import EventStream

RETRY_SECONDS = 1.0
"""Seconds until a log that could not be written is tried again."""

FILE_LIMIT_BYTES = 64 * 1024 * 1024
FILE_LIMIT_SECONDS = 86_400.0
FILES = 8
"""Least number of files that make up the whole, if that is bounded: a deleted file takes at most that part of it."""


def log_name(now: float, epoch: str) -> str:
    """The file of a log that begins now. Names in their order are files in theirs."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{epoch}{SUFFIX}"


class LogKeeper:
    """``path``: the first file, as ``log_name`` calls it; what this scheduler wrote last is gone on with. OSError or
    NotAnEventLog when the file cannot be written at the start. ``limit_bytes``: of all files in its folder; 0: none."""

    def __init__(self, path: str, limit_bytes: int = 0) -> None:
        self.is_failing = False
        self._folder = os.path.dirname(path) or "."
        self._epoch = path.rpartition("-")[2].removesuffix(SUFFIX)
        self._limit_bytes = limit_bytes
        self._file_bytes = min(FILE_LIMIT_BYTES, limit_bytes // FILES or FILE_LIMIT_BYTES)
        own = [each for each in self._files() if each.endswith(f"-{self._epoch}{SUFFIX}")]
        self._use(EventLogWriter(own[-1] if own else path))
        self._last_snapshot: bytes | None = None
        self._failed_at = 0.0
        self._delete_oldest()

    def keep(self, kind: bytes, payload: bytes, stream: EventStream) -> str:
        """Append a message of ``stream``. A sentence when the log stops, or goes on, growing; else nothing."""
        now = time.time()
        if self.is_failing and 0 <= now - self._failed_at < RETRY_SECONDS:
            return ""
        try:
            gone = self._replace_gone(stream, now) if kind == feed.SNAPSHOT_KIND else ""
            self._write(kind, payload, stream, now)
        except OSError as error:
            is_news, self.is_failing, self._failed_at = not self.is_failing, True, now
            return f"The event log {self._writer.path} cannot be written: {error.strerror}." if is_news else ""
        was_failing, self.is_failing = self.is_failing, False
        return gone or (f"The event log {self._writer.path} is written again." if was_failing else "")

    def close(self) -> None:
        self._writer.close()

    def _write(self, kind: bytes, payload: bytes, stream: EventStream, now: float) -> None:
        code = SNAPSHOT if kind == feed.SNAPSHOT_KIND else EVENTS
        data = frame(code, now, payload)
        if self._is_full(len(data), now):
            self._begin_file(stream, now)
        elif self.is_failing:
            _write_names(self._writer, stream, now)  # they may have been in what could not be written
        self._writer.append(data)
        if code == SNAPSHOT:
            self._last_snapshot = payload

    # ---- files -------------------------------------------------------------------------------------------------------

    def _use(self, writer: EventLogWriter) -> None:
        self._writer, self._begun_at, self._begun_bytes = writer, time.time(), writer.size

    def _replace_gone(self, stream: EventStream, now: float) -> str:
        """Begin another file if this one was deleted, moved or cut. Returns a sentence about the new file, or ""."""
        if self._writer.is_whole:
            return ""
        gone = self._writer.path
        self._begin_file(stream, now)
        if self._writer.path == gone and not self._writer.is_whole:
            return ""  # within the second in which it began
        return f"The event log {gone} was deleted, moved or cut by others; it goes on in {self._writer.path}."

    def _is_full(self, more_bytes: int, now: float) -> bool:
        has_room = self._writer.size + more_bytes <= self._file_bytes and now - self._begun_at < FILE_LIMIT_SECONDS
        return not has_room and self._writer.size > self._begun_bytes

    def _begin_file(self, stream: EventStream, now: float) -> None:
        """Each file can be played without those before it. Within one second there is one."""
        path = os.path.join(self._folder, log_name(now, self._epoch))
        if os.path.exists(path):
            return
        try:
            writer = self._new_file(path, stream, now)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        self._writer.close()
        self._use(writer)
        self._delete_oldest()

    def _new_file(self, path: str, stream: EventStream, now: float) -> EventLogWriter:
        writer = EventLogWriter(path)
        try:
            _write_names(writer, stream, now)
            if self._last_snapshot is not None:
                writer.append(frame(SNAPSHOT, now, self._last_snapshot))
        except OSError:
            writer.close()
            raise
        return writer

    def _files(self) -> list[str]:
        """All logs in the folder, the oldest first."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [os.path.join(self._folder, name) for name in sorted(names) if name.endswith(SUFFIX)]

    def _delete_oldest(self) -> None:
        """Delete the oldest files so that there is room for another complete file."""
        if not self._limit_bytes:
            return
        sizes = {path: _size(path) for path in self._files() if path != self._writer.path}
        room = self._limit_bytes - max(self._file_bytes, self._writer.size) - sum(sizes.values())
        for path, size in sizes.items():
            if room >= 0:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
                room += size


def _write_names(writer: EventLogWriter, stream: EventStream, now: float) -> None:
    for payload in stream.named():
        writer.append(frame(EVENTS, now, payload))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
