"""The processes that run tasks, as the agent holds them: streams, boards, deaths."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from scaler_protocol.command.exit_descriptor import open_exit_descriptor
from scaler_protocol.command.prompt_loop import add_prompt_reader, remove_prompt_reader
from scaler_protocol.messages import ObjectKey
from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.board import BOARD_BYTES, Board
from scaler_worker.processor import channel
from scaler_worker.shell.resources import out_of_memory_kills
from scaler_worker.shell.store import MemoryFileStore
from scaler_worker.shell.zygote import Zygote

BOARD_NAME = "scaler-board"
STDERR_LINES = 20
STDERR_LINE_CHARACTERS = 2000
FAULT_LIMIT_BYTES = 16 * 1024
DEAF_SECONDS = 1.0
"""How often a processor is looked at whose stream has ended, until it ends itself."""


@dataclass(slots=True)
class ProcessorProcess:
    """One processor's descriptors. ``pid`` and ``exit_fd`` are set once it is forked."""

    number: int
    connection: StreamConnection
    board: Board
    news_fd: int
    fault_fd: int
    stderr_fd: int
    pid: int = 0
    exit_fd: int = -1
    ready: bool = False
    killed: bool = False
    echoes_streamed_output: bool = True
    watches_write: bool = False
    stderr_tail: collections.deque[str] = field(default_factory=lambda: collections.deque(maxlen=STDERR_LINES))
    stderr_rest: str = ""
    child_fds: list[int] = field(default_factory=list)


class ProcessorHost:
    """Carries out what the core wants of processors and tells it what happens to them. ``agent`` has the methods
    ``started(number, board, pid)``, ``not_started(number, text)``, ``ready(number)``, ``news(number)``,
    ``died(number, certificate)``, ``output(number, sequence, stream, data)``, which says whether it takes more,
    ``failed(text)`` and ``heard()``, after everything that waited."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        zygote: Zygote,
        options: Callable[[int, str], channel.ProcessorOptions],
        agent: Any,
    ) -> None:
        self._loop = loop
        self._options = options
        self._agent = agent
        self._host = socket.gethostname()
        self.store = MemoryFileStore(self._drain_by_number)
        self._cluster = b""
        self.processes: dict[int, ProcessorProcess] = {}
        self.unread: dict[int, ProcessorProcess] = {}
        """Whose tasks print too much: nothing is read from these."""
        self._zygote = zygote
        zygote.attach(loop, self._on_forked, self._on_lost)
        self._out_of_memory_kills = out_of_memory_kills()

    # ---- starting --------------------------------------------------------------------------------------------

    def start(self, number: int, name: str) -> None:
        try:
            process = _prepare(number)
        except OSError as error:
            self._agent.not_started(number, str(error))
            return
        self.processes[number] = process
        options = self._options(number, name)
        process.echoes_streamed_output = options.echoes_streamed_output
        fds = [*process.child_fds, process.fault_fd, process.news_fd]
        self._zygote.fork(options, fds)

    def _on_lost(self, numbers: list[int]) -> None:
        """The zygote died over these. It may have forked one without saying so, which ends when its stream does: so
        they count as dead, and others take their place."""
        for number in numbers:
            process = self.processes.get(number)
            if process is not None:
                self._bury(process, None)

    def _on_forked(self, number: int, pid: int) -> None:
        """``pid`` is 0 when the process between died or could not fork. To a signal that means our own group."""
        process = self.processes.get(number)
        if process is None:
            return
        self._close_child_fds(process)
        if not pid:
            self._close(process)
            self._agent.not_started(number, "it could not be forked")
            return
        process.pid = pid
        try:
            process.exit_fd = open_exit_descriptor(pid)
        except ProcessLookupError:
            self._bury(process, None)
            return
        except OSError as error:
            self._end(process)
            self._close(process)
            self._agent.not_started(number, str(error))
            return
        self._loop.add_reader(process.exit_fd, self._on_exit, process)
        self._loop.add_reader(process.connection.fd, self._on_readable, process)
        add_prompt_reader(self._loop, process.news_fd, partial(self._on_news, process))
        self._loop.add_reader(process.stderr_fd, self._on_stderr, process)
        if self._cluster:
            self.send(number, [channel.STORE, self._cluster])
        self._agent.started(number, process.board, pid)
        if process.killed:
            self.kill(number)

    def _close_child_fds(self, process: ProcessorProcess) -> None:
        for fd in process.child_fds:
            os.close(fd)
        process.child_fds = []

    # ---- talking ---------------------------------------------------------------------------------------------

    def send(self, number: int, frames: Sequence[bytes], fds: Sequence[int] = ()) -> None:
        process = self.processes.get(number)
        if process is None:
            return
        process.connection.send(frames, fds)
        if process.connection.wants_write and not process.watches_write:
            process.watches_write = True
            self._loop.add_writer(process.connection.fd, self._on_writable, process)

    def send_object(self, number: int, key: ObjectKey) -> None:
        size = self.store.size(key)
        if size is not None:
            frames = [channel.OBJECT, channel.pack_key(key), channel.pack_number(size)]
            self.send(number, frames, [self.store.fd(key)])

    def join_store(self, cluster: bytes) -> None:
        """All processors are told by which name the host's store is found."""
        self._cluster = cluster
        for process in list(self.processes.values()):
            if process.pid:
                self.send(process.number, [channel.STORE, cluster])

    def drop_objects(self, number: int, keys: list[ObjectKey]) -> None:
        for start in range(0, len(keys), 32):
            self.send(number, [channel.DROP, *map(channel.pack_key, keys[start : start + 32])])

    def _on_writable(self, process: ProcessorProcess) -> None:
        if process.connection.flush() or process.connection.eof:
            process.watches_write = False
            self._loop.remove_writer(process.connection.fd)

    def _on_news(self, process: ProcessorProcess) -> None:
        os.eventfd_read(process.news_fd)
        self._agent.news(process.number)

    def _on_readable(self, process: ProcessorProcess) -> None:
        takes_more = True
        while takes_more and (frames := process.connection.receive()) is not None:
            takes_more = self._handle(process, frames)
        if not takes_more:
            self.unread[process.number] = process
            self._loop.remove_reader(process.connection.fd)
        if process.connection.eof:
            self._loop.remove_reader(process.connection.fd)
            self._loop.call_later(DEAF_SECONDS, self._end_deaf, process)
        self._agent.heard()

    def _end_deaf(self, process: ProcessorProcess) -> None:
        """Its stream has ended and it has not. A task that closed every descriptor still leaves its result on the
        board; one that executed another program in its place never gives one."""
        if self.processes.get(process.number) is not process or process.killed:
            return
        if _maps_board(process.pid):
            self._loop.call_later(DEAF_SECONDS, self._end_deaf, process)
            return
        logging.warning(f"processor {process.pid} has become another program: it is killed")
        self.kill(process.number)

    def read_on(self) -> None:
        """Output is taken again: listen to those whose tasks printed too much."""
        unread, self.unread = self.unread, {}
        for process in unread.values():
            self._loop.add_reader(process.connection.fd, self._on_readable, process)
            self._loop.call_soon(self._read_rest, process)

    def _read_rest(self, process: ProcessorProcess) -> None:
        """Messages that have been read and not handled wake nobody."""
        if process.number in self.processes and process.number not in self.unread:
            self._on_readable(process)

    def _drain(self, process: ProcessorProcess) -> None:
        while (frames := process.connection.receive()) is not None:
            self._handle(process, frames)

    def _drain_by_number(self, number: int) -> None:
        process = self.processes.get(number)
        if process is not None:
            self._drain(process)

    def _handle(self, process: ProcessorProcess, frames: list[bytes]) -> bool:
        """Whether more may be handled at once."""
        kind = frames[0]
        if kind == channel.READY:
            process.ready = True
            self._agent.ready(process.number)
        elif kind == channel.LARGE:
            fd = process.connection.received_fds.popleft()
            sequence, size = map(channel.unpack_number, frames[1:3])
            self.store.add_result(process.number, sequence, fd, size)
        elif kind == channel.OUTPUT:
            sequence, stream = map(channel.unpack_number, frames[1:3])
            if stream == channel.STDERR and not process.echoes_streamed_output:
                _keep_tail(process, frames[3])
            return bool(self._agent.output(process.number, sequence, stream, frames[3]))
        elif kind == channel.FAILED:
            self._agent.failed(frames[1].decode(errors="replace"))
        return True

    # ---- signals ---------------------------------------------------------------------------------------------

    def signal(self, number: int, signal_number: int) -> None:
        process = self.processes.get(number)
        if process is not None and process.exit_fd >= 0:
            try:
                os.kill(process.pid, signal_number)  # nobody else's number: it is buried when it is reaped
            except ProcessLookupError:
                pass

    def kill(self, number: int) -> None:
        """With the processes that its task started in its group."""
        process = self.processes.get(number)
        if process is None:
            return
        process.killed = True
        self.signal(number, signal.SIGKILL)

    # ---- deaths ----------------------------------------------------------------------------------------------

    def _on_exit(self, process: ProcessorProcess) -> None:
        try:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        except ChildProcessError:
            self._bury(process, None)
            return
        if pid:
            self._bury(process, (status, usage.ru_maxrss * 1024))

    def _bury(self, process: ProcessorProcess, outcome: tuple[int, int] | None) -> None:
        self._drain(process)
        self._read_stderr(process)
        certificate = self._certificate(process, outcome)
        if process.pid:
            self._kill_group(process.pid)
        try:
            self._agent.died(process.number, certificate)
        finally:
            self._close(process)

    def _certificate(self, process: ProcessorProcess, outcome: tuple[int, int] | None) -> dict[str, Any]:
        status, peak = outcome if outcome is not None else (0, 0)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        kills = out_of_memory_kills()
        starved = number == signal.SIGKILL and not process.killed and kills > self._out_of_memory_kills
        self._out_of_memory_kills = kills
        return {
            "host": self._host,
            "pid": process.pid,
            "signal": _signal_name(number),
            "exit_code": os.WEXITSTATUS(status) if outcome is not None and os.WIFEXITED(status) else None,
            "out_of_memory": starved,
            "peak_memory": peak,
            "stack": os.pread(process.fault_fd, FAULT_LIMIT_BYTES, 0).decode(errors="replace"),
            "stderr": [*process.stderr_tail, *([process.stderr_rest] if process.stderr_rest else [])],
        }

    def _kill_group(self, pid: int) -> None:
        """A processor leads a group: what its tasks started and left there ends with it."""
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def reap_orphans(self) -> None:
        """Processes that tasks started and that outlived their processor are this process's children now."""
        known = {process.pid for process in self.processes.values()} | {self._zygote.pid}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in known:
                return
            os.waitpid(found.si_pid, os.WNOHANG)

    def _close(self, process: ProcessorProcess) -> None:
        self.processes.pop(process.number, None)
        self.unread.pop(process.number, None)
        self._close_child_fds(process)
        self.store.forget_results(process.number)
        remove_prompt_reader(self._loop, process.news_fd)
        for fd in (process.exit_fd, process.stderr_fd, process.connection.fd):
            if fd >= 0:
                self._loop.remove_reader(fd)
        if process.watches_write:
            self._loop.remove_writer(process.connection.fd)
        process.connection.close()
        for fd in (process.exit_fd, process.stderr_fd, process.news_fd, process.fault_fd):
            if fd >= 0:
                os.close(fd)

    def close(self) -> None:
        """End all of them, and the zygote."""
        self._zygote.close()
        for process in list(self.processes.values()):
            if process.pid:
                self._end(process)
            self._close(process)
        self.reap_orphans()

    def _end(self, process: ProcessorProcess) -> None:
        for call in (lambda: os.kill(process.pid, signal.SIGKILL), lambda: os.killpg(process.pid, signal.SIGKILL)):
            try:
                call()
            except (ProcessLookupError, PermissionError):
                pass
        try:
            os.waitpid(process.pid, 0)
        except ChildProcessError:
            pass

    # ---- stderr ----------------------------------------------------------------------------------------------

    def _on_stderr(self, process: ProcessorProcess) -> None:
        if not self._read_stderr(process):
            self._loop.remove_reader(process.stderr_fd)

    def _read_stderr(self, process: ProcessorProcess) -> bool:
        """Pass it on and keep its last lines. False: its end is closed."""
        while True:
            try:
                data = os.read(process.stderr_fd, 65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            _pass_on(data)
            _keep_tail(process, data)


def _prepare(number: int) -> ProcessorProcess:
    """All that a processor needs before it is forked. OSError: nothing stays open."""
    with contextlib.ExitStack() as opened:

        def kept(fd: int) -> int:
            opened.callback(os.close, fd)
            return fd

        ours, theirs = map(opened.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        board_fd = kept(os.memfd_create(BOARD_NAME, os.MFD_CLOEXEC))
        os.ftruncate(board_fd, BOARD_BYTES)
        news_fd = kept(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        fault_fd = kept(os.memfd_create("scaler-fault", os.MFD_CLOEXEC))
        stderr_fd, stderr_writer = map(kept, os.pipe())
        os.set_blocking(stderr_fd, False)
        board = Board(mmap.mmap(board_fd, BOARD_BYTES))
        opened.pop_all()  # they stay open
    process = ProcessorProcess(number, StreamConnection(ours), board, news_fd, fault_fd, stderr_fd)
    process.child_fds = [theirs.detach(), board_fd, stderr_writer]
    return process


def _keep_tail(process: ProcessorProcess, data: bytes) -> None:
    *lines, process.stderr_rest = (process.stderr_rest + data.decode(errors="replace")).split("\n")
    process.stderr_rest = process.stderr_rest[-STDERR_LINE_CHARACTERS:]
    process.stderr_tail.extend(line[:STDERR_LINE_CHARACTERS] for line in lines)


def _pass_on(data: bytes) -> None:
    try:
        os.write(sys.stderr.fileno(), data)
    except OSError:
        pass


def _maps_board(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/maps") as file:
            return BOARD_NAME in file.read()
    except OSError:  # it has just ended
        return True


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
