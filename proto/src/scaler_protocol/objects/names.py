"""The name by which the store of a host and cluster is found, and the check of who answers there."""

from __future__ import annotations

import os
import socket
import struct

from scaler_protocol.ids import digest

_CREDENTIALS = struct.Struct("3i")


def cluster_id(address: str, host: str, user: str) -> bytes:
    """16 bytes that every start of a scheduler at this address has in common."""
    return digest("\0".join((address, host, user)).encode())


def socket_name(cluster: bytes) -> str:
    """An abstract socket: no file is left when the store dies. Each network namespace has its own."""
    return f"@scaler-store-{os.getuid()}-{cluster.hex()}"


def is_same_user(connected: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user, as the kernel says."""
    return _credentials(connected)[1] == os.getuid()


def peer_process(connected: socket.socket) -> int:
    """The number of the process that listens at the other end, as the kernel says; 0: it cannot be seen from here."""
    return _credentials(connected)[0]


def _credentials(connected: socket.socket) -> tuple[int, int, int]:
    """pid, uid, gid."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0, -1, -1
    pid, uid, gid = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return pid, uid, gid
