"""The stream of a log whose reader may stop. The process that logs does not stop with it."""

from __future__ import annotations

import os
import select
import stat
from typing import TextIO

PATIENCE_SECONDS = 0.2
"""A reader that has taken nothing for so long has stopped. Until it reads again, no line waits for it."""

_LEFT_OUT = "[{} lines of the log were left out, because nothing read them]\n"


class LogStream:
    """Writes lines to the descriptor of ``stream``, a pipe, terminal, socket or file. Lines for which it has no room
    are left out, which a line says later."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._encoding = stream.encoding
        self._fd = _without_waiting(stream.fileno())
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._has_stopped = False
        self._rest = b""  # of a line whose beginning was written
        self._left_out = 0

    def write(self, line: str) -> None:
        """Raises OSError if nothing can be written any more."""
        if not self._write_all(self._rest):
            self._left_out += 1
            return
        if self._left_out:
            line, self._left_out = _LEFT_OUT.format(self._left_out) + line, 0
        self._write_all(line.encode(self._encoding, "backslashreplace"))

    def flush(self) -> None:
        """Nothing waits here that could be written."""

    def _write_all(self, data: bytes) -> bool:
        """Return whether all was written. The rest is kept."""
        self._rest = data
        while self._rest:
            if not self._poll.poll(0 if self._has_stopped else 1000 * PATIENCE_SECONDS):
                self._has_stopped = True
                return False
            try:
                written = os.write(self._fd, self._rest[: select.PIPE_BUF])
            except BlockingIOError:
                written = 0  # another process has filled the pipe meanwhile
                self._has_stopped = True
            else:
                self._has_stopped = False
            self._rest = self._rest[written:]
        return True


def _without_waiting(fd: int) -> int:
    """Return a descriptor of the same pipe on which no write waits. That of others stays as it is."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        try:
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            pass  # the pipe of another user, or without a reader
    return fd
