"""A watcher's connection to the monitor address, the same for every screen."""

from __future__ import annotations

from pathlib import Path

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import PeerKeys, peer_keys
from scaler_protocol.monitor import feed

_RECONNECT_MILLISECONDS = 100
_RECONNECT_LIMIT_MILLISECONDS = 500
_HEARTBEAT_INTERVAL_MILLISECONDS = 1000
_HEARTBEAT_TIMEOUT_MILLISECONDS = 3000


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
        self.socket = context.socket(zmq.SUB)
        if key_pair is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, key_pair.scheduler_public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, key_pair.secret)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, key_pair.public)
        _set_options(self.socket)
        self.socket.setsockopt(zmq.IPV6, ":" in parsed.host)
        for topic in (feed.new_history_topic(), feed.EVENTS_KIND) if events else ():
            self.socket.subscribe(topic)
        self.socket.subscribe(feed.SNAPSHOT_KIND)
        try:
            self.socket.connect(str(parsed))
        except zmq.ZMQError as error:
            self.socket.close()
            raise ValueError(f"Cannot connect to {parsed}: {error.strerror}.") from None

    def receive(self) -> feed.Received | None:
        """The next message; None: nothing waits. FeedError when it cannot be read."""
        try:
            return feed.decode(self.socket.recv_multipart(zmq.DONTWAIT)[-1])
        except zmq.Again:
            return None

    def close(self) -> None:
        self.socket.close()


def _read_keys(address: Address, folder: Path | str | None) -> PeerKeys | None:
    try:
        return peer_keys(address, Path(folder) if folder else None)
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
