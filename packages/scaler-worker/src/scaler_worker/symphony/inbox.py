"""The way from Symphony's threads to the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Inbox(Generic[_T]):
    """Events of any thread, handed to the loop's thread in order, all that wait at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._events: list[_T] = []
        self._is_woken = False
        self._take: Callable[[list[_T]], None] | None = None

    def post(self, event: _T) -> None:
        """Callable from any thread. After the loop has ended the event is ignored."""
        with self._lock:
            self._events.append(event)
            if self._is_woken or self._take is None:
                return
            self._is_woken = True
        self._wake()

    def listen(self, take: Callable[[list[_T]], None]) -> None:
        """Let ``take`` get the messages from now on; first those that wait already."""
        with self._lock:
            self._take = take
            self._is_woken = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed
            pass

    def _deliver(self) -> None:
        with self._lock:
            events, self._events = self._events, []
            self._is_woken = False
        assert self._take is not None
        self._take(events)
