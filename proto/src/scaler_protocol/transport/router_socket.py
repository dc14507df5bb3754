"""The scheduler's socket: ZeroMQ's ROUTER, and beside a loopback port without keys its twin (see ``twin``), which peers
of the same user find by themselves.

Without ``ROUTER_HANDOVER`` a peer that comes back can be ignored for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import ServerKeys, scheduler_keys
from scaler_protocol.transport.doorkeeper import Doorkeeper
from scaler_protocol.transport.endpoints import bind_error, to_bind
from scaler_protocol.transport.router_monitor import RouterMonitor
from scaler_protocol.transport.socket_file import SocketFile, check_path_free
from scaler_protocol.transport.socket_options import fd_of, set_options
from scaler_protocol.transport.twin import twin_of
from scaler_protocol.transport.twin_listener import TwinListener
from scaler_protocol.transport.zeromq import RouterFrames


class RouterSocket(RouterFrames):
    """A peer is named by its routing id, which is its session. ``keys`` tells the CURVE keys for an address. Who
    connects over the network and is not ``welcome`` is cut off before long (see ``strangers``)."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: Callable[[Address], ServerKeys | None] = scheduler_keys,
    ) -> None:
        self._keys = keys
        self._socket = context.socket(zmq.ROUTER)
        self.attach(self._socket)
        set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._monitor = RouterMonitor(context, self._socket, self.forget_source)
        self._context = context
        self._doorkeeper: Doorkeeper | None = None
        self._twin: TwinListener | None = None
        self._file: SocketFile | None = None
        self._closed = False

    def bind(self, address: Address | str) -> str:
        """The address bound (port 0 became a free one). Raises OSError with a plain sentence when it is in use."""
        wanted = parse_address(address) if isinstance(address, str) else address
        if wanted.scheme == "ipc":
            check_path_free(wanted)
        self._use_keys(wanted)
        if wanted.scheme == "tcp" and sys.platform == "linux":
            self.note_sources()
            self._monitor.guard()
        if wanted.port:
            self._listen_beside(wanted)  # first: who comes by the other looks for it
        bound = self._bind(wanted)
        if not wanted.port:
            self._listen_beside(bound)
        self._file = SocketFile(bound)
        return str(bound)

    def _bind(self, address: Address) -> Address:
        """With the port that it got."""
        try:
            self._socket.setsockopt(zmq.IPV6, ":" in address.host)
            self._socket.bind(to_bind(address))
        except zmq.ZMQError as error:
            self._close_beside(0)
            raise bind_error(address, error) from None
        if address.scheme != "tcp" or address.port:
            return address
        endpoint = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        return Address("tcp", address.host, parse_address(endpoint).port)

    def _use_keys(self, address: Address) -> None:
        keys = self._keys(address)
        if keys is None or self._doorkeeper is not None:
            return
        self._doorkeeper = Doorkeeper(self._context, keys.user_of)
        self.name_users()
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        self._socket.setsockopt(zmq.ZAP_DOMAIN, b"scaler")

    def _listen_beside(self, address: Address) -> None:
        """On the twin of the address, if it has one."""
        twin = twin_of(address) if self._doorkeeper is None else None
        if twin is None:
            return
        try:
            self._twin = TwinListener(twin, fd_of(self._socket))
        except OSError as error:
            raise bind_error(address, error) from None
        self._monitor.watch(self._twin.lost_fd)
        self.serve_beside(self._twin.connections)

    def _close_beside(self, linger_milliseconds: int) -> None:
        if self._twin is not None:
            self.serve_beside(None)
            self._monitor.forget(self._twin.lost_fd)
            self._twin.close(linger_milliseconds)
            self._twin = None

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        return self._twin.connections.fd if self._twin is not None else fd_of(self._socket)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``disconnected_events`` may have some."""
        return self._monitor.fd

    def welcome(self, peer: bytes) -> None:
        """It has said who it is, and may stay."""
        self._monitor.welcome(self.sources_of(peer))

    def probe(self, peer: bytes) -> bool:
        """Whether the connection of ``peer`` is still there."""
        return self.send(peer, [b""]) != "gone"

    def disconnected_events(self) -> int:
        """How many connections ended since the last call; ``probe`` tells whose."""
        return self._monitor.take_lost() + (self._twin.take_lost() if self._twin is not None else 0)

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
        if self._file is not None:
            self._file.remove()
