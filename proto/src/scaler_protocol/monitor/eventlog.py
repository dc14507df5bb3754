"""Writes files that keep the monitor stream; what they are made of is in ``log_frames``. A log may end anywhere, also
inside a frame: its writer may have been killed."""

from __future__ import annotations

import errno
import os

from scaler_protocol.monitor.log_frames import EVENTS, MAGIC, SNAPSHOT, BadLog, frame, frames

__all__ = ["EVENTS", "SNAPSHOT", "EventLogWriter", "NotAnEventLog"]


class NotAnEventLog(ValueError):
    """The text is one plain sentence."""


class EventLogWriter:
    """Appends to a log, made when it is not there; what is left of a frame at its end is cut off. OSError when the file
    cannot be opened, NotAnEventLog when it is something else."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._end = self._find_end()
            os.ftruncate(self._descriptor, self._end)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def size(self) -> int:
        return self._end

    @property
    def is_whole(self) -> bool:
        """Whether all that was written is still under its name: files are deleted, moved and cut by others."""
        try:
            found, own = os.stat(self.path), os.fstat(self._descriptor)
        except OSError:
            return False
        return os.path.samestat(found, own) and own.st_size >= self._end

    def write(self, kind: int, time: float, payload: bytes) -> None:
        """One frame, whole or (OSError) not at all."""
        self.append(frame(kind, time, payload))

    def append(self, data: bytes) -> None:
        """The same, for what ``log_frames.frame`` made."""
        try:
            if os.pwrite(self._descriptor, data, self._end) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        os.close(self._descriptor)

    def _find_end(self) -> int:
        if os.fstat(self._descriptor).st_size < len(MAGIC):
            os.ftruncate(self._descriptor, 0)
            self._end = 0
            self.append(MAGIC)
            return len(MAGIC)
        stop = len(MAGIC)
        try:
            with open(self._descriptor, "rb", closefd=False) as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise NotAnEventLog(f"{self.path} is not an event log of a Scaler scheduler.")
                for found in frames(file):
                    stop = found.offset + found.size
        except BadLog:  # the last frame is incomplete
            pass
        return stop
