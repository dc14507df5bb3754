"""ZeroMQ's DEALER, as libzmq makes it: it connects in its own thread."""

from __future__ import annotations

import errno
import os
from typing import Literal

import zmq

from scaler_protocol.address import Address
from scaler_protocol.keys import PeerKeys
from scaler_protocol.transport.context import new_socket
from scaler_protocol.transport.endpoints import to_connect
from scaler_protocol.transport.socket_monitor import SocketMonitor
from scaler_protocol.transport.socket_options import fd_of, set_options

ConnectionEvent = Literal["connected", "disconnected", "handshake_failed", "key_refused"]

_RECONNECT_MILLISECONDS = 20
_RECONNECT_LIMIT_MILLISECONDS = 100
_NEVER = -1
_CONNECT_TIMEOUT_MILLISECONDS = 500
_REFUSED_STATUS = 400  # of ZAP

_CONNECTION_EVENTS: dict[int, ConnectionEvent] = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: "connected",
    zmq.EVENT_DISCONNECTED: "disconnected",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "handshake_failed",
}
_DESCRIPTORS_NEEDED = 8
"""Descriptors for a context's first socket, its monitor and its connection; each of the context's threads needs two
more."""

_WATCHED_EVENTS = sum(_CONNECTION_EVENTS) | zmq.EVENT_CLOSED


class LibzmqDealer:
    """Its socket and what is reported about it. ``reconnects``: it connects again and again by itself; otherwise it is
    of no use any more once ``is_over``. Raises zmq.ZMQError, with EMFILE where no descriptors are left, and
    RuntimeError if the system allows no threads for it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address,
        session: bytes,
        keys: PeerKeys | None,
        reconnects: bool = True,
    ) -> None:
        _check_descriptors(_DESCRIPTORS_NEEDED + 2 * context.get(zmq.IO_THREADS))
        self.is_over = False
        self._endpoint = to_connect(address)
        self._reconnects = reconnects
        self.socket = new_socket(context, zmq.DEALER)
        try:
            self._set_options(address, session)
            self._use_keys(keys)
            self._monitor = SocketMonitor(context, self.socket, _WATCHED_EVENTS)
        except BaseException:
            self.socket.close(0)
            raise
        self.fd = fd_of(self.socket)
        self.monitor_fd = self._monitor.fd
        try:
            self.socket.connect(self._endpoint)
        except BaseException:
            self.close(0)
            raise

    def _set_options(self, address: Address, session: bytes) -> None:
        set_options(self.socket)
        self.socket.setsockopt(zmq.ROUTING_ID, session)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS if self._reconnects else _NEVER)
        if self._reconnects:
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
        self.socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MILLISECONDS)
        self.socket.setsockopt(zmq.IPV6, ":" in address.host)

    def _use_keys(self, keys: PeerKeys | None) -> None:
        if keys is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(keys.secret))

    def take_events(self) -> list[ConnectionEvent]:
        """Return the events since the last call, in order."""
        events: list[ConnectionEvent] = []
        for event, value in self._monitor.events():
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and value == _REFUSED_STATUS:
                events.append("key_refused")
            elif event in _CONNECTION_EVENTS:
                events.append(_CONNECTION_EVENTS[event])
            if event != zmq.EVENT_HANDSHAKE_SUCCEEDED and not self._reconnects:
                self.is_over = True
        return events

    def connect_again(self, keys: PeerKeys | None) -> None:
        """Also where libzmq has given up, as it does when its key was refused."""
        try:
            self.socket.disconnect(self._endpoint)
        except zmq.ZMQError:
            pass  # it is not connected
        self._use_keys(keys)
        self.socket.connect(self._endpoint)

    def close(self, linger_milliseconds: int) -> None:
        self._monitor.close()
        self.socket.close(linger_milliseconds)


def _check_descriptors(count: int) -> None:
    """Check that so many are free: libzmq ends the process when one is missing halfway. Raises zmq.ZMQError."""
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
