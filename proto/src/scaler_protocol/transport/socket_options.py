"""The options that every ZeroMQ socket of this protocol has.

Each was measured: heartbeats are answered by libzmq's own thread, so a peer whose interpreter is busy stays connected;
a DEALER with heartbeats and a bounded receive queue would abort its process.
"""

from __future__ import annotations

import zmq

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES

_HEARTBEAT_INTERVAL_MILLISECONDS = 500
_HEARTBEAT_TIMEOUT_MILLISECONDS = 1500  # more than the age at which a lost connection tells of a dead process
_HEARTBEAT_LIFE_MILLISECONDS = 2000
_SEND_QUEUE_LENGTH = 10_000


def set_options(target: zmq.Socket[bytes]) -> None:
    target.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MILLISECONDS)
    target.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_LIFE_MILLISECONDS)
    target.setsockopt(zmq.LINGER, 0)
    target.setsockopt(zmq.RCVHWM, 0)
    target.setsockopt(zmq.MAXMSGSIZE, 4 * MESSAGE_LIMIT_BYTES)  # of a frame; no peer sends more
    target.setsockopt(zmq.SNDHWM, _SEND_QUEUE_LENGTH)


def fd_of(socket: zmq.Socket[bytes]) -> int:
    """Readable when the socket may have something to do (edge-triggered)."""
    value = socket.getsockopt(zmq.FD)
    assert isinstance(value, int)
    return value
