"""The agent's end of the zygote: starts it, asks it for processors, starts another when it dies."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import subprocess
from collections.abc import Callable

from scaler_protocol.command import module_command
from scaler_worker.processor.channel import ProcessorOptions

RESTART_SECONDS = 0.1
ANSWER_SECONDS = 5.0
"""A fork takes milliseconds: a zygote that owes one for so long is stuck, and another takes its place."""


class Zygote:
    """May be started before there is an event loop or anyone to tell. Once attached, ``on_forked(number, pid)`` is
    called for every processor asked for, and ``on_lost(numbers)`` for those that a zygote which died has not forked;
    the next zygote runs by then."""

    def __init__(self) -> None:
        self._on_forked: Callable[[int, int], None] = lambda number, pid: None
        self._on_lost: Callable[[list[int]], None] = lambda numbers: None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asked: list[int] = []
        self._answers = 0
        self._expects = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it; it is ready when it answers. Needs no event loop yet."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command, environment = module_command("scaler_worker.processor.zygote", str(theirs.fileno()), str(os.getpid()))
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), process_group=0
        )
        theirs.close()
        ours.setblocking(False)
        self._control = ours
        self._watch()

    def attach(
        self,
        loop: asyncio.AbstractEventLoop,
        on_forked: Callable[[int, int], None],
        on_lost: Callable[[list[int]], None],
    ) -> None:
        self._loop, self._on_forked, self._on_lost = loop, on_forked, on_lost
        self._watch()

    def fork(self, options: ProcessorOptions, fds: list[int]) -> None:
        """Ask for a processor; the caller may close the descriptors on return."""
        self._asked.append(options.number)
        if self._control is None:  # it died, and the next one is on its way
            return
        try:
            socket.send_fds(self._control, [pickle.dumps(options)], fds)
        except OSError as error:  # it died: its end of file tells
            logging.debug(f"the zygote takes no request: {error}")
        self._expect_answer()

    def _expect_answer(self) -> None:
        if self._loop is not None and not self._expects:
            self._expects = True
            self._loop.call_later(ANSWER_SECONDS, self._check_answered, self._answers)

    def _check_answered(self, answers_before: int) -> None:
        """The end of what is killed here is noticed as any other end."""
        self._expects = False
        if not self._asked or self._closing or self._process is None:
            return
        if self._answers == answers_before:
            logging.warning(f"the zygote has not answered for {ANSWER_SECONDS:g} s: it is killed")
            self._process.kill()
        self._expect_answer()

    def close(self) -> None:
        self._closing = True
        self._unwatch()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _watch(self) -> None:
        if self._loop is not None and self._control is not None:
            self._loop.add_reader(self._control.fileno(), self._on_readable)

    def _unwatch(self) -> None:
        if self._control is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    def _on_readable(self) -> None:
        while self._control is not None:
            try:
                data = self._control.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._on_end()
                return
            number, pid = pickle.loads(data)
            self._asked.remove(number)
            self._answers += 1
            self._on_forked(number, pid)

    def _on_end(self) -> None:
        self._unwatch()
        if self._process is not None:
            self._process.kill()
            code = self._process.wait()
            logging.warning(f"the zygote ended ({code}); starting another")
        if not self._closing and self._loop is not None:
            self._loop.call_later(RESTART_SECONDS, self._restart)

    def _restart(self) -> None:
        if not self._closing:
            lost, self._asked = self._asked, []
            self.start()
            self._on_lost(lost)
