"""A watcher's connection to the monitor address, the same for every screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.monitor import feed

_TAKEN_AT_ONCE = 100
_RECONNECT_MILLISECONDS = 100
_RECONNECT_LIMIT_MILLISECONDS = 500
_HEARTBEAT_INTERVAL_MILLISECONDS = 1000
_HEARTBEAT_TIMEOUT_MILLISECONDS = 3000


class Subscription:
    """Connects again for ever, by itself. ``socket`` is for a ``zmq.Poller``. ValueError for what is no address.

    With ``events`` it first gets the recent past, then what happens; otherwise snapshots only, which costs the
    scheduler less."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: Address | str, events: bool = False) -> None:
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        parsed = parse_address(address) if isinstance(address, str) else address
        self.socket = context.socket(zmq.SUB)
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

    def receive(self) -> Iterator[feed.Received]:
        """What waits, in order, but of snapshots the latest only, since each says everything; a bounded number of
        messages, so that a screen is drawn between two calls. FeedError when one cannot be read; the others wait."""
        self._read_waiting()
        while self._waiting:
            topic, payload = self._waiting.popleft()
            if topic != feed.SNAPSHOT_KIND or not any(later == topic for later, _ in self._waiting):
                yield feed.decode(payload)

    def _read_waiting(self) -> None:
        try:
            while len(self._waiting) < _TAKEN_AT_ONCE:
                frames = self.socket.recv_multipart(zmq.DONTWAIT)
                self._waiting.append((frames[0], frames[-1]))
        except zmq.Again:
            pass

    def close(self) -> None:
        self.socket.close()


def _set_options(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVHWM, 0)  # a finite one with heartbeats aborts the process when it stalls
    socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_LIMIT_MILLISECONDS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 1000)
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
