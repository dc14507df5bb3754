"""Cuts off whoever subscribes to more topics than any watcher needs: each would be kept as long as its connection."""

from __future__ import annotations

import contextlib
import os
import socket

import zmq

TOPICS_LIMIT = 100
"""Topics, beside those that every watcher subscribes to, that one connection may ask for."""

TOPIC_LIMIT_BYTES = 1024
"""Of whatever a watcher sends."""


STRAGGLER_SECONDS = 1.0
"""How long what a closed connection had sent may still come out, when its number may be another watcher's already."""


class SubscriptionLimit:
    def __init__(self) -> None:
        self._topics: dict[int, int] = {}
        self._closed_at: dict[int, float] = {}

    def count(self, request: zmq.Frame, now: float) -> bool:
        """A connection asks for one more topic. True: it was one too many, and the connection is closed."""
        try:
            descriptor = int(request.get(zmq.SRCFD))
        except zmq.ZMQError:  # the connection is gone
            return False
        if now - self._closed_at.get(descriptor, -STRAGGLER_SECONDS) < STRAGGLER_SECONDS:
            return False
        topics = self._topics[descriptor] = self._topics.get(descriptor, 0) + 1
        if topics <= TOPICS_LIMIT:
            return False
        del self._topics[descriptor]
        self._closed_at[descriptor] = now
        _shut(descriptor)
        return True


def _shut(descriptor: int) -> None:
    """ZeroMQ then forgets the connection and its topics."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.type == socket.SOCK_STREAM:
            connection.shutdown(socket.SHUT_RDWR)
