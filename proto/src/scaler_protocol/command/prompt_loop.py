"""An event loop that serves some descriptors at once, where it waits for them.

A turn of asyncio's own machinery (handle, context, queue, heap of timers) costs more than most messages take. It is
needed for whatever is not urgent; the few descriptors on a task's way are *prompt*: their callbacks are called by the
selector, which goes on waiting. It returns to asyncio when anything else is ready, when asyncio's next timer is due, or
when a callback has asked asyncio for something, so neither side can keep the other waiting. An *alarm* is a timer that
is moved with every message: moving it is storing a number.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any, TypeVarTuple

_EVENTS_AT_ONCE = 64
_NEVER = float("inf")
_Arguments = TypeVarTuple("_Arguments")


class Alarm:
    """Calls ``ring`` soon after ``at``, once; then it is to be set again."""

    __slots__ = ("at", "ring")

    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring = ring
        self.at = _NEVER

    def set(self, at: float | None) -> None:
        """In seconds of ``time.monotonic``. None: never."""
        self.at = _NEVER if at is None else at


class TimerAlarm(Alarm):
    """In a loop that knows no alarms: moving a timer costs more than waking, so it only ever moves to the front."""

    __slots__ = ("_loop", "_timer", "_timer_at")

    def __init__(self, ring: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(ring)
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER

    def set(self, at: float | None) -> None:
        super().set(at)
        if self.at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self.at
        self._timer = self._loop.call_later(max(0.0, self.at - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, _NEVER
        at = self.at
        self.set(None)
        if at <= time.monotonic():
            self.ring()
        else:
            self.set(at)


class PromptSelector(BaseSelector):
    """``is_asked``: a callback wants something of the loop."""

    def __init__(self) -> None:
        self.is_asked = False
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}
        self._prompt: dict[int, Callable[[], object]] = {}
        self._alarms: list[Alarm] = []

    # ---- as asyncio uses it --------------------------------------------------------------------------------------

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
        self._prompt.clear()

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        poll, prompt, alarms = self._epoll.poll, self._prompt, self._alarms
        ready: list[tuple[SelectorKey, int]] = []
        now = time.monotonic()
        deadline = _NEVER if timeout is None else now + timeout
        self.is_asked = False
        while True:
            until = deadline
            for alarm in alarms:
                if alarm.at < until:
                    until = alarm.at
            for fd, event in poll(None if until == _NEVER else max(0.0, until - now), _EVENTS_AT_ONCE):
                serve = prompt.get(fd)
                if serve is not None:
                    try:
                        serve()
                    except Exception:  # as asyncio does: the others are not to suffer
                        logging.exception("Exception in a callback of the event loop")
                elif fd in self._keys:  # not removed just now
                    ready.append((self._keys[fd], _events(event)))
            now = time.monotonic()
            for alarm in alarms:
                if now >= alarm.at:
                    alarm.at = _NEVER
                    _call(alarm.ring)
            if ready or self.is_asked or now >= deadline:
                return ready

    # ---- what is prompt ------------------------------------------------------------------------------------------

    def add_alarm(self, ring: Callable[[], object]) -> Alarm:
        alarm = Alarm(ring)
        self._alarms.append(alarm)
        return alarm

    def add(self, fd: int, serve: Callable[[], object]) -> None:
        if fd not in self._prompt:
            self._epoll.register(fd, select.EPOLLIN)
        self._prompt[fd] = serve

    def remove(self, fd: int) -> bool:
        if self._prompt.pop(fd, None) is None:
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
        self._prompt = PromptSelector()
        super().__init__(self._prompt)

    def add_prompt_reader(self, fd: int, serve: Callable[[], object]) -> None:
        self._prompt.add(fd, serve)

    def remove_prompt_reader(self, fd: int) -> bool:
        return self._prompt.remove(fd)

    def add_alarm(self, ring: Callable[[], object]) -> Alarm:
        return self._prompt.add_alarm(ring)

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
    """Whether there was one."""
    return loop.remove_prompt_reader(fd) if isinstance(loop, PromptEventLoop) else loop.remove_reader(fd)


def add_alarm(loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> Alarm:
    """For as long as the loop lives."""
    return loop.add_alarm(ring) if isinstance(loop, PromptEventLoop) else TimerAlarm(ring, loop)


def _call(serve: Callable[[], object]) -> None:
    try:
        serve()
    except Exception:
        logging.exception("Exception in an alarm of the event loop")


def _mask(events: int) -> int:
    return (select.EPOLLIN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _events(mask: int) -> int:
    """An error or a hang-up wakes whoever watches."""
    return (EVENT_WRITE if mask & ~select.EPOLLIN else 0) | (EVENT_READ if mask & ~select.EPOLLOUT else 0)
