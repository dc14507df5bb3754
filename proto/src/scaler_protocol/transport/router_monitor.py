"""The ends of connections of libzmq's ROUTER."""

from __future__ import annotations

import zmq

from scaler_protocol.transport.socket_monitor import SocketMonitor


class RouterMonitor:
    """Counts connections that have ended."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes]) -> None:
        self._monitor = SocketMonitor(context, watched, zmq.EVENT_DISCONNECTED)

    @property
    def fd(self) -> int:
        """Readable when ``take_lost`` may have something to count."""
        return self._monitor.fd

    def take_lost(self) -> int:
        """Return how many connections have ended since the last call."""
        return len(self._monitor.events())

    def close(self) -> None:
        """Before its socket."""
        self._monitor.close()
