"""The publisher, seen from the scheduler's process: a child process that serves the monitor address.

Watchers talk to that child only, so a thousand of them, slow or stopped, cost the scheduler nothing. One snapshot is
one memfd passed over a socket: handing it over never blocks, and while the child has not taken one no other is made.
It is the child that encodes it, for its pickle is made in a tenth of the time.
Event records go through memory that both share.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import socket
import subprocess
import time

from scaler_protocol.address import parse_address
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingWriter

START_TIMEOUT_SECONDS = 15.0
EXIT_TIMEOUT_SECONDS = 2.0
RESTART_INTERVAL_SECONDS = 5.0
RING_BYTES = 32 * 1024 * 1024
"""Memory for event records, as long as somebody wants them: at a million tasks a second, a good second."""

_MODULE = "scaler_scheduler.shell.publisher_process"
_LINE_LIMIT_BYTES = 4096


class Publisher:
    """Not thread-safe. Only ``start``, ``wait_for_ring``, ``publish_last`` and ``close`` wait; the other calls return
    at once, whatever the child does. The child ends with this process, however it ends; a child that died is started
    again by ``watched``."""

    def __init__(self, address: str, event_log: str | None = None, event_log_limit_bytes: int = 0) -> None:
        """``event_log``: a file that keeps all that is published, the first of several; these and others in its folder
        have so many bytes together at most, 0: without bound."""
        self.trouble = ""
        """What the child cannot do now: a plain sentence."""

        self._address = address
        self._log_arguments = [event_log, str(event_log_limit_bytes)] if event_log is not None else []
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._sequence = 0
        self._watched = False
        self._taken = True
        self._error: str | None = None
        self._ready = False
        self._started_at = 0.0
        self._wants_events = False
        self._children = 0
        self._warnings: list[str] = []
        self._ring_descriptor: int | None = None
        self._ring_ready = False

    @property
    def address(self) -> str:
        """Where it listens; after ``start`` with the port that was found for port 0."""
        return self._address

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the child and wait until it listens. OSError, with one plain sentence, when it cannot."""
        self._spawn()
        deadline = time.monotonic() + timeout_seconds
        while not self._ready and self._error is None:
            self._wait_readable(deadline)
            if not self._read() and self._error is None:
                self._error = f"the publisher of the monitor address {self._address} did not start"
        if self._error is not None:
            self.close()
            raise OSError(self._error)

    def watched(self) -> bool:
        """Whether anybody watches now: only then is a snapshot worth making."""
        if not self._read():
            self._restart()
        return self._watched

    def wants_events(self) -> int:
        """0: nobody wants event records now; else a number that is another one when they go to another child."""
        return self._children if self._wants_events else 0

    def take_warnings(self) -> list[str]:
        """What the child complained of since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def ring(self, first: int, epoch: int) -> RingWriter | None:
        """Memory for event records, shared with the child; the first record that will be written has the number
        ``first``. None: it is not ready yet, ask again. The child has the pages made: made by the first who writes to
        them, they would cost the scheduler more than all records."""
        if self._ring_descriptor is None:
            self._offer_ring(first, epoch)
            return None
        if not self._ring_ready:
            return None
        try:
            memory = mmap.mmap(self._ring_descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        finally:
            self._drop_ring()
        return RingWriter(memory)

    def wait_for_ring(
        self, first: int, epoch: int, timeout_seconds: float = START_TIMEOUT_SECONDS
    ) -> RingWriter | None:
        """The same, once it is ready; for one that keeps an event log, where records are wanted from the start. None:
        the child is gone, or took too long."""
        deadline = time.monotonic() + timeout_seconds
        while self._read() and self._error is None:
            ring = self.ring(first, epoch) if self.wants_events() else None
            if ring is not None:
                return ring
            self._wait_readable(deadline)
        return None

    def _offer_ring(self, first: int, epoch: int) -> None:
        descriptor = os.memfd_create("scaler_events", os.MFD_CLOEXEC)
        self._ring_descriptor, self._ring_ready = descriptor, False
        try:
            os.ftruncate(descriptor, RING_HEADER_BYTES + RING_BYTES)
            assert self._socket is not None
            socket.send_fds(self._socket, [b"ring %d %d" % (first, epoch)], [descriptor])
        except OSError:  # the child is gone, or has too much to read: later
            self._drop_ring()

    def _drop_ring(self) -> None:
        if self._ring_descriptor is not None:
            os.close(self._ring_descriptor)
            self._ring_descriptor = None

    def publish(self, snapshot: Snapshot) -> None:
        """Send to all watchers, and keep it for those who come later. Nothing happens while nobody watches, or while
        the child has not yet taken the message before."""
        if not self.watched() or not self._taken or self._socket is None:
            return
        self._sequence += 1
        self._hand_over(self._socket, pickle.dumps((snapshot, self._sequence), pickle.HIGHEST_PROTOCOL))

    def publish_last(self, snapshot: Snapshot, timeout_seconds: float = EXIT_TIMEOUT_SECONDS) -> None:
        """The same before the end, when no other comes that could replace it: waits until the one before is taken."""
        deadline = time.monotonic() + timeout_seconds
        while self._read() and not self._taken and time.monotonic() < deadline:
            self._wait_readable(deadline)
        self.publish(snapshot)

    def close(self) -> None:
        """End the child and wait for it. May be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            _end(self._process)
            if self._ready and self._process.returncode < 0:
                _remove_socket_file(self._address)
            self._process = None
        self._watched = self._wants_events = False
        self._drop_ring()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(theirs.fileno()), self._address, *self._log_arguments]
        command, environment = module_command(_MODULE, *arguments)
        self._children += 1
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command,
                    env=environment,
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self._socket = ours
        self._started_at = time.monotonic()
        self._watched, self._taken, self._ready, self.trouble = False, True, False, ""

    def _restart(self) -> None:
        self._watched = self._wants_events = False
        self._drop_ring()
        if self._process is None or time.monotonic() - self._started_at < RESTART_INTERVAL_SECONDS:
            return
        ended = self._process
        self.close()
        try:
            self._spawn()
        except OSError:  # no descriptors, for one: later
            self._process, self._started_at = ended, time.monotonic()
            return
        self._warnings.append("The publisher of the monitor address ended by itself: it is started again.")

    def _wait_readable(self, deadline: float) -> None:
        assert self._socket is not None
        readable, _, _ = select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            self._error = f"the publisher of the monitor address {self._address} did not start in time"

    def _read(self) -> bool:
        """Take in what the child said. False: it is gone."""
        while self._socket is not None:
            try:
                line = self._socket.recv(_LINE_LIMIT_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not line:
                return False
            self._on_line(line.decode())
        return False

    def _on_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "watched":
            self._watched = True
        elif word == "unwatched":
            self._watched = False
        elif word == "events":
            self._wants_events = True
        elif word == "no-events":
            self._wants_events = False
            self._drop_ring()
        elif word == "ring":
            self._ring_ready = True
        elif word == "warning":
            self._warnings.append(rest)
        elif word == "trouble":
            self.trouble = rest
        elif word == "taken":
            self._taken = True
        elif word == "ready":
            self._ready, self._address = True, rest
        elif word == "error":
            self._error = rest

    def _hand_over(self, connection: socket.socket, payload: bytes) -> None:
        descriptor = os.memfd_create("scaler_monitor", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(payload)
            socket.send_fds(connection, [feed.SNAPSHOT_KIND], [descriptor])
            self._taken = False
        except OSError:  # the child is gone or its queue is full: the next snapshot replaces this one
            pass
        finally:
            os.close(descriptor)


def _remove_socket_file(address: str) -> None:
    """What a child leaves that was killed."""
    parsed = parse_address(address)
    if parsed.scheme == "ipc" and not parsed.path.startswith("@"):
        with contextlib.suppress(OSError):
            os.unlink(parsed.path)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
