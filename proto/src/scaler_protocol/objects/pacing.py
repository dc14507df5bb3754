"""The amount that a bulk connection may have under way, so that it fills its link but not the queue in front of that.

A slow link's queue may hold seconds of bytes, and all other messages of this host wait behind them. TCP knows the round
trip without a queue, the one with it, and how fast bytes are delivered.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

QUEUE_SECONDS = 0.05
"""A queue that delays messages for longer is too long."""

FAST_SECONDS = 0.005
LONG_BYTES = 1024 * 1024
SHORT_BYTES = 64 * 1024
_LEAST_BYTES = 32 * 1024

_INFO_BYTES = 168
_RTT, _MIN_RTT, _DELIVERY_RATE = 68, 148, 160
_SO_BUF_LOCK = 72  # since Linux 5.14


class Path(NamedTuple):
    """The way of a connection, as TCP has measured it."""

    queued_seconds: float
    least_seconds: float
    """The round trip without a queue."""

    bytes_per_second: int


def room_of(path: Path, room: int, sent: int) -> int:
    """Return how many bytes may be under way, if ``room`` were before, and ``sent`` bytes have been sent since then. 0:
    as many as TCP allows.

    The limit follows the measured rate. It also limits that rate, which loss or a busy host may have reduced for a
    moment, so it grows by a quarter in each round trip in which the queue is short."""
    if path.queued_seconds > QUEUE_SECONDS:
        return max(int(path.bytes_per_second * (path.least_seconds + QUEUE_SECONDS)), _LEAST_BYTES)
    return room + sent // 4 if room else 0


class Pacing:
    """The limit of one connection."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected
        self._room = 0
        self._sent = 0  # bytes since the last look

    def next_bytes(self) -> int:
        """Return how many bytes to send before the next call."""
        path = _path_of(self._connected)
        if path is None:
            return LONG_BYTES
        self._limit(room_of(path, self._room, self._sent))
        self._sent = LONG_BYTES if path.queued_seconds < FAST_SECONDS and not self._room else SHORT_BYTES
        return self._sent

    def _limit(self, room: int) -> None:
        """A limit beyond what the system allows is none."""
        if room != self._room:
            self._connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
            is_too_large = self._connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < room
            self._room = 0 if is_too_large and _unlimit(self._connected) else room


def _path_of(connected: socket.socket) -> Path | None:
    """None: the system does not say."""
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except (OSError, AttributeError):
        return None
    if len(info) < _INFO_BYTES:  # an old kernel
        return None
    (rtt,), (least,) = struct.unpack_from("I", info, _RTT), struct.unpack_from("I", info, _MIN_RTT)
    (rate,) = struct.unpack_from("Q", info, _DELIVERY_RATE)
    return Path((rtt - least) / 1e6, least / 1e6, rate)


def _unlimit(connected: socket.socket) -> bool:
    """Let the system choose the size of the send buffer again. False: it cannot."""
    try:
        connected.setsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK, 0)
    except OSError:
        return False
    return True
