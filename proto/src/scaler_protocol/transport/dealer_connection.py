"""A peer's connection to its scheduler, over whichever of two ways is there.

What listens on the loopback interface without keys listens on a unix socket, too (its ``twin``), where ZeroMQ's
protocol is spoken without libzmq, in the threads of those who send and receive. Such a connection needs no heartbeats:
it ends when one of the two processes does, or when one reads nothing while too much waits for it.
"""

from __future__ import annotations

import errno
import logging
import select
from collections.abc import Callable

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import PeerKeys, client_keys
from scaler_protocol.transport.endpoints import connect_error
from scaler_protocol.transport.gate import Gate
from scaler_protocol.transport.inproc_event import InprocEvent
from scaler_protocol.transport.libzmq_dealer import ConnectionEvent, LibzmqDealer
from scaler_protocol.transport.peer_process import PeerProcess
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.twin import connect_to_twin, twin_of
from scaler_protocol.transport.zeromq import DealerFrames
from scaler_protocol.transport.zmtp import ZmtpConnection
from scaler_protocol.transport.zmtp_listener import peer_of

_RETRY_SECONDS = 0.2
_NO_DESCRIPTOR_TEXT = (
    "The connection to %s was lost, and this process has no file descriptor left for a new one. It tries again until it"
    " has: close files or connections, or raise the limit (ulimit -n)."
)


class DealerConnection(DealerFrames):
    """Made, and made again. It may be used from several threads only under a lock of the caller's. ``keys`` tells the
    CURVE keys for an address.

    While the twin of the address cannot be reached there is libzmq's socket, which also tells when to look for the
    twin again: it says so when the scheduler comes, goes, or is still not there. Without descriptors for that socket
    there is neither, and both are tried again after a while."""

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
        self._libzmq: LibzmqDealer | None = None
        self._inproc_event = InprocEvent() if self._address.scheme == "inproc" else None
        self._gates: tuple[Gate, Gate] | None = None  # for messages, for connection events
        self._retry: Timer | None = None
        self._lacked_descriptors = False
        self._told_connected = False
        self._avoids_twin = False
        self._peer_process = PeerProcess(0)
        try:
            self._begin(keys)
        except zmq.ZMQError as error:
            self.close()
            raise connect_error(self._address, error) from None
        except BaseException:
            self.close()
            raise

    def _begin(self, keys: Callable[[Address], PeerKeys | None]) -> None:
        self._keys = keys(self._address)
        self._twin = twin_of(self._address) if self._keys is None else None
        if self._twin is not None:
            self._gates = Gate(), Gate()
            self._retry = Timer()
            self._gates[1].add(self._retry.fd, select.EPOLLIN)
        if not self._use_twin():
            self._use_libzmq()

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        if self._gates is not None:
            return self._gates[0].fd
        assert self._libzmq is not None
        return self._libzmq.fd

    @property
    def monitor_fd(self) -> int:
        """Readable when ``connection_events`` may have some."""
        if self._gates is not None:
            return self._gates[1].fd
        if self._inproc_event is not None:
            return self._inproc_event.fd
        assert self._libzmq is not None
        return self._libzmq.monitor_fd

    def connection_events(self) -> list[ConnectionEvent]:
        """What happened to the connection since the last call, in order. Say Hello at each "connected"."""
        if self.stream is not None:
            return self._stream_events(self.stream)
        if self._libzmq is not None:
            return self._libzmq_events(self._libzmq)
        return self._try_again()

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. ``linger_milliseconds``: how long what was sent may still take to leave."""
        if self._closed:
            return
        self._closed = True
        if self._inproc_event is not None:
            self._inproc_event.close()
        self._leave_twin(linger_milliseconds)
        self._leave_libzmq(linger_milliseconds)
        for used in (*(self._gates or ()), self._retry):
            if used is not None:
                used.close()

    # ---- the twin ------------------------------------------------------------------------------------------------

    def _use_twin(self) -> bool:
        """Speak through it, if somebody listens there. Its messages are waited for once it is connected: till then all
        that comes is for who waits for connection events."""
        connected = connect_to_twin(self._twin) if self._twin is not None else None
        if connected is None or self._gates is None:
            return False
        self._leave_libzmq(0)
        self._peer_process = PeerProcess(peer_of(connected)[0])
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
            self._lacked_descriptors = False
            events.append("connected")
        if stream.has_ended:
            if self._told_connected:
                events.append("disconnected")
            self._avoids_twin = not self._told_connected
            self._leave_twin(0)
            self._fall_back()
        return events

    def look_after_peer(self) -> None:
        """A peer that stays stopped counts as gone. It sends something each few seconds, so this is asked often
        enough."""
        if self._peer_process.stays_stopped() and self.stream is not None:
            self.stream.hang_up()

    def _leave_twin(self, linger_milliseconds: int) -> None:
        if self.stream is not None and self._gates is not None:
            self._gates[1].remove(self.stream.fd)
            self.stream.close(linger_milliseconds)
            self.use(None)
            self._told_connected = False

    # ---- neither -------------------------------------------------------------------------------------------------

    def _fall_back(self) -> None:
        """To libzmq, now or later."""
        try:
            self._use_libzmq()
        except zmq.ZMQError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or self._retry is None:
                raise
            self._retry.set(_RETRY_SECONDS)
            self.detach()
            if not self._lacked_descriptors:
                logging.warning(_NO_DESCRIPTOR_TEXT, self._address)
            self._lacked_descriptors = True

    def _try_again(self) -> list[ConnectionEvent]:
        if self._retry is None or not self._retry.take():
            return []
        if self._use_twin():
            return self.connection_events()
        self._fall_back()
        return []

    # ---- libzmq --------------------------------------------------------------------------------------------------

    def _use_libzmq(self) -> None:
        self._libzmq = LibzmqDealer(self._context, self._address, self._session, self._keys)
        self.attach(self._libzmq.socket)
        self._lacked_descriptors = False
        if self._gates is not None:
            self._gates[0].add(self._libzmq.fd, select.EPOLLIN)
            self._gates[1].add(self._libzmq.monitor_fd, select.EPOLLIN)

    def _libzmq_events(self, dealer: LibzmqDealer) -> list[ConnectionEvent]:
        events, has_news = dealer.take_events()
        if self._inproc_event is not None and self._inproc_event.take():
            events.append("connected")
        if "disconnected" in events:
            self._avoids_twin = False
        is_connected = bool(events) and events[-1] == "connected"
        if has_news and not (is_connected and self._avoids_twin) and self._use_twin():
            return [*(events[:-1] if is_connected else events), *self.connection_events()]
        return events

    def _leave_libzmq(self, linger_milliseconds: int) -> None:
        if self._libzmq is None:
            return
        if self._gates is not None:
            self._gates[0].remove(self._libzmq.fd)
            self._gates[1].remove(self._libzmq.monitor_fd)
        self._libzmq.close(linger_milliseconds)
        self._libzmq = None
