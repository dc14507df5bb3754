"""Reports of libzmq about the connections of one socket."""

from __future__ import annotations

import itertools
import os
import struct

import zmq

from scaler_protocol.transport.socket_options import fd_of

_EVENT = struct.Struct("=Hi")
_numbers = itertools.count(1)


class SocketMonitor:
    """A monitor that must always be read, and kept as long as its socket: a bounded, unread or collected monitor
    freezes every socket of the context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], watched: zmq.Socket[bytes], events: int) -> None:
        endpoint = f"inproc://scaler-monitor-{os.getpid()}-{next(_numbers)}"
        self._watched = watched
        watched.monitor(endpoint, events)
        self._socket = context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.connect(endpoint)
        self.events()  # the descriptor tells of events only after a read that found none

    @property
    def fd(self) -> int:
        return fd_of(self._socket)

    def events(self) -> list[tuple[int, int]]:
        """Return the events since the last call, in order: each with its value, which is most often a descriptor."""
        events: list[tuple[int, int]] = []
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return events
            events.append(_EVENT.unpack(frames[0]))

    def close(self) -> None:
        """Before its socket."""
        self._watched.monitor(None, 0)
        self._socket.close(0)
