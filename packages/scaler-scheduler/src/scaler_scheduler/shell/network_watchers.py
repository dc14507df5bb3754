"""Watchers over the network, through libzmq, which encrypts the stream for watchers with keys."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from dataclasses import dataclass, replace
from typing import Any

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import ServerKeys, key_of_user, monitor_keys
from scaler_protocol.transport.context import new_socket
from scaler_protocol.transport.curve_authentication import CurveAuthenticator
from scaler_protocol.transport.socket_monitor import SocketMonitor
from scaler_scheduler.shell.standstill import LOOK_SECONDS, Standstill
from scaler_scheduler.shell.watchers import (
    QUEUE_LIMIT,
    SUBSCRIBE_SECONDS,
    TOO_MANY_TOPICS,
    TOO_MANY_WATCHERS,
    TOPIC_LIMIT_BYTES,
    TOPICS_LIMIT,
    WATCHERS_LIMIT,
    Complain,
    WatchRequest,
    is_useful,
)

BUSY_RETRY_SECONDS = 2.0
"""Seconds for which an address may stay busy: the publisher of a scheduler that just ended takes a moment to leave."""

RETRY_INTERVAL_SECONDS = 0.05
WATCHER_LIFE_MILLISECONDS = 5000
"""Milliseconds for which sent bytes may stay unacknowledged on a connection without heartbeats."""


@dataclass(slots=True)
class _Connection:
    """One of libzmq's, by the descriptor of its socket."""

    inode: int
    accepted_at: float
    standstill: Standstill
    odd_topics: int = 0
    has_asked: bool = False
    user: str = ""
    """The user of its key, as it was when it connected."""


class NetworkWatchers:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], complain: Complain) -> None:
        self.socket = new_socket(context, zmq.XPUB)
        self._context = context
        self._complain = complain
        self._complaints: set[str] = set()
        self._authenticator: CurveAuthenticator | None = None
        self._keys: ServerKeys | None = None
        self._topics: set[bytes] = set()
        self._connections: dict[int, _Connection] = {}
        self._looked_at = 0.0
        _set_options(self.socket)
        self._accepted = SocketMonitor(context, self.socket, zmq.EVENT_ACCEPTED)

    @property
    def look_milliseconds(self) -> int:
        return int(LOOK_SECONDS * 1000)

    def bind(self, address: str) -> str:
        """The address with its real port. OSError with one plain sentence when it is busy or cannot be bound."""
        deadline = time.monotonic() + BUSY_RETRY_SECONDS
        while True:
            try:
                return self._bind(parse_address(address))
            except (OSError, zmq.ZMQError) as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise OSError(error.errno, _sentence(address, error)) from error
                time.sleep(RETRY_INTERVAL_SECONDS)

    def take(self) -> list[WatchRequest]:
        self._take_accepted(time.monotonic())
        requests = []
        while self.socket.poll(0):
            frame = self.socket.recv(copy=False)
            kind, topic = frame.bytes[:1], frame.bytes[1:]
            if kind == b"\x01" and self._may_ask(frame, topic):
                requests.append(WatchRequest(None, topic))
                if is_useful(topic):
                    self._topics.add(topic)
            elif kind == b"\x00":
                self._topics.discard(topic)
        return requests

    def wants(self, kind: bytes) -> bool:
        return any(kind.startswith(topic) for topic in self._topics)

    def publish(self, kind: bytes, payload: bytes) -> None:
        if self._topics:
            self.socket.send_multipart([kind, payload])

    def reply(self, watcher: Any, topic: bytes, payload: bytes) -> None:
        """Send a reply to all that have subscribed to this topic: libzmq cannot send to one of them."""
        self.socket.send_multipart([topic, payload])

    def look(self, now: float) -> None:
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        self._take_accepted(now)
        admitted = self._admitted_users()
        for descriptor, connection in list(self._connections.items()):
            if not self._stays(connection, now, admitted):
                self._cut(descriptor, connection)

    def close(self) -> None:
        self._accepted.close()
        self.socket.close()
        if self._authenticator is not None:
            self._authenticator.close()

    def _bind(self, address: Address) -> str:
        self._use_keys(address)
        self.socket.setsockopt(zmq.IPV6, ":" in address.host)
        host = "127.0.0.1" if address.host == "localhost" else address.host
        self.socket.bind(str(replace(address, host=host)))
        bound = parse_address(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        return str(replace(address, port=bound.port))

    def _use_keys(self, address: Address) -> None:
        if self._authenticator is not None:
            return
        self._keys = monitor_keys(address)
        if self._keys is None:
            return
        self._authenticator = CurveAuthenticator(self._context, self._keys.user_of)
        self.socket.setsockopt(zmq.CURVE_SERVER, 1)
        self.socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret)
        self.socket.setsockopt(zmq.ZAP_DOMAIN, b"scaler")

    # ---- connections -----------------------------------------------------------------------------------------------

    def _take_accepted(self, now: float) -> None:
        for _, descriptor in self._accepted.events():
            with contextlib.suppress(OSError):  # it is gone again
                self._know(descriptor, now)
        self._make_room()

    def _know(self, descriptor: int, now: float) -> _Connection:
        """Raises OSError if the descriptor is closed."""
        inode = os.fstat(descriptor).st_ino
        known = self._connections.get(descriptor)
        if known is None or known.inode != inode:
            known = self._connections[descriptor] = _Connection(inode, now, Standstill(descriptor, inode))
        return known

    def _may_ask(self, frame: zmq.Frame, topic: bytes) -> bool:
        try:
            descriptor = int(frame.get(zmq.SRCFD))
            connection = self._know(descriptor, time.monotonic())
            connection.user = str(frame.get("User-Id")) if self._keys is not None else ""
        except (zmq.ZMQError, OSError):  # the connection is gone
            return False
        connection.has_asked = True
        connection.odd_topics += not is_useful(topic)
        if connection.odd_topics <= TOPICS_LIMIT:
            return True
        self._cut(descriptor, connection)
        self._complain_once(TOO_MANY_TOPICS)
        return False

    def _make_room(self) -> None:
        """Close connections that have asked for nothing, the oldest first, and then the newest of the others."""
        while len(self._connections) > WATCHERS_LIMIT:
            idle = [descriptor for descriptor, each in self._connections.items() if not each.has_asked]
            if len(self._connections) - len(idle) >= WATCHERS_LIMIT:
                self._complain_once(TOO_MANY_WATCHERS)
            descriptor = idle[0] if idle else next(reversed(self._connections))
            self._cut(descriptor, self._connections[descriptor])

    def _admitted_users(self) -> set[str] | None:
        """Return the connected users whose keys are still valid; None: all are."""
        if self._keys is None:
            return None
        users = {connection.user for connection in self._connections.values() if connection.user}
        try:
            return {user for user in users if self._keys.user_of(key_of_user(user.encode())) is not None}
        except OSError:  # they cannot be read just now
            return None

    def _stays(self, connection: _Connection, now: float, admitted: set[str] | None) -> bool:
        if not connection.has_asked:
            return now - connection.accepted_at < SUBSCRIBE_SECONDS
        if admitted is not None and connection.user not in admitted:
            return False
        try:
            return connection.standstill.goes_on()
        except OSError:  # it is gone
            return False

    def _cut(self, descriptor: int, connection: _Connection) -> None:
        """ZeroMQ then forgets the connection and its topics."""
        del self._connections[descriptor]
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as held:
            if os.fstat(held.fileno()).st_ino == connection.inode:
                held.shutdown(socket.SHUT_RDWR)

    def _complain_once(self, sentence: str) -> None:
        if sentence not in self._complaints:
            self._complaints.add(sentence)
            self._complain(sentence)


def _set_options(watchers: zmq.Socket[bytes]) -> None:
    watchers.setsockopt(zmq.LINGER, 0)
    watchers.setsockopt(zmq.SNDHWM, QUEUE_LIMIT)
    watchers.setsockopt(zmq.MAXMSGSIZE, TOPIC_LIMIT_BYTES)
    watchers.setsockopt(zmq.XPUB_VERBOSE, 1)  # tell of every new watcher, so that it gets the last snapshot at once
    # A stopped watcher is disconnected, and with it goes its queue, by its own heartbeats, which say how long they are
    # good for, or else by ``Standstill``. No heartbeats go out from here: with full buffers they could not, and each
    # answer to one ends that time.
    watchers.setsockopt(zmq.TCP_MAXRT, WATCHER_LIFE_MILLISECONDS)


def _sentence(address: str, error: OSError | zmq.ZMQError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"the monitor address {address} is already in use"
    reason = (error.strerror if isinstance(error, OSError) else None) or os.strerror(error.errno or 0)
    return f"cannot listen on the monitor address {address}: {reason}"
