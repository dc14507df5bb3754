"""Reads the stacks of worker processes, from outside: see ``worker_process/stack_file.py``."""

from __future__ import annotations

import os
import time
from typing import Protocol

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_worker.worker_process.channel import STACK_FILE, STACK_SIGNAL

LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 2.0
"""A process that has not written its stack for this long is stopped, or starved of processor time."""

READ_LIMIT_BYTES = 256 * 1024
"""The agent reads the text character by character, and does nothing else meanwhile."""


class StackEvents(Protocol):
    def stack(self, request: int, text: str | None) -> None:
        """Take what the process wrote; None: nothing."""


class HostStacks:
    def __init__(self, loop: GuardedLoop, agent: StackEvents) -> None:
        self._loop = loop
        self._agent = agent

    def read(self, request: int, pid: int | None) -> None:
        """Answered by the event, later."""
        try:
            descriptor = open_memory_file(pid, STACK_FILE) if pid else None
        except OSError:
            descriptor = None
        if descriptor is None or pid is None:
            self._loop.call_soon(self._agent.stack, request, None)
            return
        _StackReading(self._loop, self._agent, request, descriptor).begin(pid)


class _StackReading:
    """The reading of one process's stack. It is complete when it has not grown between two looks."""

    def __init__(self, loop: GuardedLoop, agent: StackEvents, request: int, descriptor: int) -> None:
        self._loop = loop
        self._agent = agent
        self._request = request
        self._descriptor = descriptor
        self._size = 0
        self._deadline = time.monotonic() + PATIENCE_SECONDS

    def begin(self, pid: int) -> None:
        os.truncate(self._descriptor, 0)
        try:
            os.kill(pid, STACK_SIGNAL)
        except ProcessLookupError:
            self._deadline = 0.0
        self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        size = os.fstat(self._descriptor).st_size
        is_complete = size > 0 and size == self._size
        self._size = size
        if not is_complete and time.monotonic() < self._deadline:
            self._loop.call_later(LOOK_SECONDS, self._look)
            return
        text = os.pread(self._descriptor, READ_LIMIT_BYTES, 0).decode(errors="replace")
        os.close(self._descriptor)
        self._agent.stack(self._request, text if is_complete else None)


def open_memory_file(pid: int, kind: str) -> int | None:
    """The memory file with this name of a process; None: it has none. Raises OSError if the process has ended."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{kind}"):
            return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC)
    return None
