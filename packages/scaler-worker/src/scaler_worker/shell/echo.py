"""Writes what tasks print to stdout and stderr of the agent. Nothing waits until these are read."""

from __future__ import annotations

import os
import threading
from collections import deque

from scaler_protocol.command.threads import start_thread

LIMIT_BYTES = 1024 * 1024
"""Text that waits to be written. Further text is left out, which a line says later."""

LAST_SECONDS = 0.5
"""Time that the end of the agent waits until the rest is written."""


class HostEcho:
    """A thread writes, as long as there is something to write."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._left_out = 0
        self._changed = threading.Condition()
        self._runs = False
        self._closed = False

    def write(self, descriptor: int, data: bytes) -> None:
        """Returns at once."""
        with self._changed:
            if self._closed:
                return
            if self._bytes + len(data) > LIMIT_BYTES:
                self._left_out += len(data)
                return
            if self._left_out:
                data = b"[%d bytes of output were left out]\n" % self._left_out + data
                self._left_out = 0
            self._waiting.append((descriptor, data))
            self._bytes += len(data)
            self._start()
            self._changed.notify_all()

    def close(self) -> None:
        """Write the rest, if it is read within a moment. May be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._runs, LAST_SECONDS)

    def _start(self) -> None:
        """Start the thread unless it runs. If there can be none, the text waits for the next attempt."""
        if self._runs:
            return
        try:
            start_thread(self._run)
            self._runs = True
        except RuntimeError:
            pass

    def _run(self) -> None:
        try:
            self._write_all()
        except MemoryError:
            pass  # the next text starts another thread
        finally:
            with self._changed:
                self._runs = False
                self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                descriptor, data = self._waiting.popleft()
                self._bytes -= len(data)
            _write(descriptor, data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:  # it is closed
        pass
