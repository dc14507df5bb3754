"""A watcher's connection to the monitor address, the same for every screen."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import zmq
from zmq.utils.monitor import recv_monitor_message

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import VARIABLE, PeerKeys, peer_keys
from scaler_protocol.messages import Role
from scaler_protocol.monitor import feed

_RECONNECT_MILLISECONDS = 100
_RECONNECT_LIMIT_MILLISECONDS = 500
_HEARTBEAT_INTERVAL_MILLISECONDS = 500
_HEARTBEAT_TIMEOUT_MILLISECONDS = 3000
_HEARTBEAT_LIFE_MILLISECONDS = 5000
"""When no heartbeat came from this watcher for so long, its publisher closes the connection, and frees the queue."""

_RETRY_SECONDS = 1.0
"""How soon after it was refused it connects again."""

_NEED = f"name their folder with {VARIABLE}"
_BROKEN_LIMIT = 5
"""So many handshakes in a row that broke off are no accident, such as a scheduler that ends."""

_HANDSHAKES = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class RefusedError(feed.FeedError):
    """Whoever listens there does not let this watcher in; one sentence. It is tried again."""


class Subscription:
    """Connects again for ever, by itself. ``socket`` is for a ``zmq.Poller``. ValueError for what is no address,
    and for keys that cannot be used; ``keys`` is their folder, None: the one that $SCALER_KEYS names.

    With ``events`` it first gets the recent past, then what happens; otherwise snapshots only, which costs the
    scheduler less."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address | str,
        events: bool = False,
        keys: Path | str | None = None,
    ) -> None:
        parsed = parse_address(address) if isinstance(address, str) else address
        key_pair = _read_keys(parsed, keys)
        self._address = str(parsed)
        self._has_keys = key_pair is not None
        self._broken = 0
        self._connect_at: float | None = None
        self.socket = context.socket(zmq.SUB)
        self._handshakes = self.socket.get_monitor_socket(_HANDSHAKES)
        if key_pair is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, key_pair.server_public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, key_pair.secret)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(key_pair.secret))
        _set_options(self.socket)
        self.socket.setsockopt(zmq.IPV6, ":" in parsed.host)
        for topic in (feed.new_history_topic(), feed.EVENTS_KIND) if events else ():
            self.socket.subscribe(topic)
        self.socket.subscribe(feed.SNAPSHOT_KIND)
        try:
            self.socket.connect(self._address)
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"Cannot connect to {parsed}: {error.strerror}.") from None

    def receive(self) -> feed.Received | None:
        """The next message; None: nothing waits. FeedError when it cannot be read, RefusedError when none will come;
        for the latter this is to be called now and then, though ``socket`` has nothing."""
        try:
            return feed.decode(self.socket.recv_multipart(zmq.DONTWAIT)[-1])
        except zmq.Again:
            self._connect_again()
            self._read_handshakes()
            return None

    def close(self) -> None:
        self.socket.disable_monitor()
        self._handshakes.close()
        self.socket.close()

    def _connect_again(self) -> None:
        """ZeroMQ gives up for ever when it was refused."""
        if self._connect_at is None or time.monotonic() < self._connect_at:
            return
        self._connect_at = None
        with contextlib.suppress(zmq.ZMQError):
            self.socket.disconnect(self._address)
        self.socket.connect(self._address)

    def _read_handshakes(self) -> None:
        while self._handshakes.poll(0):
            event = recv_monitor_message(self._handshakes)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._broken = 0
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._broken += 1
                if self._broken >= _BROKEN_LIMIT:
                    raise RefusedError(self._broken_sentence())
            else:
                self._broken, self._connect_at = 0, time.monotonic() + _RETRY_SECONDS
                raise RefusedError(self._refused_sentence(event))

    def _broken_sentence(self) -> str:
        reason = "it has other keys than were given, or none" if self._has_keys else f"if it has keys, {_NEED}"
        return f"{self._address} breaks each connection off: {reason}."

    def _refused_sentence(self, event: int) -> str:
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return f"{self._address} does not accept these keys: give those of its scheduler, with {VARIABLE}."
        if self._has_keys:
            return f"{self._address} has no keys: connect without any, and unset {VARIABLE}."
        return f"{self._address} has keys: {_NEED}."


def _read_keys(address: Address, folder: Path | str | None) -> PeerKeys | None:
    try:
        return peer_keys(address, Role.OBSERVE, Path(folder) if folder else None)
    except OSError as error:
        raise ValueError(str(error)) from None


def _set_options(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVHWM, 0)  # a finite one with heartbeats aborts the process when it stalls
    socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 1000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_LIFE_MILLISECONDS)
