"""ZeroMQ sockets with the options that this protocol needs, driven by the readiness of file descriptors.

Every option below was measured: heartbeats are answered by libzmq's own thread, so a peer whose interpreter is busy
stays connected; a DEALER with heartbeats and a bounded receive queue would abort its process; without
``ROUTER_HANDOVER`` a peer that comes back can be ignored for ever. A monitor must be read always and kept as long as
its socket.

What listens on the loopback interface without keys listens on a unix socket, too (its ``twin``), which peers of the
same user find by themselves. There ZeroMQ's protocol is spoken without libzmq, in the threads of those who send and
receive. Such a connection needs no heartbeats: it ends when one of the two processes does, or when one reads nothing
while too much waits for it.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import select
import socket as plain_socket
import stat
from collections.abc import Callable
from typing import Literal

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import PeerKeys, ServerKeys, client_keys, scheduler_keys
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES
from scaler_protocol.transport.doorkeeper import Doorkeeper
from scaler_protocol.transport.gate import Gate
from scaler_protocol.transport.twin import twin_of
from scaler_protocol.transport.zeromq import DealerFrames, RouterFrames
from scaler_protocol.transport.zmtp import ZmtpConnection
from scaler_protocol.transport.zmtp_listener import ZmtpListener, peer_of

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
    """A peer's connection to its scheduler, made and made again. It may be used from several threads only under a lock
    of the caller's. ``keys`` tells the CURVE keys for an address.

    While the twin of the address cannot be reached there is libzmq's socket, which also tells when to look for the
    twin again: it says so when the scheduler comes, goes, or is still not there."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address | str,
        session: bytes,
        keys: Callable[[Address], PeerKeys | None] = client_keys,
    ) -> None:
        self._context = context
        self._address = parse_address(address) if isinstance(address, str) else address
        self._session = session
        self._closed = False
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: _Monitor | None = None
        self._inproc_event = _InprocEvent() if self._address.scheme == "inproc" else None
        self._gates: tuple[Gate, Gate] | None = None  # for messages, for connection events
        self._told_connected = False
        self._avoids_twin = False
        self._peer_process = 0
        self._peer_was_stopped = False
        try:
            self._keys = keys(self._address)
            self._twin = twin_of(self._address) if self._keys is None else None
            if self._twin is not None:
                self._gates = Gate(), Gate()
            if not self._use_twin():
                self._open_socket()
        except zmq.ZMQError as error:
            self.close()
            raise _sentence(error.errno, f"Cannot connect to {self._address}: {error.strerror}.") from None
        except BaseException:
            self.close()
            raise

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        if self._gates is not None:
            return self._gates[0].fd
        assert self._socket is not None
        return _integer(self._socket, zmq.FD)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``connection_events`` may have some."""
        if self._gates is not None:
            return self._gates[1].fd
        if self._inproc_event is not None:
            return self._inproc_event.fd
        assert self._monitor is not None
        return self._monitor.fd

    def connection_events(self) -> list[ConnectionEvent]:
        """What happened to the connection since the last call, in order. Say Hello at each "connected"."""
        if self.stream is not None:
            return self._stream_events(self.stream)
        assert self._monitor is not None
        news = self._monitor.events()
        events = [_CONNECTION_EVENTS[event] for event in news if event in _CONNECTION_EVENTS]
        if self._inproc_event is not None and self._inproc_event.take():
            events.append("connected")
        if "disconnected" in events:
            self._avoids_twin = False
        is_connected = bool(events) and events[-1] == "connected"
        if news and not (is_connected and self._avoids_twin) and self._use_twin():
            return [*(events[:-1] if is_connected else events), *self.connection_events()]
        return events

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. ``linger_milliseconds``: how long what was sent may still take to leave."""
        if self._closed:
            return
        self._closed = True
        if self._inproc_event is not None:
            self._inproc_event.close()
        self._leave_twin(linger_milliseconds)
        self._close_socket(linger_milliseconds)
        for gate in self._gates or ():
            gate.close()

    # ---- the twin ------------------------------------------------------------------------------------------------

    def _use_twin(self) -> bool:
        """Speak through it, if somebody listens there. Its messages are waited for once it is connected: till then all
        that comes is for who waits for connection events."""
        if self._twin is None or self._gates is None:
            return False
        connected = _connected(self._twin)
        if connected is None:
            return False
        self._close_socket(0)
        self._peer_process = peer_of(connected)[0]
        self._peer_was_stopped = False
        stream = ZmtpConnection(connected, "DEALER", self._session)
        self._gates[1].add(stream.fd, select.EPOLLIN | (select.EPOLLOUT if stream.waiting_bytes else 0))
        self.use(stream)
        return True

    def _stream_events(self, stream: ZmtpConnection) -> list[ConnectionEvent]:
        assert self._gates is not None
        events: list[ConnectionEvent] = []
        stream.look()
        if stream.is_ready and not self._told_connected:
            self._told_connected = True
            self._gates[1].change(stream.fd, select.EPOLLRDHUP)
            stream.watch_in(self._gates[0].fd)
            events.append("connected")
        if stream.has_ended:
            if self._told_connected:
                events.append("disconnected")
            self._avoids_twin = not self._told_connected
            self._leave_twin(0)
            self._open_socket()
        return events

    def look_after_peer(self) -> None:
        """A process that is stopped keeps its end open: one that is found so twice, a second apart, counts as gone. A
        peer sends something each few seconds, so this is asked often enough."""
        is_stopped = _is_stopped(self._peer_process)
        if is_stopped and self._peer_was_stopped and self.stream is not None:
            self.stream.hang_up()
        self._peer_was_stopped = is_stopped

    def _leave_twin(self, linger_milliseconds: int) -> None:
        if self.stream is not None and self._gates is not None:
            self._gates[1].remove(self.stream.fd)
            self.stream.close(linger_milliseconds)
            self.use(None)
            self._told_connected = False

    # ---- libzmq's socket -----------------------------------------------------------------------------------------

    def _open_socket(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        self.attach(self._socket)
        _set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTING_ID, self._session)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_TIMEOUT_MILLISECONDS)
        if self._keys is not None:
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, self._keys.server_public)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret)
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, self._keys.public)
        self._socket.setsockopt(zmq.IPV6, ":" in self._address.host)
        self._monitor = _Monitor(
            self._context, self._socket, _events(_CONNECTION_EVENTS) | zmq.EVENT_CONNECT_RETRIED
        )  # fmt: skip
        if self._gates is not None:
            self._gates[0].add(_integer(self._socket, zmq.FD), select.EPOLLIN)
            self._gates[1].add(self._monitor.fd, select.EPOLLIN)
        self._socket.connect(_loopback_by_number(self._address))

    def _close_socket(self, linger_milliseconds: int) -> None:
        if self._socket is None or self._monitor is None:
            return
        if self._gates is not None:
            self._gates[0].remove(_integer(self._socket, zmq.FD))
            self._gates[1].remove(self._monitor.fd)
        self._monitor.close()
        self._socket.close(linger_milliseconds)
        self._socket = self._monitor = None


class RouterSocket(RouterFrames):
    """The scheduler's socket. A peer is named by its routing id, which is its session. ``keys`` tells the CURVE keys
    for an address."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: Callable[[Address], ServerKeys | None] = scheduler_keys,
    ) -> None:
        self._keys = keys
        self._lost_event: int | None = None
        self._gate: Gate | None = None
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
        try:
            if parsed.port:
                self._listen_beside(parsed)  # first: who comes by the other looks for it
            self._socket.setsockopt(zmq.IPV6, ":" in parsed.host)
            self._socket.bind(_bindable(parsed))
        except zmq.ZMQError as error:
            self._close_beside(0)
            raise _bind_error(parsed, error) from None
        if parsed.scheme != "tcp":
            self._file = _socket_file(parsed)
            return str(parsed)
        return str(parsed if parsed.port else self._listen_beside_port(parsed.host))

    def _listen_beside_port(self, host: str) -> Address:
        """The port is known only now."""
        endpoint = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        bound = Address("tcp", host, parse_address(endpoint).port)
        self._listen_beside(bound)
        return bound

    def _listen_beside(self, address: Address) -> None:
        """On the twin of the address, if it has one."""
        twin = twin_of(address) if self._doorkeeper is None else None
        if twin is None:
            return
        self._lost_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._gate = Gate()
        self._gate.add(self._lost_event, select.EPOLLIN)
        self._gate.add(self._monitor.fd, select.EPOLLIN)
        listener = ZmtpListener(
            _integer(self._socket, zmq.FD), functools.partial(os.eventfd_write, self._lost_event, 1)
        )
        self.serve_beside(listener)
        try:
            listener.listen(twin)
        except OSError as error:
            self._close_beside(0)
            raise _bind_error(address, error) from None

    def _close_beside(self, linger_milliseconds: int) -> None:
        if self.beside is None or self._gate is None or self._lost_event is None:
            return
        self.beside.close(linger_milliseconds)
        self.serve_beside(None)
        self._gate.close()
        os.close(self._lost_event)
        self._gate = self._lost_event = None

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
        return self.beside.fd if self.beside is not None else _integer(self._socket, zmq.FD)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``disconnected_events`` may have some."""
        return self._gate.fd if self._gate is not None else self._monitor.fd

    def probe(self, peer: bytes) -> bool:
        """Whether the connection of ``peer`` is still there."""
        return self.send(peer, [b""]) != "gone"

    def disconnected_events(self) -> int:
        """How many connections ended since the last call; ``probe`` tells whose."""
        count = sum(1 for event in self._monitor.events() if event == zmq.EVENT_DISCONNECTED)
        if self.beside is not None and self._lost_event is not None:
            count += self.beside.take_lost()
            _take_event(self._lost_event)
        return count

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. Removes the socket file of an ipc address."""
        if self._closed:
            return
        self._closed = True
        self._close_beside(linger_milliseconds)
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


def _connected(name: str) -> plain_socket.socket | None:
    """To the abstract unix socket of this name. None: nobody listens there, or another user, who is not to be told
    anything, or there is no descriptor left."""
    try:
        connected = plain_socket.socket(plain_socket.AF_UNIX, plain_socket.SOCK_STREAM | plain_socket.SOCK_NONBLOCK)
    except OSError:
        return None
    try:
        connected.connect("\0" + name)
        if peer_of(connected)[1] == os.geteuid():
            return connected
    except OSError:
        pass
    connected.close()
    return None


def _is_stopped(process: int) -> bool:
    """By a signal. False also for one in another namespace, of which nothing is known (0)."""
    try:
        with open(f"/proc/{process}/stat", "rb") as status:
            return status.read().rpartition(b") ")[2].startswith(b"T")
    except OSError:
        return False


def _take_event(fd: int) -> None:
    try:
        os.eventfd_read(fd)
    except BlockingIOError:
        pass


def _set_options(target: zmq.Socket[bytes]) -> None:
    target.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_LIFE_MILLISECONDS)
    target.setsockopt(zmq.LINGER, 0)
    target.setsockopt(zmq.RCVHWM, 0)
    target.setsockopt(zmq.MAXMSGSIZE, 4 * MESSAGE_LIMIT_BYTES)  # of a frame; more than that nobody sends
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


def _bind_error(address: Address, error: OSError | zmq.ZMQError) -> OSError:
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
