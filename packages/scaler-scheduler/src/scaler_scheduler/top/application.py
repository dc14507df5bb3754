"""The application: what arrives and what is typed, to the screen."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

import zmq

from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.terminal import Terminal
from scaler_scheduler.top.view import View

REPAINT_SECONDS = 1.0
"""At least so often, since ages on the screen grow by themselves."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Application:
    """Runs until its user quits or a signal stops it."""

    def __init__(self, subscription: Subscription, terminal: Terminal, address: str, timeout_seconds: float) -> None:
        self._subscription = subscription
        self._terminal = terminal
        self._address = address
        self._model = Model(time.monotonic(), timeout_seconds)
        self._view = View()
        self._screen = Screen([], 1, 0)
        self._stopped = False

    def run(self) -> None:
        with _Signals(self) as signal_fd:
            poller = zmq.Poller()
            for readable in (sys.stdin.fileno(), signal_fd, self._subscription.socket):
                poller.register(readable, zmq.POLLIN)
            while not self._stopped and not self._view.quit:
                self._paint()
                ready = dict(poller.poll(int(REPAINT_SECONDS * 1000)))
                self._take_in(ready.get(sys.stdin.fileno(), 0), signal_fd)

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def resize(self, number: int, frame: FrameType | None) -> None:
        """Nothing: the wake-up is enough, every turn looks at the size."""

    def _take_in(self, terminal_event: int, signal_fd: int) -> None:
        _drain(signal_fd)
        if terminal_event & (zmq.POLLERR | zmq.POLLIN) and _hung_up():
            self._stopped = True
        self._take_messages()
        for key in self._terminal.typed():
            self._view = self._view.pressed(key, self._screen.page_rows).limited(self._screen.last_first_row)

    def _take_messages(self) -> None:
        try:
            while (received := self._subscription.receive()) is not None:
                self._model.apply(received.message, time.monotonic())
        except FeedError as error:
            self._model.refuse(str(error))

    def _paint(self) -> None:
        self._terminal.follow_size()
        width, height = self._terminal.size
        self._screen = draw(self._model, self._view, width, height, time.monotonic(), self._address)
        self._terminal.paint(self._screen.lines)


class _Signals:
    """Signals wake the poll through a pipe, whose read end this context gives."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __enter__(self) -> int:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._application.stop) for number in _STOP_SIGNALS}
        self._before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._application.resize)
        return self._read_fd

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read_fd)
        os.close(self._write_fd)


def _drain(descriptor: int) -> None:
    try:
        os.read(descriptor, 4096)
    except BlockingIOError:
        pass


def _hung_up() -> bool:
    """Whether the terminal is gone; then its descriptor is readable for ever."""
    try:
        os.tcgetpgrp(sys.stdin.fileno())
    except OSError:
        return True
    return False
