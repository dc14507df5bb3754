"""The agent's end of the zygote: starts it, asks it for worker processes, starts another when it dies."""

from __future__ import annotations

import collections
import errno
import logging
import os
import pickle
import resource
import socket
import subprocess
from collections.abc import Callable, Mapping

from scaler_protocol.command import module_command
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.remedies import with_remedy
from scaler_worker.worker_process.channel import WorkerProcessOptions

RESTART_SECONDS = 0.1
RESTART_LIMIT_SECONDS = 5.0
"""The pause before another zygote is started: twice as long after each one that has not answered once."""

ANSWER_SECONDS = 5.0
"""A fork takes milliseconds: a zygote that owes one for so long is stuck, and another takes its place. If one has not
answered at all, the next one has twice as long: on a busy host, the imports of a zygote take their time."""

ANSWER_LIMIT_SECONDS = 80.0

_REFUSED_TEXT = "Cannot start the zygote, from which worker processes are forked; it is tried again: {}."

UNANSWERED_LIMIT = 16
"""Requests beyond it wait here: the socket's buffer, and the descriptors that may be under way, are limited."""


class Zygote:
    """May be started before there is an event loop or anyone to tell. Once attached, ``on_forked(number, pid)`` is
    called for every process asked for, and ``on_lost(numbers)`` for those that a zygote which died has not reported;
    the next zygote runs by then."""

    def __init__(self, descriptor_limit: int | None = None, variables: Mapping[str, str] | None = None) -> None:
        """``descriptor_limit``: for what it forks; else as for this process. ``variables``: of the environment, in
        addition to those of this process."""
        if descriptor_limit is None:
            descriptor_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._descriptor_limit = descriptor_limit
        self._variables = variables or {}
        self._on_forked: Callable[[int, int], None] = lambda number, pid: None
        self._on_lost: Callable[[list[int]], None] = lambda numbers: None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asked: list[int] = []
        self._waiting: collections.deque[tuple[WorkerProcessOptions, list[int]]] = collections.deque()
        self._answers = 0
        self._expects = False
        self._pause = RESTART_SECONDS
        self._patience = ANSWER_SECONDS
        self._loop: GuardedLoop | None = None
        self._closing = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def begin(self) -> None:
        """Start it, and if the system does not allow that now, again when there is an event loop."""
        try:
            self.start()
        except OSError as error:
            logging.error(_REFUSED_TEXT.format(with_remedy(error, "this agent")))

    def start(self) -> None:
        """Start it; it is ready when it answers. Needs no event loop yet. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = map(str, (theirs.fileno(), os.getpid(), self._descriptor_limit))
        command, environment = module_command("scaler_worker.worker_process.zygote", *arguments)
        try:
            self._process = subprocess.Popen(
                command,
                env={**environment, **self._variables},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._control = ours
        self._watch()

    def attach(
        self,
        loop: GuardedLoop,
        on_forked: Callable[[int, int], None],
        on_lost: Callable[[list[int]], None],
    ) -> None:
        self._loop, self._on_forked, self._on_lost = loop, on_forked, on_lost
        self._watch()
        if self._process is None:
            loop.call_soon(self._restart)

    def fork(self, options: WorkerProcessOptions, fds: list[int]) -> None:
        """Ask for a worker process; the descriptors stay open until it is forked or lost."""
        self._asked.append(options.number)
        self._waiting.append((options, fds))
        self._ask()

    def _ask(self) -> None:
        """Ask the zygote. Without one nothing is asked: the next one is on its way, and what waits is lost then."""
        while self._waiting and self._control is not None and len(self._asked) - len(self._waiting) < UNANSWERED_LIMIT:
            options, fds = self._waiting.popleft()
            try:
                socket.send_fds(self._control, [pickle.dumps(options)], fds)
            except OSError as error:  # it died: its end of file tells
                logging.debug(f"The zygote takes no request: {error}")
            self._expect_answer()

    def _expect_answer(self) -> None:
        if self._loop is not None and not self._expects:
            self._expects = True
            self._loop.call_later(self._patience, self._check_answered, self._answers)

    def _check_answered(self, answers_before: int) -> None:
        """The end of what is killed here is noticed as any other end."""
        self._expects = False
        if not self._asked or self._closing or self._process is None:
            return
        if self._answers == answers_before:
            logging.warning(f"The zygote has not answered for {self._patience:g} s: killing it")
            self._patience = min(2 * self._patience, ANSWER_LIMIT_SECONDS)
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
            self._patience = ANSWER_SECONDS
            self._pause = RESTART_SECONDS
            self._ask()
            self._on_forked(number, pid)

    def _on_end(self) -> None:
        self._unwatch()
        if self._process is not None:
            self._process.kill()
            code = self._process.wait()
            logging.warning(f"The zygote ended ({code}): starting another")
        if not self._closing and self._loop is not None:
            self._restart_later()

    def _restart_later(self) -> None:
        assert self._loop is not None
        self._loop.call_later(self._pause, self._restart)
        self._pause = min(2 * self._pause, RESTART_LIMIT_SECONDS)

    def _restart(self) -> None:
        if self._closing or self._loop is None:
            return
        try:
            self.start()
        except OSError as error:
            logging.error(_REFUSED_TEXT.format(with_remedy(error, "this agent")))
            self._refuse(error.errno or errno.EAGAIN)
            self._restart_later()
            return
        lost, self._asked = self._asked, []
        self._waiting.clear()
        self._on_lost(lost)

    def _refuse(self, error_number: int) -> None:
        """No process can be forked before there is another zygote."""
        asked, self._asked = self._asked, []
        self._waiting.clear()
        for number in asked:
            self._on_forked(number, -error_number)
