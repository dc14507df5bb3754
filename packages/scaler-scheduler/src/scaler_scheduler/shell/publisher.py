"""The publisher, seen from the scheduler's process: a child process that serves the monitor address.

Watchers talk to that child only, so a thousand of them, slow or stopped, cost the scheduler nothing. One snapshot is
one memfd passed over a socket: handing it over never blocks, and while the child has not taken one no other is made.
The child encodes it, because that takes much longer than handing it over. Event records go through memory that both
share.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import subprocess
import time

from scaler_protocol.address import parse_address
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.command.remedies import with_remedy
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingWriter
from scaler_scheduler.shell import snapshot_transfer
from scaler_scheduler.shell.monitor_socket import MonitorSocket, listen_at
from scaler_scheduler.shell.publisher_restarts import Restarts

START_TIMEOUT_SECONDS = 15.0
EXIT_TIMEOUT_SECONDS = 2.0
RING_BYTES = 32 * 1024 * 1024
"""Memory for event records, as long as a watcher asks for them: at a million tasks a second, a good second."""

_MODULE = "scaler_scheduler.shell.publisher_process"
_LINE_LIMIT_BYTES = 4096


class Publisher:
    """Not thread-safe. Only ``start``, ``wait_for_ring``, ``publish_last`` and ``close`` wait; the other calls return
    at once, whatever the child does. The child ends with this process, however it ends. A child that died is started
    again by ``watched``, after pauses that grow while it keeps dying, and not indefinitely: then this process goes on
    without monitors."""

    def __init__(
        self,
        address: str,
        event_log: str | None = None,
        event_log_limit_bytes: int = 0,
        monitor_socket: MonitorSocket | None = None,
    ) -> None:
        """``event_log``: a file that keeps all that is published, the first of several; these and others in its folder
        have so many bytes together at most, 0: without bound. ``monitor_socket``: where monitors connect; None: at
        ``address``. It is closed with this."""
        self.trouble = ""
        """The current problem of the child, as a sentence."""

        self.error: str | None = None
        """The reason why there can be no publisher; it did not even start."""

        self._address = address
        self._monitor_socket = monitor_socket
        self._log_arguments = [event_log, str(event_log_limit_bytes)] if event_log is not None else []
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._sequence = 0
        self._watched = False
        self._taken = True
        self._ready = False
        self._was_ready = False
        self._said = self._lack = ""
        self._restarts = Restarts()
        self._gone_at: float | None = None
        self._wants_events = False
        self._requests = 0
        self._warnings: list[str] = []
        self._ring_descriptor: int | None = None
        self._ring_ready = False

    @property
    def address(self) -> str:
        """The address at which it listens; after ``start`` with the port that was found for port 0."""
        return self._address

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start the child and wait until it listens. OSError, with one plain sentence, when it cannot."""
        self.begin()
        deadline = time.monotonic() + timeout_seconds
        if self._socket is None:
            self.error = self._warnings[-1]
        while not self._ready and self.error is None:
            self._wait_readable(deadline)
            if not self._read() and self.error is None:
                self.error = self._said or self._why_not_started()
        if self.error is not None:
            self.close()
            raise OSError(self.error)

    def begin(self) -> None:
        """Start the child; ``watched`` notices when it listens, ``error`` says why it never will. OSError, with one
        plain sentence, when nothing can listen at an address of this machine."""
        if self._monitor_socket is None:
            self._monitor_socket = listen_at(parse_address(self._address))
        if self._monitor_socket is not None:
            self._address = self._monitor_socket.address
        self._spawn()

    def watched(self) -> bool:
        """Return whether any monitor watches now: only then is a snapshot worth making."""
        if not self._read():
            self._on_gone()
        return self._watched

    def wants_events(self) -> int:
        """0: no monitor asks for event records now; else a number that is another one when another child asks, or the
        same one again after a time without monitors: what it had before is gone."""
        return self._requests if self._wants_events else 0

    def take_warnings(self) -> list[str]:
        """Warnings of the child since the last call."""
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
            return RingWriter(mmap.mmap(self._ring_descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE))
        except OSError:  # there is no memory for it, or no descriptor is left: later
            return None
        finally:
            self._drop_ring()

    def wait_for_ring(
        self, first: int, epoch: int, timeout_seconds: float = START_TIMEOUT_SECONDS
    ) -> RingWriter | None:
        """The same, once it is ready; for one that keeps an event log, where records are wanted from the start. None:
        the child is gone, or took too long."""
        deadline = time.monotonic() + timeout_seconds
        while self._read() and self.error is None:
            ring = self.ring(first, epoch) if self.wants_events() else None
            if ring is not None:
                return ring
            self._wait_readable(deadline)
        return None

    def _offer_ring(self, first: int, epoch: int) -> None:
        self._ring_ready = False
        try:
            self._ring_descriptor = descriptor = os.memfd_create("scaler_events", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, RING_HEADER_BYTES + RING_BYTES)
            assert self._socket is not None
            socket.send_fds(self._socket, [b"ring %d %d" % (first, epoch)], [descriptor])
        except OSError:  # the child is gone or has too much to read, or no descriptor is left: later
            self._drop_ring()

    def _drop_ring(self) -> None:
        if self._ring_descriptor is not None:
            os.close(self._ring_descriptor)
            self._ring_descriptor = None

    def publish(self, snapshot: Snapshot) -> None:
        """Send to all watchers, and keep it for those that come later. Nothing happens while no monitor watches, or
        while the child has not yet taken the previous message."""
        if not self.watched() or not self._taken or self._socket is None:
            return
        self._sequence += 1
        self._hand_over(self._socket, snapshot_transfer.dump(snapshot, self._sequence))

    def publish_last(self, snapshot: Snapshot, timeout_seconds: float = EXIT_TIMEOUT_SECONDS) -> None:
        """The same before the end, when no other comes that could replace it: waits until the one before is taken."""
        deadline = time.monotonic() + timeout_seconds
        while self._read() and not self._taken and time.monotonic() < deadline:
            self._wait_readable(deadline)
        self.publish(snapshot)

    def close(self) -> None:
        """End the child and wait for it; no process listens any more. May be called twice."""
        self._end_child()
        if self._monitor_socket is not None:
            self._monitor_socket.close()
            self._monitor_socket = None

    def _end_child(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            _end(self._process)
            self._process = None
        self._watched = self._wants_events = False
        self._drop_ring()

    def _spawn(self) -> None:
        """Start the process. If descriptors, memory or the socket's folder are missing, it is tried again later."""
        try:
            if self._monitor_socket is not None:
                self._monitor_socket.restore()
            self._start_process()
        except OSError as error:
            if self._restarts.note_shortage(time.monotonic()):
                why = with_remedy(error, "this scheduler")
                self._warnings.append(f"The publisher cannot be started ({why}): monitors have to wait.")

    def _why_not_started(self) -> str:
        why = f": {self._lack.rstrip('.')}" if self._lack else ""
        return f"the publisher of the monitor address {self._address} did not start{why}"

    def _start_process(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = self._popen(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._socket = ours
        self._restarts.note_start(time.monotonic())
        self._watched, self._taken, self._ready, self._gone_at = False, True, False, None
        self._said = self._lack = self.trouble = ""

    def _popen(self, channel: int) -> subprocess.Popen[bytes]:
        place = self._monitor_socket
        listener = [str(place.fileno()), place.path, place.link] if place is not None else ["-1", "", ""]
        command, environment = module_command(_MODULE, str(channel), self._address, *listener, *self._log_arguments)
        return subprocess.Popen(
            command,
            env=environment,
            pass_fds=(channel, place.fileno()) if place is not None else (channel,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _on_gone(self) -> None:
        """The child is gone, or there is none yet."""
        now = time.monotonic()
        self._watched = self._wants_events = False
        if self._process is not None and self._has_exited(self._process, now):
            self._bury(self._process, now)
        if self._restarts.is_due(now):
            self._spawn()

    def _has_exited(self, process: subprocess.Popen[bytes], now: float) -> bool:
        """Or had the time for it."""
        self._gone_at = self._gone_at or now
        return process.poll() is not None or now - self._gone_at > EXIT_TIMEOUT_SECONDS

    def _bury(self, process: subprocess.Popen[bytes], now: float) -> None:
        self._end_child()
        if not self._was_ready and self._said:
            self.error = self._said
            return
        how = f"{self._said}; " if self._said else ""
        how += f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        why = f" Reason: {self._lack}" if self._lack else ""
        pause = self._restarts.note_end(now)
        if pause is not None:
            self._warnings.append(f"The publisher ended ({how}): it is started again in {pause:g} s.{why}")
            return
        without = "monitors and event log" if self._log_arguments else "monitors"
        self._warnings.append(f"The publisher ended too often ({how}): the scheduler goes on without {without}.{why}")
        self.close()

    def _wait_readable(self, deadline: float) -> None:
        assert self._socket is not None
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(1000 * max(0.0, deadline - time.monotonic())):
            self.error = f"the publisher of the monitor address {self._address} did not start in time"

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
            self._requests += 1
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
            self._ready = self._was_ready = True
            self._address = rest
        elif word == "error":
            self._said = rest
        elif word == "lacks":
            self._lack = rest

    def _hand_over(self, connection: socket.socket, payload: bytes) -> None:
        # The child may be gone, its queue full, or no descriptor be left: the next snapshot replaces this one.
        with contextlib.suppress(OSError), open(os.memfd_create("scaler_monitor", os.MFD_CLOEXEC), "wb") as file:
            file.write(payload)
            file.flush()
            socket.send_fds(connection, [feed.SNAPSHOT_KIND], [file.fileno()])
            self._taken = False


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
