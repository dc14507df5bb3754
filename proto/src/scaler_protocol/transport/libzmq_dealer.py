"""ZeroMQ's DEALER, as libzmq makes it: it connects in its own thread, again and again."""

from __future__ import annotations

import errno
import os
from typing import Literal

import zmq

from scaler_protocol.address import Address
from scaler_protocol.keys import PeerKeys
from scaler_protocol.transport.endpoints import to_connect
from scaler_protocol.transport.socket_monitor import SocketMonitor
from scaler_protocol.transport.socket_options import fd_of, set_options

ConnectionEvent = Literal["connected", "disconnected", "handshake_failed"]

_RECONNECT_MILLISECONDS = 20
_RECONNECT_LIMIT_MILLISECONDS = 100
_CONNECT_TIMEOUT_MILLISECONDS = 500

_CONNECTION_EVENTS: dict[int, ConnectionEvent] = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: "connected",
    zmq.EVENT_DISCONNECTED: "disconnected",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "handshake_failed",
}
_DESCRIPTORS_NEEDED = 8
"""For a context's first socket, its monitor and its connection; each of the context's threads has two more."""

_WATCHED_EVENTS = sum(_CONNECTION_EVENTS) | zmq.EVENT_CONNECT_RETRIED


class LibzmqDealer:
    """Its socket and what is reported about it. Raises zmq.ZMQError, with EMFILE where no descriptors are left."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: Address, session: bytes, keys: PeerKeys | None
    ) -> None:
        _check_descriptors(_DESCRIPTORS_NEEDED + 2 * context.get(zmq.IO_THREADS))
        self.socket = context.socket(zmq.DEALER)
        try:
            self._set_options(address, session, keys)
            self._monitor = SocketMonitor(context, self.socket, _WATCHED_EVENTS)
        except BaseException:
            self.socket.close(0)
            raise
        self.fd = fd_of(self.socket)
        self.monitor_fd = self._monitor.fd
        try:
            self.socket.connect(to_connect(address))
        except BaseException:
            self.close(0)
            raise

    def _set_options(self, address: Address, session: bytes, keys: PeerKeys | None) -> None:
        set_options(self.socket)
        self.socket.setsockopt(zmq.ROUTING_ID, session)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
        self.socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MILLISECONDS)
        self.socket.setsockopt(zmq.IPV6, ":" in address.host)
        if keys is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)

    def take_events(self) -> tuple[list[ConnectionEvent], bool]:
        """Since the last call, in order; and whether anything happened at all, such as a connection that failed."""
        news = self._monitor.events()
        return [_CONNECTION_EVENTS[event] for event, _ in news if event in _CONNECTION_EVENTS], bool(news)

    def close(self, linger_milliseconds: int) -> None:
        self._monitor.close()
        self.socket.close(linger_milliseconds)


def _check_descriptors(count: int) -> None:
    """Where one is missing in the middle, libzmq ends the process. Raises zmq.ZMQError."""
    taken: list[int] = []
    try:
        for _ in range(count):
            taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise zmq.ZMQError(error.errno) from None
    finally:
        for fd in taken:
            os.close(fd)
