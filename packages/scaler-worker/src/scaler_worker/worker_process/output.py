"""Python's streams in a worker process. Both write to pipes that the agent reads."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from scaler_worker.worker_process import channel


class Shield:
    """A guard that delays the interrupt of a thread that is within: half a message would break the stream, and modules
    that were put in place by half would break later tasks. ``pending``: that of the main thread was delayed."""

    def __init__(self) -> None:
        self._inside: dict[int, None] = {}
        self.pending = False

    def covers(self, thread: int) -> bool:
        """Return whether the thread with this identifier is within."""
        return thread in self._inside

    def __enter__(self) -> None:
        self._inside[threading.get_ident()] = None

    def __exit__(self, *_: object) -> None:
        del self._inside[threading.get_ident()]
        if self.pending and threading.current_thread() is threading.main_thread():
            self.pending = False
            signal.raise_signal(channel.INTERRUPT_SIGNAL)


class NotingWriter(io.BufferedWriter):
    """``on_write`` is called for whatever is written."""

    def __init__(self, raw: io.RawIOBase, on_write: Callable[[], None]) -> None:
        super().__init__(raw)
        self._on_write = on_write

    def write(self, data: Any, /) -> int:
        self._on_write()
        return super().write(data)


class TaskOutput:
    """``sys.stdout`` and ``sys.stderr`` of tasks: they write whole lines, and call ``on_write`` for whatever is written
    to them."""

    def __init__(self, on_write: Callable[[], None]) -> None:
        self._on_write = on_write
        self._streams: tuple[io.TextIOWrapper, ...] = ()

    def install(self) -> None:
        self._streams = self._stream(channel.STDOUT), self._stream(channel.STDERR)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc]

    def _stream(self, descriptor: int) -> io.TextIOWrapper:
        buffer = NotingWriter(io.FileIO(descriptor, "w", closefd=False), self._on_write)
        return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True, write_through=True)

    def flush(self) -> None:
        """Write the rest, so that it reaches the agent ahead of the result of the task."""
        for stream in self._streams:
            with contextlib.suppress(OSError, ValueError):  # a task has closed it, or its descriptor
                stream.flush()
