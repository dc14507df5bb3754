"""The poller of a client's thread: its connection, and a descriptor by which other threads wake it."""

from __future__ import annotations

import math
import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.shell.connection import ClientConnection

_POLL_SECONDS = 3600.0


class Waker:
    """A descriptor that is readable from ``wake`` until ``clear``. ``wake`` is idempotent and never blocks."""

    fd = _writer = -1

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._woken = False

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            try:
                os.write(self._writer, b"w")
            except OSError:  # full: then it is readable already; closed: no thread polls
                pass

    def clear(self) -> None:
        """Look for work after this call, not before: a wake before it returns may leave no other trace."""
        try:
            os.read(self.fd, 64)
        except OSError:
            pass
        self._woken = False  # not before the read, which would eat the byte of a wake that came between

    def __del__(self) -> None:
        if self.fd >= 0:  # it may have been interrupted before it had any
            try:
                os.close(self.fd)
            finally:  # also when Ctrl-C comes just now
                os.close(self._writer)


class Poller:
    """Polls the connection, its monitor and a waker, for one thread."""

    def __init__(self, connection: ClientConnection, waker: Waker) -> None:
        self._fd = connection.fd
        self._monitor_fd = connection.monitor_fd
        self._waker = waker
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(waker.fd, select.POLLIN)
        self._writes = False
        waker_poll = select.poll()
        waker_poll.register(waker.fd, select.POLLIN)
        self.poll_waker = waker_poll.poll
        """Polls the waker alone, for milliseconds or without limit (None). True if it was woken: then clear it."""
        self.monitor_ready = True
        if self._monitor_fd is not None:
            self._poll.register(self._monitor_fd, select.POLLIN)

    def poll(self, until: float | None, writes: bool) -> None:
        if writes != self._writes:
            self._poll.modify(self._fd, select.POLLIN | select.POLLOUT if writes else select.POLLIN)
            self._writes = writes
        seconds = _POLL_SECONDS if until is None else until - time.monotonic()
        ready = self._poll.poll(math.ceil(min(seconds, _POLL_SECONDS) * 1000) if seconds > 0 else 0)
        self.monitor_ready = self._monitor_fd is None
        for fd, _ in ready:
            if fd == self._monitor_fd:
                self.monitor_ready = True
            elif fd == self._waker.fd:
                self._waker.clear()
