"""ZeroMQ sockets with the options that this protocol needs, driven by the readiness of file descriptors.

Every option below was measured: heartbeats are answered by libzmq's own thread, so a peer whose interpreter is busy
stays connected; a DEALER with heartbeats and a bounded receive queue would abort its process; without
``ROUTER_HANDOVER`` a peer that comes back can be ignored for ever. A monitor must be read always and kept as long as
its socket.

What listens on the loopback interface without keys listens on a unix socket, too (its ``twin``), which peers of the
same user find by themselves: there a message costs libzmq's threads a third less.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket as plain_socket
import stat
from collections.abc import Callable
from typing import Literal

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import PeerKeys, ServerKeys, client_keys, scheduler_keys
from scaler_protocol.transport.doorkeeper import Doorkeeper
from scaler_protocol.transport.twin import is_listening, twin_of
from scaler_protocol.transport.zeromq import DealerFrames, RouterFrames

ConnectionEvent = Literal["connected", "disconnected", "handshake_failed"]

_HEARTBEAT_INTERVAL_MILLISECONDS = 500
_HEARTBEAT_TIMEOUT_MILLISECONDS = 1500  # more than the age at which a lost connection tells of a dead process
_HEARTBEAT_LIFE_MILLISECONDS = 2000
_RECONNECT_MILLISECONDS = 20
_RECONNECT_LIMIT_MILLISECONDS = 100
_CONNECT_TIMEOUT_MILLISECONDS = 500
_SEND_QUEUE_LENGTH = 10_000

_CONNECTION_EVENTS: dict[int, ConnectionEvent] = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: "connected",
    zmq.EVENT_DISCONNECTED: "disconnected",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "handshake_failed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "handshake_failed",
}
_monitor_numbers = itertools.count(1)


class DealerConnection(DealerFrames):
    """A peer's connection to its scheduler, made and made again by libzmq. It may be used from several threads only
    under a lock of the caller's. Edge-triggered: see ``fd``. ``keys`` tells the CURVE keys for an address."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address | str,
        session: bytes,
        keys: Callable[[Address], PeerKeys | None] = client_keys,
    ) -> None:
        parsed = parse_address(address) if isinstance(address, str) else address
        self._socket = context.socket(zmq.DEALER)
        self.attach(self._socket)
        _set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTING_ID, session)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MILLISECONDS)
        self._monitor = _Monitor(context, self._socket, _events(_CONNECTION_EVENTS) | zmq.EVENT_CONNECT_RETRIED)
        self._inproc_event = _InprocEvent() if parsed.scheme == "inproc" else None
        self._closed = False
        self._keys = keys
        self._address = parsed
        self._twin: Address | None = None
        self._endpoint = ""
        self._connect(parsed)

    def _connect(self, address: Address) -> None:
        try:
            self._use_keys(address)
            self._socket.setsockopt(zmq.IPV6, ":" in address.host)
            self._endpoint = self._best_endpoint()
            self._socket.connect(self._endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise _sentence(error.errno, f"Cannot connect to {address}: {error.strerror}.") from None
        except BaseException:
            self.close()
            raise

    def _use_keys(self, address: Address) -> None:
        keys = self._keys(address)
        if keys is None:
            self._twin = twin_of(address)
        else:
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_public)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        return _integer(self._socket, zmq.FD)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``connection_events`` may have some."""
        return self._monitor.fd if self._inproc_event is None else self._inproc_event.fd

    def connection_events(self) -> list[ConnectionEvent]:
        """What happened to the connection since the last call, in order. Say Hello at each "connected"."""
        news = self._monitor.events()
        events = [_CONNECTION_EVENTS[event] for event in news if event in _CONNECTION_EVENTS]
        if self._inproc_event is not None and self._inproc_event.take():
            events.append("connected")
        if news and self._twin is not None and self._moves() and events and events[-1] == "connected":
            events.pop()
        return events

    def _best_endpoint(self) -> str:
        twin_listens = self._twin is not None and is_listening(self._twin)
        return str(self._twin) if twin_listens else _loopback_by_number(self._address)

    def _moves(self) -> bool:
        """The peer has come, has gone or is not back yet. When its other endpoint is the better one now, this connects
        there instead, and says so once it has."""
        endpoint = self._best_endpoint()
        if endpoint == self._endpoint:
            return False
        self._socket.disconnect(self._endpoint)
        self._socket.connect(endpoint)
        self._endpoint = endpoint
        return True

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. ``linger_milliseconds``: how long what was sent may still take to leave."""
        if self._closed:
            return
        self._closed = True
        if self._inproc_event is not None:
            self._inproc_event.close()
        self._monitor.close()
        self._socket.close(linger_milliseconds)


class RouterSocket(RouterFrames):
    """The scheduler's socket. A peer is named by its routing id, which is its session. ``keys`` tells the CURVE keys
    for an address."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: Callable[[Address], ServerKeys | None] = scheduler_keys,
    ) -> None:
        self._keys = keys
        self._socket = context.socket(zmq.ROUTER)
        self.attach(self._socket)
        _set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._monitor = _Monitor(context, self._socket, zmq.EVENT_DISCONNECTED)
        self._context = context
        self._doorkeeper: Doorkeeper | None = None
        self._file: tuple[str, int] | None = None
        self._closed = False

    def bind(self, address: Address | str) -> str:
        """The address bound (port 0 became a free one). Raises OSError with a plain sentence when it is in use."""
        parsed = parse_address(address) if isinstance(address, str) else address
        if parsed.scheme == "ipc":
            _check_path_free(parsed)
        self._use_keys(parsed)
        twin = None
        try:
            twin = self._bind_twin(parsed) if parsed.port else None  # first: who comes by the other looks for it
            self._socket.setsockopt(zmq.IPV6, ":" in parsed.host)
            self._socket.bind(_bindable(parsed))
        except zmq.ZMQError as error:
            if twin is not None:
                self._socket.unbind(str(twin))
            raise _bind_error(parsed, error) from None
        if parsed.scheme != "tcp":
            self._file = _socket_file(parsed)
            return str(parsed)
        return str(parsed if parsed.port else self._bind_twin_of_port(parsed.host))

    def _bind_twin_of_port(self, host: str) -> Address:
        """The port is known only now."""
        endpoint = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        bound = Address("tcp", host, parse_address(endpoint).port)
        self._bind_twin(bound)
        return bound

    def _bind_twin(self, address: Address) -> Address | None:
        twin = twin_of(address) if self._doorkeeper is None else None
        if twin is None:
            return None
        self._socket.bind(str(twin))
        return twin

    def _use_keys(self, address: Address) -> None:
        keys = self._keys(address)
        if keys is None or self._doorkeeper is not None:
            return
        self._doorkeeper = Doorkeeper(self._context, keys.user_of)
        self.name_users()
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        self._socket.setsockopt(zmq.ZAP_DOMAIN, b"scaler")

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        return _integer(self._socket, zmq.FD)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``disconnected_events`` may have some."""
        return self._monitor.fd

    def probe(self, peer: bytes) -> bool:
        """Whether the connection of ``peer`` is still there."""
        return self.send(peer, [b""]) != "gone"

    def disconnected_events(self) -> int:
        """How many connections ended since the last call; ``probe`` tells whose."""
        return sum(1 for event in self._monitor.events() if event == zmq.EVENT_DISCONNECTED)

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. Removes the socket file of an ipc address."""
        if self._closed:
            return
        self._closed = True
        self._monitor.close()
        self._socket.close(linger_milliseconds)
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        self._remove_file()

    def _remove_file(self) -> None:
        if self._file is None:
            return
        path, inode = self._file
        try:
            if os.stat(path).st_ino == inode:
                os.unlink(path)
        except FileNotFoundError:
            pass


class _Monitor:
    """The events of one socket. Bounded, unread or collected monitors freeze every socket of the context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes], events: int) -> None:
        endpoint = f"inproc://scaler-monitor-{os.getpid()}-{next(_monitor_numbers)}"
        self._watched = watched
        watched.monitor(endpoint, events)
        self._socket = context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.connect(endpoint)
        self.events()  # the descriptor tells of events only after a read that found none

    @property
    def fd(self) -> int:
        return _integer(self._socket, zmq.FD)

    def events(self) -> list[int]:
        events: list[int] = []
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return events
            events.append(int.from_bytes(frames[0][:2], "little"))

    def close(self) -> None:
        self._watched.monitor(None, 0)
        self._socket.close(0)


class _InprocEvent:
    """libzmq reports nothing about inproc connections: this says "connected", once, readable like a monitor."""

    def __init__(self) -> None:
        self._reader, self._writer = plain_socket.socketpair()
        self._reader.setblocking(False)
        self._writer.send(b"c")
        self.fd = self._reader.fileno()

    def take(self) -> bool:
        try:
            return bool(self._reader.recv(1))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def _set_options(target: zmq.Socket[bytes]) -> None:
    target.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_LIFE_MILLISECONDS)
    target.setsockopt(zmq.LINGER, 0)
    target.setsockopt(zmq.RCVHWM, 0)
    target.setsockopt(zmq.SNDHWM, _SEND_QUEUE_LENGTH)


def _integer(source: zmq.Socket[bytes], option: int) -> int:
    value = source.getsockopt(option)
    assert isinstance(value, int)
    return value


def _events(table: dict[int, ConnectionEvent]) -> int:
    mask = 0
    for event in table:
        mask |= event
    return mask


def _loopback_by_number(address: Address) -> str:
    """Some machines have localhost as ::1, some as 127.0.0.1: both ends must mean the same."""
    return f"tcp://127.0.0.1:{address.port}" if address.host == "localhost" else str(address)


def _bindable(address: Address) -> str:
    """libzmq binds numbers and names of network interfaces; a host name is looked up here."""
    if address.scheme != "tcp" or address.host in ("localhost", "*") or ":" in address.host:
        return _loopback_by_number(address)
    try:
        return f"tcp://{plain_socket.gethostbyname(address.host)}:{address.port}"
    except OSError:
        return str(address)


def _check_path_free(address: Address) -> None:
    """libzmq would silently take a socket file over from a process that still listens on it."""
    name = "\0" + address.path[1:] if address.path.startswith("@") else address.path
    with plain_socket.socket(plain_socket.AF_UNIX) as probe:
        try:
            probe.connect(name)
        except OSError:
            return
    raise _sentence(errno.EADDRINUSE, f"Cannot listen on {address}: another process does already.")


def _socket_file(address: Address) -> tuple[str, int] | None:
    if address.scheme != "ipc" or address.path.startswith("@"):
        return None
    status = os.stat(address.path)
    return (address.path, status.st_ino) if stat.S_ISSOCK(status.st_mode) else None


def _bind_error(address: Address, error: zmq.ZMQError) -> OSError:
    if error.errno == errno.EADDRINUSE:
        return _sentence(errno.EADDRINUSE, f"Cannot listen on {address}: another process does already.")
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return _sentence(errno.EADDRNOTAVAIL, f"Cannot listen on {address}: this machine has no such address.")
    return _sentence(error.errno, f"Cannot listen on {address}: {error.strerror}.")


def _sentence(number: int | None, text: str) -> OSError:
    """An OSError that prints as its sentence, without the number before it."""
    error = OSError(text)
    error.errno = number
    return error
