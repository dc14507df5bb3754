"""The output of a task, for a client that requested it."""

from __future__ import annotations

import io
import os
import select
import signal
import threading
from typing import Any, TextIO

from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.worker_process import channel

PIECE_CHARACTERS = 16 * 1024

OUTGOING_LIMIT_BYTES = 64 * 1024
"""A task waits at this limit when it prints faster than the agent reads."""

WAIT_MILLISECONDS = 50


class Shield:
    """A guard that delays an interrupt while the main thread is within: half a message would break the stream."""

    def __init__(self) -> None:
        self.closed = False
        self.pending = False

    def __enter__(self) -> None:
        self.closed = threading.current_thread() is threading.main_thread()

    def __exit__(self, *_: object) -> None:
        self.closed = False
        if self.pending and threading.current_thread() is threading.main_thread():
            self.pending = False
            signal.raise_signal(channel.INTERRUPT_SIGNAL)


class OutputChannel:
    """The way of one task's output to the agent, for all threads of the task. Closed, it takes nothing more: threads
    that outlive their task print to nothing, and so do forks of the process: the stream is not theirs."""

    def __init__(self, sequence: int, connection: StreamConnection, shield: Shield) -> None:
        self._sequence = channel.pack_number(sequence)
        self._connection = connection
        self._shield = shield
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._open = True

    def send(self, stream: int, data: bytes) -> bool:
        """Return whether it is taken. Blocks while too much waits to be written."""
        if os.getpid() != self._pid:
            return False
        with self._lock, self._shield:
            is_taken = self._open
            if is_taken:
                self._connection.send([channel.OUTPUT, self._sequence, channel.pack_number(stream), data])
        while self._is_full():
            self._wait()
            with self._lock, self._shield:
                if self._open:
                    self._connection.flush()
        return is_taken

    def _wait(self) -> None:
        poll = select.poll()  # of its own: two threads must not share one
        poll.register(self._connection.fd, select.POLLOUT)
        poll.poll(WAIT_MILLISECONDS)

    def close(self) -> None:
        with self._lock:
            self._open = False

    def _is_full(self) -> bool:
        connection = self._connection
        return self._open and not connection.eof and connection.outgoing_bytes > OUTGOING_LIMIT_BYTES


class OutputBuffer(io.RawIOBase):
    """``sys.stdout.buffer`` of a task."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        self._stream.write(content.decode(errors="replace"))
        return len(content)


class OutputStream(io.TextIOBase):
    """Sends what is written to the agent. ``echoes``: and writes it to the process's own stream. Without that, only
    what the agent does not take goes there."""

    def __init__(self, original: TextIO, stream: int, target: OutputChannel, echoes: bool) -> None:
        self._original = original
        self._stream = stream
        self._target = target
        self._echoes = echoes

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def buffer(self) -> OutputBuffer:
        return OutputBuffer(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._original.fileno()

    def write(self, text: str) -> int:
        for start in range(0, len(text), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            is_taken = self._target.send(self._stream, piece.encode(errors="replace"))
            if self._echoes or not is_taken:
                self._original.write(piece)
        return len(text)

    def flush(self) -> None:
        self._original.flush()
