"""A peer's connection to its scheduler.

On its own machine (a loopback port without keys, or an ipc path), a peer connects through a unix socket: that of the
path, or the ``local_socket`` of the port. The threads that send and receive serve it, without libzmq. Such a
connection needs no heartbeats: it ends when one of the two processes ends, or when one of them stops reading while too
many bytes wait for it. If the scheduler's process cannot be seen, libzmq connects, and its heartbeats detect the end
of the process. In both cases this class decides when to connect, because it first checks who owns the listening
socket.

To another host, and with keys, it uses a TCP connection (``remote_route``), in the same threads. On systems other than
Linux, libzmq connects and reconnects by itself.
"""

from __future__ import annotations

import errno
import logging
import select
import sys
from collections.abc import Callable

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.command.threads import is_lack_of_thread, lack_of_thread
from scaler_protocol.handshake import place_of
from scaler_protocol.keys import PeerKeys, client_keys
from scaler_protocol.transport.curve import CurveClient
from scaler_protocol.transport.descriptor_set import DescriptorSet
from scaler_protocol.transport.endpoints import connect_error
from scaler_protocol.transport.inproc_event import InprocEvent
from scaler_protocol.transport.libzmq_dealer import ConnectionEvent, LibzmqDealer
from scaler_protocol.transport.local_route import LocalRoute, find_route
from scaler_protocol.transport.local_token import LocalToken
from scaler_protocol.transport.peer_process import PeerProcess
from scaler_protocol.transport.remote_route import SchedulerHost, SilenceWatch
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.zeromq import DealerFrames
from scaler_protocol.transport.zmtp import ZmtpConnection

_RETRY_SECONDS = 0.02
_RETRY_LIMIT_SECONDS = 0.1
_FAR_RETRY_LIMIT_SECONDS = 0.5
"""A restarted scheduler must not be busy with the attempts of a thousand hosts."""

_RECONNECT_SECONDS = 1.0
_NO_DESCRIPTOR_RETRY_SECONDS = 0.2
_FAILED_HANDSHAKES_LIMIT = 5
"""This many consecutive failures are not a coincidence, such as a scheduler that is ending."""

_NO_DESCRIPTOR_TEXT = (
    "The connection to %s was lost, and this process has no file descriptor left for a new one. It keeps"
    " trying. Close files or connections, or raise the limit (ulimit -n)."
)
_KEY_REFUSED_TEXT = (
    "Cannot connect to {}: the scheduler does not know this key, or it has expired. Ask its operator to copy its public"
    " half (.pub) into the scheduler's directory of keys, as ROLE-NAME.pub."
)
_BROKEN_OFF_TEXT = (
    "Cannot connect to {}: each handshake fails. The key of the other end differs from scheduler.pub, or one"
    " of the two has none: set SCALER_KEYS to the keys of its scheduler."
)


class DealerConnection(DealerFrames):
    """Connects, and connects again after each loss. Several threads may use it only under a lock of the caller.
    ``keys`` returns the CURVE keys for an address. Raises OSError and ValueError, with a sentence.

    ``place`` is what both ends call the address when they prove that they know the ``token``; empty: they do not.
    ``obstacle`` says why there is no connection; empty: nothing is known, or there is one."""

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
        self._keys_of = keys
        self._keys: PeerKeys | None = None
        self._server_turn = 0  # which public key of the other end the next attempt uses
        self._closed = False
        self._libzmq: LibzmqDealer | None = None
        self._inproc_event = InprocEvent() if self._address.scheme == "inproc" else None
        self._descriptor_sets: tuple[DescriptorSet, DescriptorSet] | None = None  # for messages, for connection events
        self._retry: Timer | None = None
        self._retry_seconds = _RETRY_SECONDS
        self._lacks_descriptors = False
        self._is_connected = False
        self._avoids_stream = False
        self._scheduler_host: SchedulerHost | None = None
        self._silence: SilenceWatch | None = None
        self._failed_handshakes = 0
        self._peer_process = PeerProcess(0)
        self.obstacle = ""
        try:
            self._begin()
        except zmq.ZMQError as error:
            self.close()
            raise connect_error(self._address, error) from None
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self._keys = self._keys_of(self._address)
        is_local = self._address.is_local and self._keys is None and self._inproc_event is None
        self.place = place_of(self._address) if is_local else ""
        self._token = LocalToken() if is_local else None
        is_far = self._address.scheme == "tcp" and (self._keys is not None or not self._address.is_local)
        self._looks = (is_local or is_far) and sys.platform == "linux"
        if not self._looks:
            self._use_libzmq()
            return
        self._descriptor_sets = DescriptorSet(), DescriptorSet()
        self._retry = Timer()
        if is_far:
            self._scheduler_host, self._silence = SchedulerHost(self._address), SilenceWatch()
            self._descriptor_sets[1].add(self._silence.fd, select.EPOLLIN)
        self._descriptor_sets[1].add(self._retry.fd, select.EPOLLIN)
        self._look()

    @property
    def token(self) -> bytes:
        """The current token; empty without a ``place``."""
        return self._token.read() if self._token is not None else b""

    @property
    def fd(self) -> int:
        """Readable when something may be there. Edge-triggered: drain ``receive`` until None, also after a send."""
        if self._descriptor_sets is not None:
            return self._descriptor_sets[0].fd
        assert self._libzmq is not None
        return self._libzmq.fd

    @property
    def monitor_fd(self) -> int:
        """Readable when ``connection_events`` may have some."""
        if self._descriptor_sets is not None:
            return self._descriptor_sets[1].fd
        if self._inproc_event is not None:
            return self._inproc_event.fd
        assert self._libzmq is not None
        return self._libzmq.monitor_fd

    def connection_events(self) -> list[ConnectionEvent]:
        """The events of the connection since the last call, in order. Say Hello at each "connected"; at
        "key_refused" nothing more happens until ``reconnect``."""
        if self._retry is not None and self._retry.take():
            self._look()
        events = self._stream_events(self.stream) if self.stream is not None else self._libzmq_events()
        if "connected" in events:
            self._retry_seconds, self._failed_handshakes, self.obstacle = _RETRY_SECONDS, 0, ""
        return events

    def reconnect(self) -> None:
        """Leave this connection for another one: the other end is not who it should be, or it has refused the key, of
        which there may be another by now."""
        self._is_connected = False
        self._use_new_keys()
        if self._looks:
            self._leave_stream(0)
            self._leave_libzmq(0)
            self._retry_seconds = _RECONNECT_SECONDS
            self._look_later()
        elif self._libzmq is not None:
            self._libzmq.connect_again(self._keys)

    def cut(self) -> None:
        """End this connection as if the network had cut it: a message that was received has been lost here."""
        if self.stream is not None:
            self.stream.hang_up()
        else:
            self.reconnect()

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. ``linger_milliseconds``: how long what was sent may still take to leave."""
        if self._closed:
            return
        self._closed = True
        if self._inproc_event is not None:
            self._inproc_event.close()
        self._leave_stream(linger_milliseconds)
        self._leave_libzmq(linger_milliseconds)
        self.end()
        for used in (*(self._descriptor_sets or ()), self._retry, self._silence):
            if used is not None:
                used.close()

    # ---- to a scheduler on this machine --------------------------------------------------------------------------

    def _look(self) -> None:
        """Connect if a trusted process listens, otherwise check again soon."""
        if self.stream is not None or self._libzmq is not None:
            return
        try:
            self._take(self._find_way())
        except (OSError, zmq.ZMQError) as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._wait_for_descriptors()
        except RuntimeError as error:
            if not is_lack_of_thread(error):
                raise
            self._note_obstacle(f"Cannot connect to {self._address}: {lack_of_thread(error)}")
            self._look_later()
        else:
            self._lacks_descriptors = False

    def _find_way(self) -> LocalRoute:
        if self._scheduler_host is not None:
            return LocalRoute(connected=self._scheduler_host.connect())
        return find_route(self._address, self._avoids_stream)

    def _take(self, route: LocalRoute) -> None:
        self._avoids_stream = False
        if route.connected is not None:
            self._use_stream(route)
        elif route.by_libzmq:
            self._use_libzmq()
        else:
            self._note_obstacle(route.obstacle)
            self._look_later()

    def _look_later(self) -> None:
        """Nothing is sent, and nothing comes, till then."""
        assert self._retry is not None
        self.detach()
        self._retry.set(self._retry_seconds)
        limit = _RETRY_LIMIT_SECONDS if self._scheduler_host is None else _FAR_RETRY_LIMIT_SECONDS
        self._retry_seconds = min(2 * self._retry_seconds, limit)

    def _wait_for_descriptors(self) -> None:
        assert self._retry is not None
        self.detach()
        self._retry.set(_NO_DESCRIPTOR_RETRY_SECONDS)
        if not self._lacks_descriptors:
            logging.warning(_NO_DESCRIPTOR_TEXT, self._address)
        self._lacks_descriptors = True

    def _note_obstacle(self, text: str) -> None:
        """Log the text once, until there is a connection, or another obstacle."""
        if text and text != self.obstacle:
            logging.warning(text)
        self.obstacle = text

    def _use_stream(self, route: LocalRoute) -> None:
        """Use this stream. Until it is connected, its descriptor is among those of connection events, and then among
        those of messages."""
        assert self._descriptor_sets is not None and route.connected is not None
        self._peer_process = PeerProcess(route.process)
        curve = CurveClient(self._keys.with_server_key(self._server_turn)) if self._keys is not None else None
        is_far = self._silence is not None
        stream = ZmtpConnection(route.connected, "DEALER", self._session, is_far=is_far, curve=curve)
        if self._silence is not None:
            self._silence.begin(stream)
        self._descriptor_sets[1].add(stream.fd, select.EPOLLIN | (select.EPOLLOUT if stream.waiting_bytes else 0))
        self.use(stream)

    def _stream_events(self, stream: ZmtpConnection) -> list[ConnectionEvent]:
        assert self._descriptor_sets is not None
        events: list[ConnectionEvent] = []
        if self._silence is not None:
            self._silence.look(stream)
        stream.look()
        if stream.is_ready and not self._is_connected:
            self._is_connected = True
            self._descriptor_sets[1].change(stream.fd, select.EPOLLRDHUP)
            stream.watch_in(self._descriptor_sets[0].fd)
            events.append("connected")
        if stream.has_ended:
            events += self._on_stream_ended(stream)
        return events

    def _on_stream_ended(self, stream: ZmtpConnection) -> list[ConnectionEvent]:
        was_connected = self._is_connected
        self._avoids_stream = not was_connected
        self._leave_stream(0)
        has_new_keys = stream.was_answered and self._use_new_keys()
        if stream.was_refused and not has_new_keys:
            self._note_handshake("key_refused")
            self.detach()
            return ["key_refused"]
        self._look_later()
        if was_connected:
            return ["disconnected"]
        if self._scheduler_host is None or not stream.was_answered or stream.was_refused:
            return []
        if has_new_keys or self._tries_another_key():
            return []
        self._note_handshake("handshake_failed")
        return ["handshake_failed"]

    def _tries_another_key(self) -> bool:
        """Return whether the other end may have a pair that it had before, and the next attempt expects that."""
        count = self._keys.server_key_count if self._keys is not None else 1
        self._server_turn = (self._server_turn + 1) % count
        return self._server_turn != 0

    def look_after_peer(self) -> None:
        """A peer that stays stopped counts as gone. It sends something each few seconds, so this is asked often
        enough."""
        if self._peer_process.stays_stopped() and self.stream is not None:
            self.stream.hang_up()

    def _leave_stream(self, linger_milliseconds: int) -> None:
        if self.stream is not None and self._descriptor_sets is not None:
            self._descriptor_sets[1].remove(self.stream.fd)
            self.stream.close(linger_milliseconds)
            self.use(None)
            self._is_connected = False

    # ---- libzmq --------------------------------------------------------------------------------------------------

    def _use_libzmq(self) -> None:
        self._libzmq = LibzmqDealer(self._context, self._address, self._session, self._keys, not self._looks)
        self.attach(self._libzmq.socket)
        if self._descriptor_sets is not None:
            self._descriptor_sets[0].add(self._libzmq.fd, select.EPOLLIN)
            self._descriptor_sets[1].add(self._libzmq.monitor_fd, select.EPOLLIN)

    def _libzmq_events(self) -> list[ConnectionEvent]:
        if self._libzmq is None:
            return []
        events = self._libzmq.take_events()
        if self._inproc_event is not None and self._inproc_event.take():
            events.append("connected")
        for event in events:
            self._note_handshake(event)
        if self._libzmq.is_over:
            self._leave_libzmq(0)
            self._look_later()
        elif ("disconnected" in events or "key_refused" in events) and self._use_new_keys():
            self._libzmq.connect_again(self._keys)
            return [event for event in events if event != "key_refused"]
        return events

    def _use_new_keys(self) -> bool:
        """Return whether there are others than it has connected with: their files are replaced now and then. If there
        are none any more it keeps these, and never begins to speak in the clear."""
        before = self._keys
        if before is not None:
            try:
                self._keys = self._keys_of(self._address) or before
            except (OSError, ValueError):
                pass  # in the middle of that, or gone
        if self._keys != before:
            self._server_turn = 0
        return self._keys != before

    def _note_handshake(self, event: ConnectionEvent) -> None:
        if event == "key_refused":
            self.obstacle = _KEY_REFUSED_TEXT.format(self._address)
        elif event == "handshake_failed":
            self._failed_handshakes += 1
            if self._failed_handshakes >= _FAILED_HANDSHAKES_LIMIT:
                self.obstacle = _BROKEN_OFF_TEXT.format(self._address)

    def _leave_libzmq(self, linger_milliseconds: int) -> None:
        if self._libzmq is None:
            return
        if self._descriptor_sets is not None:
            self._descriptor_sets[0].remove(self._libzmq.fd)
            self._descriptor_sets[1].remove(self._libzmq.monitor_fd)
        self._libzmq.close(linger_milliseconds)
        self._libzmq = None
