"""The monitor stream of a scheduler on this machine, over a unix socket or a port. Linux only.

It speaks ZeroMQ's protocol without libzmq, because the kernel must say which user listens there before a byte is read:
the path or the port may be one that any user can take.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from scaler_protocol.address import Address
from scaler_protocol.keys import VARIABLE
from scaler_protocol.monitor.bounds import MESSAGE_LIMIT_BYTES
from scaler_protocol.monitor.feed import RefusedError
from scaler_protocol.monitor.local_publisher import LocalPublisher
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.zmtp import ZmtpConnection

RECONNECT_SECONDS = 0.1
RECONNECT_LIMIT_SECONDS = 0.5
REFUSED_RETRY_SECONDS = 1.0
"""Seconds until it connects again after it was refused."""

BROKEN_LIMIT = 5
"""This many broken handshakes in a row are not an accident, such as a scheduler that ends."""

HANDSHAKE_SECONDS = 0.2
"""Maximum duration of the first handshake."""

_KEYS = f"it has keys (set {VARIABLE} to their directory), "
_NOT_A_MONITOR = "it serves too many monitors, or it is not the monitor address that a scheduler logs"
_READS_LIMIT = 1000
"""Reads of one call, which returns however fast the publisher sends."""

_ABSENT = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOTDIR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that time may cure: the scheduler has not started, or has too many connections just now."""


class Pollable:
    """An object for ``zmq.Poller`` and event loops: readable (level-triggered) when ``receive`` has something to do."""

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def register(self, fd: int) -> None:
        self._epoll.register(fd, select.EPOLLIN)

    def poll(self, timeout_milliseconds: float | None = None) -> int:
        """0 when nothing came in time."""
        return len(self._epoll.poll(None if timeout_milliseconds is None else timeout_milliseconds / 1000))

    def close(self) -> None:
        self._epoll.close()


class LocalStream:
    """Reconnects by itself while ``receive`` is called. A publisher that is there has been subscribed to when this has
    been made."""

    def __init__(self, address: Address, topics: Sequence[bytes]) -> None:
        self.socket = Pollable()
        self._publisher = LocalPublisher(address)
        self._address = str(address)
        self._reasons = f"{_KEYS if address.scheme == 'tcp' else ''}{_NOT_A_MONITOR}"
        self._topics = topics
        self._timer = Timer()
        self._connection: ZmtpConnection | None = None
        self._payloads: deque[bytes] = deque()
        self._pause = RECONNECT_SECONDS
        self._broken = 0
        self._refusal = ""
        self._has_subscribed = False
        self.socket.register(self._timer.fd)
        self._connect()
        self._await_handshake()

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> bytes | None:
        """The next message's payload; None: nothing waits. RefusedError: none will come for now."""
        for _ in range(_READS_LIMIT):
            if self._refusal:
                refusal, self._refusal = self._refusal, ""
                raise RefusedError(refusal)
            if self._payloads:
                return self._payloads.popleft()
            if not self._read():
                break
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._timer.close()
        self.socket.close()

    def _read(self) -> bool:
        """Return whether there may be more."""
        if self._connection is None:
            if self._timer.take():
                self._connect()
            return bool(self._refusal)
        messages = self._connection.read()
        if messages:
            self._payloads.extend(message[-1] for message in messages)
        if self._connection.is_ready and not self._has_subscribed:
            self._subscribe(self._connection)
        if self._connection.has_ended or self._connection.is_cut:
            self._lose(self._connection)
        return messages is not None or bool(self._refusal)

    def _await_handshake(self) -> None:
        """The caller must miss nothing from now on, even if it first receives much later."""
        deadline = time.monotonic() + HANDSHAKE_SECONDS
        while self._connection is not None and not self._has_subscribed and time.monotonic() < deadline:
            self.socket.poll(1000 * HANDSHAKE_SECONDS)
            self._read()

    def _subscribe(self, connection: ZmtpConnection) -> None:
        connection.send_together([b"\x01" + topic for topic in self._topics])
        self._has_subscribed, self._broken, self._pause = True, 0, RECONNECT_SECONDS

    def _lose(self, connection: ZmtpConnection) -> None:
        connection.close()
        self._connection = None
        if not connection.is_ready:
            self._broken += 1
            if self._broken >= BROKEN_LIMIT:
                self._refusal = f"{self._address} closes each connection: {self._reasons}."
        self._connect_later(self._pause)

    def _connect_later(self, seconds: float) -> None:
        self._timer.set(seconds)
        self._pause = min(2 * self._pause, RECONNECT_LIMIT_SECONDS)

    def _connect(self) -> None:
        try:
            self._begin(self._publisher.connect())
        except (OSError, RefusedError) as error:
            self._on_failure(error)

    def _on_failure(self, error: OSError | RefusedError) -> None:
        if isinstance(error, OSError) and error.errno in _ABSENT:
            return self._connect_later(self._pause)
        reason = f"Cannot connect to {self._address}: {error.strerror}." if isinstance(error, OSError) else str(error)
        self._refusal = reason
        self._connect_later(REFUSED_RETRY_SECONDS)

    def _begin(self, connected: socket.socket) -> None:
        connection = ZmtpConnection(connected, "SUB", message_limit_bytes=MESSAGE_LIMIT_BYTES)
        connection.watch_in(self.socket.fileno())
        self._connection, self._has_subscribed = connection, False
