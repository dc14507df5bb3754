"""An event loop whose callbacks run inside a TurnGuard.

asyncio logs an exception of a callback and goes on, whatever state it leaves behind. Here each callback is a turn: a
process whose callbacks keep failing ends with a diagnosis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from scaler_protocol.command.prompt_loop import Alarm, add_alarm, add_prompt_reader, remove_prompt_reader
from scaler_protocol.command.turn_guard import TurnGuard

Callback = Callable[..., object]


class GuardedLoop:
    """``loop`` with ``guard`` around each callback. The methods are those of asyncio and of ``prompt_loop``.

    ``after_callback`` is called inside the guard after each callback that has not raised."""

    def __init__(self, loop: asyncio.AbstractEventLoop, guard: TurnGuard) -> None:
        self._loop = loop
        self._guard = guard
        self.after_callback: Callable[[], object] = _nothing

    def _call(self, callback: Callback, *arguments: object) -> None:
        with self._guard:
            callback(*arguments)
            self.after_callback()

    def failed(self, what: str, error: Exception) -> None:
        """Part of the current callback failed and was survived, see TurnGuard."""
        self._guard.failed(what, error)

    def call_soon(self, callback: Callback, *arguments: object) -> asyncio.Handle:
        return self._loop.call_soon(self._call, callback, *arguments)

    def call_later(self, seconds: float, callback: Callback, *arguments: object) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, self._call, callback, *arguments)

    def call_soon_threadsafe(self, callback: Callback, *arguments: object) -> asyncio.Handle:
        return self._loop.call_soon_threadsafe(self._call, callback, *arguments)

    def add_reader(self, fd: int, callback: Callback, *arguments: object) -> None:
        self._loop.add_reader(fd, self._call, callback, *arguments)

    def remove_reader(self, fd: int) -> bool:
        return self._loop.remove_reader(fd)

    def add_writer(self, fd: int, callback: Callback, *arguments: object) -> None:
        self._loop.add_writer(fd, self._call, callback, *arguments)

    def remove_writer(self, fd: int) -> bool:
        return self._loop.remove_writer(fd)

    def add_prompt_reader(self, fd: int, serve: Callable[[], object]) -> None:
        add_prompt_reader(self._loop, fd, partial(self._call, serve))

    def remove_prompt_reader(self, fd: int) -> bool:
        return remove_prompt_reader(self._loop, fd)

    def add_alarm(self, ring: Callable[[], object]) -> Alarm:
        return add_alarm(self._loop, partial(self._call, ring))

    def create_future(self) -> asyncio.Future[int]:
        return self._loop.create_future()


def _nothing() -> None:
    return None
