"""The scheduler's socket. It is served without libzmq (``zmtp_listener``), with and without keys, so that the costs of
peers that have not authenticated can be limited. Next to a loopback port without keys there is its ``local_socket``,
which peers of the same user find by themselves. Within one process, and on other systems than Linux, it is ZeroMQ's
ROUTER.

Without ``ROUTER_HANDOVER`` a peer that reconnects can be ignored indefinitely.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import ServerKeys, scheduler_keys
from scaler_protocol.transport.context import new_socket
from scaler_protocol.transport.curve_authentication import CurveAuthenticator
from scaler_protocol.transport.endpoints import bind_error, bound_address, bound_socket, to_bind
from scaler_protocol.transport.inherited_sockets import take_inherited_socket
from scaler_protocol.transport.local_socket import bound_local_socket
from scaler_protocol.transport.router_monitor import RouterMonitor
from scaler_protocol.transport.socket_file import SocketFile, prepare_path
from scaler_protocol.transport.socket_options import fd_of, set_options
from scaler_protocol.transport.unauthenticated import Listening
from scaler_protocol.transport.zeromq import RouterFrames
from scaler_protocol.transport.zmtp_listener import ZmtpListener

_HANDSHAKE_MILLISECONDS = 10_000


class RouterSocket(RouterFrames):
    """A peer is named by its routing id, which is its session. ``keys`` tells the CURVE keys for an address. A peer
    that connects over the network and is not admitted is soon disconnected."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: Callable[[Address], ServerKeys | None] = scheduler_keys,
    ) -> None:
        self._context = context
        self._keys_of = keys
        self._keys: ServerKeys | None = None
        self._authenticator: CurveAuthenticator | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: RouterMonitor | None = None
        self._lost_fd = -1
        self._file: SocketFile | None = None
        self._bound: tuple[Address, socket.socket] | None = None  # and does not listen yet
        self._closed = False

    def bind(self, address: Address | str) -> str:
        """Reserve and listen. The address bound (port 0 became a free one). Raises OSError with a plain sentence when
        it is in use."""
        bound = self.reserve(address)
        self.listen()
        return bound

    def reserve(self, address: Address | str) -> str:
        """Like ``bind``, but peers cannot connect before ``listen``, so they cannot take what the caller still needs to
        start, such as descriptors."""
        wanted = parse_address(address) if isinstance(address, str) else address
        self._keys = self._keys_of(wanted)
        if wanted.scheme == "inproc" or sys.platform != "linux":
            return str(self._bind_libzmq(wanted))
        try:
            prepare_path(wanted)
            plain = take_inherited_socket(wanted) or bound_socket(wanted)
        except OSError as error:
            raise bind_error(wanted, error) from None
        bound = bound_address(wanted, plain)
        self._bound = bound, plain
        self._make_listener()
        self._file = SocketFile(bound)
        return str(bound)

    def listen(self) -> None:
        """Raises OSError with a plain sentence."""
        if self._bound is None:
            return
        (address, plain), self._bound = self._bound, None
        assert self.listener is not None
        try:
            self._listen(self.listener, address, plain)
        except OSError as error:
            plain.close()
            raise bind_error(address, error) from None

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        if self.listener is not None:
            return self.listener.fd
        assert self._socket is not None
        return fd_of(self._socket)

    @property
    def monitor_fd(self) -> int:
        """Readable when ``disconnected_events`` may have some."""
        return self._monitor.fd if self._monitor is not None else self._lost_fd

    # ---- peers ---------------------------------------------------------------------------------------------------

    def unauthenticated_messages(self, has_work: bool = True) -> Iterator[tuple[bytes, list[bytes], bytes]]:
        """Messages of peers that were not admitted: for a short time only, after all that ``receive_many`` returned.
        Each is a sender, frames, and the user of the key that its connection showed. Frames are empty for a message
        that was not a Hello and was dropped. libzmq's ROUTER knows no such peers. ``has_work``: authenticated peers
        wait for more than answers to heartbeats, so these get a smaller share of the time."""
        return iter(()) if self.listener is None else self.listener.unauthenticated_messages(has_work)

    def answer(self, peer: bytes, frames: Sequence[bytes]) -> str:
        """Like ``send``, to the connection that has sent Hello as ``peer``, whether it was admitted or not."""
        return self.send(peer, frames) if self.listener is None else self.listener.answer(peer, frames)

    def admit(self, peer: bytes) -> None:
        """It has proved who it is, and may stay."""
        if self.listener is not None:
            self.listener.admit(peer)

    def pause(self, peer: bytes) -> None:
        """Read nothing more from its connection until ``resume``. libzmq's ROUTER cannot."""
        if self.listener is not None:
            self.listener.pause(peer)

    def resume(self, peer: bytes) -> None:
        """Read from its connection again."""
        if self.listener is not None:
            self.listener.resume(peer)

    def disconnect(self, peer: bytes) -> None:
        """End its connections. libzmq's ROUTER cannot."""
        if self.listener is not None:
            self.listener.disconnect(peer)

    def probe(self, peer: bytes) -> bool:
        """Return whether the connection of ``peer`` is still there."""
        if self.listener is not None:
            return self.listener.has(peer)
        return self.send(peer, [b""]) != "gone"

    def users(self) -> frozenset[bytes] | None:
        """All whose keys are valid now. None: there are no keys. Raises OSError when they cannot be read now."""
        return self._keys.known.users() if self._keys is not None else None

    def disconnected_events(self) -> int:
        """Return how many connections ended since the last call; ``probe`` tells whose."""
        if self._monitor is not None:
            return self._monitor.take_lost()
        if self.listener is None:
            return 0
        try:
            os.eventfd_read(self._lost_fd)
        except BlockingIOError:
            pass
        return self.listener.take_lost()

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. Removes the socket file of an ipc address."""
        if self._closed:
            return
        self._closed = True
        if self._bound is not None:
            self._bound[1].close()
        if self.listener is not None:
            self.listener.close(linger_milliseconds)
            self.serve(None)
            os.close(self._lost_fd)
        if self._monitor is not None:
            self._monitor.close()
        if self._socket is not None:
            self._socket.close(linger_milliseconds)
        if self._authenticator is not None:
            self._authenticator.close()
        if self._file is not None:
            self._file.remove()

    # ---- without libzmq ------------------------------------------------------------------------------------------

    def _make_listener(self) -> None:
        self._lost_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.serve(ZmtpListener(self._tell_lost, self._keys))

    def _listen(self, listener: ZmtpListener, address: Address, plain: socket.socket) -> None:
        """The local socket first: a peer that finds the port looks for it."""
        local_socket = bound_local_socket(address) if self._keys is None else None
        if local_socket is not None:
            listener.listen(Listening(local_socket, needs_process=True))
        listener.listen(Listening(plain, is_local=address.is_local and self._keys is None))

    def _tell_lost(self) -> None:
        os.eventfd_write(self._lost_fd, 1)

    # ---- libzmq --------------------------------------------------------------------------------------------------

    def _bind_libzmq(self, address: Address) -> Address:
        if self._socket is None:
            self._open()
        assert self._socket is not None
        try:
            self._socket.setsockopt(zmq.IPV6, ":" in address.host)
            self._socket.bind(to_bind(address))
        except zmq.ZMQError as error:
            raise bind_error(address, error) from None
        if address.scheme != "tcp" or address.port:
            return address
        endpoint = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        return Address("tcp", address.host, parse_address(endpoint).port)

    def _open(self) -> None:
        self._socket = new_socket(self._context, zmq.ROUTER)
        self.attach(self._socket)
        set_options(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._monitor = RouterMonitor(self._context, self._socket)
        if self._keys is not None:
            self._use_keys(self._socket, self._keys)

    def _use_keys(self, socket: zmq.Socket[bytes], keys: ServerKeys) -> None:
        self._authenticator = CurveAuthenticator(self._context, keys.user_of)
        self.name_users()
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, b"scaler")
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MILLISECONDS)
