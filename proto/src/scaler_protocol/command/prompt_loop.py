"""An event loop that serves some descriptors at once, where it waits for them.

A turn of asyncio's own machinery (handle, context, queue, heap of timers) costs more than most messages take. It is
needed for whatever is not urgent; the few descriptors on a task's way are *prompt*: their callbacks are called by the
selector, which goes on waiting. It returns to asyncio when anything else is ready, when asyncio's next timer is due, or
when a callback has asked asyncio for something, so neither side can keep the other waiting. An *alarm* is a timer that
is moved with every message: moving it is storing a number.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any, TypeVarTuple

from scaler_protocol.command.prompt_wait import NEVER, Alarm, PromptWait

__all__ = ["Alarm", "PromptEventLoop", "add_alarm", "add_prompt_reader", "remove_prompt_reader"]

_Arguments = TypeVarTuple("_Arguments")


class TimerAlarm(Alarm):
    """An alarm in a loop that has none of its own: moving a timer costs more than waking, so it only ever moves to the
    front."""

    def __init__(self, ring: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(ring)
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def set(self, at: float | None) -> None:
        super().set(at)
        if self.at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self.at
        self._timer = self._loop.call_later(max(0.0, self.at - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, NEVER
        at = self.at
        self.set(None)
        if at <= time.monotonic():
            self.ring()
        else:
            self.set(at)


class PromptSelector(BaseSelector):
    """The selector that asyncio uses. ``prompt``: what is served while it waits."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}
        self.prompt = PromptWait(self._epoll)

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(fd, _mask(events))
        key = self._keys[fd] = SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        key = self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())
        self._forget(key.fd)
        return key

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        deadline = NEVER if timeout is None else time.monotonic() + timeout
        keys = self._keys
        return [(keys[fd], _events(mask)) for fd, mask in self.prompt.wait(deadline) if fd in keys]

    def serve(self, fd: int, serve: Callable[[], object]) -> None:
        if self.prompt.serve(fd, serve):
            self._epoll.register(fd, select.EPOLLIN)

    def stop_serving(self, fd: int) -> bool:
        """Return whether it was served."""
        if not self.prompt.forget(fd):
            return False
        self._forget(fd)
        return True

    def _forget(self, fd: int) -> None:
        try:
            self._epoll.unregister(fd)
        except OSError:
            pass  # it was closed


class PromptEventLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, with prompt descriptors."""

    def __init__(self) -> None:
        self._prompt_selector = PromptSelector()
        self._prompt = self._prompt_selector.prompt
        super().__init__(self._prompt_selector)

    def add_prompt_reader(self, fd: int, serve: Callable[[], object]) -> None:
        self._prompt_selector.serve(fd, serve)

    def remove_prompt_reader(self, fd: int) -> bool:
        return self._prompt_selector.stop_serving(fd)

    def add_alarm(self, ring: Callable[[], object]) -> Alarm:
        alarm = Alarm(ring)
        self._prompt.add_alarm(alarm)
        return alarm

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self._prompt.is_asked = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._prompt.is_asked = True
        return super().call_at(when, callback, *args, context=context)

    def stop(self) -> None:
        self._prompt.is_asked = True
        super().stop()


def add_prompt_reader(loop: asyncio.AbstractEventLoop, fd: int, serve: Callable[[], object]) -> None:
    """``serve`` is called whenever ``fd`` is readable; in another loop than ours, as any reader."""
    if isinstance(loop, PromptEventLoop):
        loop.add_prompt_reader(fd, serve)
    else:
        loop.add_reader(fd, serve)


def remove_prompt_reader(loop: asyncio.AbstractEventLoop, fd: int) -> bool:
    """Return whether there was one."""
    return loop.remove_prompt_reader(fd) if isinstance(loop, PromptEventLoop) else loop.remove_reader(fd)


def add_alarm(loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> Alarm:
    """Add an alarm, which lives as long as the loop."""
    return loop.add_alarm(ring) if isinstance(loop, PromptEventLoop) else TimerAlarm(ring, loop)


def _mask(events: int) -> int:
    return (select.EPOLLIN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _events(mask: int) -> int:
    """An error or a hang-up wakes readers and writers."""
    return (EVENT_WRITE if mask & ~select.EPOLLIN else 0) | (EVENT_READ if mask & ~select.EPOLLOUT else 0)
