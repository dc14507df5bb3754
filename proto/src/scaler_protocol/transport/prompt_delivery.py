"""Options of TCP connections for messages that should not wait."""

from __future__ import annotations

import socket
from contextlib import suppress

TCP_RTO_MIN_US = 45  # of linux/tcp.h, since Linux 6.15
_SHORTEST_RETRANSMISSION_US = 50_000
"""Longer than the 40 ms for which a receiver may delay its acknowledgement. The usual 200 ms are several round trips of
most links: a task whose message is lost would take that much longer."""


def deliver_promptly(connected: socket.socket) -> None:
    """Have the kernel send small messages at once, and what was lost again as soon as it can know that it was."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError):  # older kernels
        connected.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MIN_US, _SHORTEST_RETRANSMISSION_US)
