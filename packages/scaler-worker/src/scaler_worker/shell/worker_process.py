"""One worker process, as its agent holds it.

Its life, and what each event does in each state. An event that a state does not name has no effect in it.

======  =========================================  ==============================================================
state   what there is                              events
======  =========================================  ==============================================================
asked   descriptors; the zygote was asked to fork  *forked*: watch it, tell it to start; forked.
                                                   *not forked*: close; ended, and asked for again after a pause.
                                                   *zygote lost*: close; ended, and asked for again at once. A fork
                                                   that the zygote did not report waits to be told to start, finds
                                                   its stream closed instead, and ends.
                                                   *kill*: remembered until it is forked.
forked  a process id; it was told to start         *message*, *news*, *output*: heard. *says what cannot be*: killed,
                                                   and its death says why. *kill*: killed. *exit*: buried; ended.
ended   nothing                                    none
======  =========================================  ==============================================================

So nothing is read from a process before its agent knows its process id, can kill it and will learn of its end.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import mmap
import os
import select
import socket
from dataclasses import dataclass, field

from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.board import BOARD_BYTES, Board
from scaler_worker.worker_process.channel import STDERR, STDOUT

BOARD_NAME = "scaler-board"
STDERR_LINES = 20
STDERR_LINE_CHARACTERS = 2000
STDERR_LIMIT_BYTES = STDERR_LINES * STDERR_LINE_CHARACTERS
FAULT_LIMIT_BYTES = 16 * 1024


class ProcessState(enum.Enum):
    ASKED = "asked"
    FORKED = "forked"
    ENDED = "ended"


@dataclass(slots=True)
class WorkerProcessHandle:
    """``killed``: its end was asked for. ``has_ended``: it was reaped. ``reason``: what it said that cannot be."""

    number: int
    connection: StreamConnection
    board: Board
    news_fd: int
    fault_fd: int
    output_fds: dict[int, int]
    """Descriptors of its streams, by their number."""

    state: ProcessState = ProcessState.ASKED
    pid: int = 0
    exit_fd: int = -1
    ready: bool = False
    killed: bool = False
    has_ended: bool = False
    reason: str = ""
    watches_write: bool = False
    stderr_tail: bytes = b""
    child_fds: list[int] = field(default_factory=list)

    @property
    def is_forked(self) -> bool:
        return self.state is ProcessState.FORKED

    def close_child_fds(self) -> None:
        for fd in self.child_fds:
            os.close(fd)
        self.child_fds = []

    def close(self) -> None:
        """Close all descriptors, which are no longer watched."""
        self.state = ProcessState.ENDED
        self.close_child_fds()
        self.connection.close()
        for fd in (self.exit_fd, *self.output_fds.values(), self.news_fd, self.fault_fd):
            if fd >= 0:
                os.close(fd)

    def read_output(self, stream: int, size_bytes: int) -> bytes:
        """Read from one of its streams, and keep the end of stderr. BlockingIOError: there is nothing to read."""
        data = b""
        self.board.begin_read(stream)
        try:
            data = os.read(self.output_fds[stream], size_bytes)
        finally:
            self.board.end_read(stream, len(data))
        if stream == STDERR:
            self.stderr_tail = (self.stderr_tail + data)[-STDERR_LIMIT_BYTES:]
        return data

    @property
    def last_lines(self) -> list[str]:
        """The last lines that the task under way wrote to stderr; all of stderr has been read."""
        count = self.board.read_bytes(STDERR) - self.board.output_mark(STDERR)
        written = self.stderr_tail[-count:] if count > 0 else b""
        lines = written.decode(errors="replace").removesuffix("\n").split("\n") if written else []
        return [line[:STDERR_LINE_CHARACTERS] for line in lines[-STDERR_LINES:]]

    @property
    def stack(self) -> str:
        """The stack at the moment when the process crashed; empty if it did not."""
        return os.pread(self.fault_fd, FAULT_LIMIT_BYTES, 0).decode(errors="replace")

    @property
    def maps_board(self) -> bool:
        """Whether it runs our program still: one that executed another has lost its mappings."""
        try:
            with open(f"/proc/{self.pid}/maps") as file:
                return BOARD_NAME in file.read()
        except OSError:  # it has just ended
            return True


def prepare(number: int) -> WorkerProcessHandle:
    """All that a process needs before it is forked. OSError: nothing stays open."""
    with contextlib.ExitStack() as opened:

        def kept(fd: int) -> int:
            opened.callback(os.close, fd)
            return fd

        ours, theirs = map(opened.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM))
        board_fd = kept(_new_board())
        news_fd = kept(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        fault_fd = kept(os.memfd_create("scaler-fault", os.MFD_CLOEXEC))
        (stdout_fd, stdout_writer), (stderr_fd, stderr_writer) = (map(kept, os.pipe()) for _ in range(2))
        unread = opened.enter_context(select.epoll())
        for fd in (stdout_fd, stderr_fd):
            os.set_blocking(fd, False)
            unread.register(fd, select.EPOLLIN)
        unread_fd = kept(os.dup(unread.fileno()))
        board = Board(mmap.mmap(board_fd, BOARD_BYTES))
        opened.pop_all()  # they stay open
    unread.close()
    output_fds = {STDOUT: stdout_fd, STDERR: stderr_fd}
    process = WorkerProcessHandle(number, StreamConnection(ours), board, news_fd, fault_fd, output_fds)
    process.child_fds = [theirs.detach(), board_fd, stdout_writer, stderr_writer, unread_fd]
    return process


def _new_board() -> int:
    """Sealed, so that no process with the descriptor can shrink it: that would kill processes that read it."""
    fd = os.memfd_create(BOARD_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, BOARD_BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd
