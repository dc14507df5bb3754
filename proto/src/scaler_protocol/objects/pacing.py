"""The amount that a bulk connection may have under way, so that it fills its link but not the queue in front of that.

A slow link's queue may hold seconds of bytes, and all other messages of this host wait behind them. TCP knows the round
trip without a queue, the one with it, and how fast bytes are delivered.
"""

from __future__ import annotations

import socket
import struct

QUEUE_SECONDS = 0.05
"""A queue that delays messages for longer is too long."""

FAST_SECONDS = 0.005
LONG_BYTES = 1024 * 1024
SHORT_BYTES = 64 * 1024
_LEAST_BYTES = 32 * 1024

_INFO_BYTES = 168
_RTT, _MIN_RTT, _DELIVERY_RATE = 68, 148, 160


def limit_queue(connected: socket.socket) -> int:
    """Return how many bytes to send before the next call. Limits the send buffer when the queue is too long."""
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except (OSError, AttributeError):
        return LONG_BYTES
    if len(info) < _INFO_BYTES:  # an old kernel
        return LONG_BYTES
    (rtt,), (least,) = struct.unpack_from("I", info, _RTT), struct.unpack_from("I", info, _MIN_RTT)
    queued = (rtt - least) / 1e6
    if queued > QUEUE_SECONDS:
        (rate,) = struct.unpack_from("Q", info, _DELIVERY_RATE)
        room = int(rate * (least / 1e6 + QUEUE_SECONDS))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(room, _LEAST_BYTES))
    return LONG_BYTES if queued < FAST_SECONDS else SHORT_BYTES
