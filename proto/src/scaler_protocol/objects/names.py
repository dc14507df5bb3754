"""The name by which the store of a host and cluster is found, and the check of who answers there."""

from __future__ import annotations

import hashlib
import os
import socket
import struct

from scaler_protocol.ids import ID_SIZE_BYTES

NAME_IS_TAKEN = 3
"""The exit code of a process that could not become the store, because another process has the name of its socket."""

REFUSED = 100
"""The exit code of a process to which the system refused another one: this, and the number of the error."""

_CREDENTIALS = struct.Struct("3i")


def cluster_id(address: str, host: str, user: str, token: bytes) -> bytes:
    """Return 16 bytes that every start of a scheduler at this address has in common. Names of stores contain them, so
    no one who does not know the token can take such a name in advance."""
    made = "\0".join((address, host, user)).encode()
    return hashlib.blake2b(made, key=token[:64], digest_size=ID_SIZE_BYTES).digest()


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
