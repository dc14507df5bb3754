"""The application: what arrives and what is typed, to the screen."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from types import FrameType

import zmq

from scaler_protocol.monitor.entity_search import find_entity
from scaler_protocol.monitor.moments import is_moment
from scaler_protocol.monitor.operation import (
    PROFILE_SECONDS,
    LookAction,
    Operation,
    OperationOutcome,
    needs_confirmation,
)
from scaler_scheduler.top.operations import Operations
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.source import ScreenSource
from scaler_scheduler.top.terminal import Terminal
from scaler_scheduler.top.view import View

FRAME_SECONDS = 0.2
"""Not drawn more often than this, but for keys: events come faster than anyone reads."""

_RECORDING_TEXT = "Cannot act on a recording."
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Application:
    """Runs until its user quits or a signal stops it."""

    def __init__(
        self,
        source: ScreenSource,
        terminal: Terminal,
        address: str,
        operations: Operations | None = None,
        page: str = "overview",
    ) -> None:
        """``operations``: None: there is no cluster to act on. ``page``: the first one."""
        self._source = source
        self._operations = operations
        self._terminal = terminal
        self._address = address
        self._view = View(page=page)
        self._screen = Screen([], 1, 0)
        self._drawn_page = ""
        self._painted_at = -FRAME_SECONDS
        self._stopped = False
        self._resized = True

    def run(self) -> None:
        with _Signals(self) as signal_fd:
            poller = zmq.Poller()
            for readable in (sys.stdin.fileno(), signal_fd):
                poller.register(readable, zmq.POLLIN)
            self._source.register(poller)
            if self._operations is not None:
                poller.register(self._operations.fd, zmq.POLLIN)
            self._run_turns(poller, signal_fd)

    def _run_turns(self, poller: zmq.Poller, signal_fd: int) -> None:
        while not self._stopped and not self._view.quit:
            wait_seconds = self._paint_when_due()
            ready = dict(poller.poll(int(wait_seconds * 1000) + 1))
            self._take_in(ready.get(sys.stdin.fileno(), 0), signal_fd)

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def resize(self, number: int, frame: FrameType | None) -> None:
        self._resized = True

    def _take_in(self, terminal_event: int, signal_fd: int) -> None:
        _drain(signal_fd)
        if terminal_event & (zmq.POLLERR | zmq.POLLIN) and _hung_up():
            self._stopped = True
        self._source.take()
        self._take_outcome()
        for place, key in enumerate(self._terminal.typed()):
            if place and not self._view.is_typing:
                self._draw()  # the key is about what the one before it leads to
            self._press(key)

    def _press(self, key: str) -> None:
        self._resized = True  # drawn at once
        if not self._view.is_typing and self._source.pressed(key):
            return
        if self._view.link is not None and self._view.page == self._drawn_page:
            self._view = replace(self._view, first_line=self._screen.first_line)
        targets = self._screen.targets if self._view.page == self._drawn_page else {}
        pressed = self._view.pressed(key, self._screen.page_rows, self._screen.selected, targets)
        same_rows = (pressed.page, pressed.details_of, pressed.help_shown) == (
            self._view.page,
            self._view.details_of,
            self._view.help_shown,
        )
        pressed = pressed.limited(self._screen.last_first_row, self._screen.rows) if same_rows else pressed
        self._view = pressed.standing_still(self._source.model.time)
        self._open_sought()
        self._begin_operation()

    def _open_sought(self) -> None:
        """Show the page of what was named, or of a recording the time, if something was."""
        name = self._view.sought_name
        if not name:
            return
        view = replace(self._view, sought_name="")
        if is_moment(name):
            self._view = self._at_moment(view, name)
            return
        link = find_entity(self._source.model, name)
        unknown = OperationOutcome(False, f"Nothing is known of {name!r}.")
        self._view = view.showing(link) if link is not None else replace(view, outcome=unknown)

    def _at_moment(self, view: View, text: str) -> View:
        try:
            moment = self._source.go_to(text)
        except ValueError as error:
            return replace(view, outcome=OperationOutcome(False, str(error)))
        return view if moment is None else view.showing_stream_at(moment)

    def _begin_operation(self) -> None:
        """Carry out the action that was just confirmed, if one was."""
        question = self._view.question
        if question is None or not question.is_confirmed:
            return
        self._view = replace(self._view, question=None)
        if self._operations is None:
            self._view = replace(self._view, outcome=OperationOutcome(False, _RECORDING_TEXT))
        else:
            self._view = replace(self._view, outcome=_under_way(question.operation))
            self._operations.begin(question.operation, self._source.model.snapshot)

    def _take_outcome(self) -> None:
        outcome = self._operations.take() if self._operations is not None else None
        if outcome is not None:
            self._view, self._resized = replace(self._view, outcome=outcome, first_line=0), True

    def _paint_when_due(self) -> float:
        """Draw, unless that was a moment ago; how long to wait for anything to happen."""
        due = self._painted_at + FRAME_SECONDS - time.monotonic()
        if due > 0 and not self._resized:
            return min(due, self._source.repaint_seconds)
        if not self._terminal.takes_more:
            return FRAME_SECONDS
        self._paint()
        return self._source.repaint_seconds

    def _paint(self) -> None:
        self._painted_at, self._resized = time.monotonic(), False
        self._terminal.follow_size()
        self._draw()
        self._terminal.paint(self._screen.lines)

    def _draw(self) -> None:
        (width, height), blocks = self._terminal.size, self._terminal.shows_blocks
        self._drawn_page = self._view.page
        source = self._source
        line = source.line(width, blocks)
        self._screen = draw(source.model, self._view, width, height, source.now, self._address, blocks, line)


def _under_way(operation: Operation) -> OperationOutcome | None:
    """A note for actions that take a while."""
    if needs_confirmation(operation) or operation.action is LookAction.STACK:
        return None
    return OperationOutcome(True, f"Sampling for {PROFILE_SECONDS:g} s ...")


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
    """Return whether the terminal is gone; then its descriptor is always readable."""
    try:
        os.tcgetpgrp(sys.stdin.fileno())
    except OSError:
        return True
    return False
