"""Signals that stop a command: the first one asks it to end cleanly, a second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from scaler_protocol.command.parent import current_parent
from scaler_protocol.command.service_manager import notify

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def hold_stop_signals() -> None:
    """Hold signals back until ``install_stop_signals``: they would end the process in the wrong order."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)


def install_stop_signals(
    loop: asyncio.AbstractEventLoop,
    on_stop: Callable[[], None],
    on_end_at_once: Callable[[], None] | None = None,
    parent_patience_seconds: float = 0.0,
) -> None:
    """SIGINT and SIGTERM call ``on_stop``; a second one calls ``on_end_at_once`` (a last clean-up that must not wait)
    and exits with 128 + signal. A script that started this command and is gone counts as a second signal. With
    ``parent_patience_seconds``, it counts as the first one, and as the second one after this long."""
    stop = _Stop(on_stop, on_end_at_once or (lambda: None))
    for number in _STOP_SIGNALS:
        _handle(loop, number, stop.on_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    parent = current_parent()
    if parent is not None:
        parent.watch(loop, lambda: stop.on_parent_gone(loop, parent_patience_seconds))


def _handle(loop: asyncio.AbstractEventLoop, number: int, callback: Callable[[int], None]) -> None:
    """uvloop loses a signal that comes between its ``add_signal_handler`` and its first run, but wakes for plain
    handlers; asyncio's own loop is the other way round."""
    if isinstance(loop, asyncio.SelectorEventLoop):
        loop.add_signal_handler(number, callback, number)
    else:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback, number))


class _Stop:
    def __init__(self, on_stop: Callable[[], None], on_end_at_once: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._on_end_at_once = on_end_at_once
        self._asked = False

    def on_signal(self, number: int) -> None:
        if self._asked:
            self.end_at_once(128 + number)
        self._begin()

    def on_parent_gone(self, loop: asyncio.AbstractEventLoop, patience_seconds: float) -> None:
        if not patience_seconds:
            self.end_at_once()
            return
        loop.call_later(patience_seconds, self.end_at_once)
        if not self._asked:
            self._begin()

    def _begin(self) -> None:
        self._asked = True
        notify(STOPPING="1", STATUS="Stopping")
        self._on_stop()

    def end_at_once(self, exit_code: int = 1) -> None:
        try:
            self._on_end_at_once()
        finally:
            os._exit(exit_code)
