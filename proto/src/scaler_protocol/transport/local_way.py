"""How a peer reaches a scheduler on its own machine, and whether it should: before it connects, or says anything, it
looks whose the listening socket is."""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple

from scaler_protocol.address import Address
from scaler_protocol.transport.endpoints import unix_name
from scaler_protocol.transport.peer_process import can_watch
from scaler_protocol.transport.socket_owner import credentials_of, is_foreign, is_trusted, owner_of_listener
from scaler_protocol.transport.twin import twin_of


class Way(NamedTuple):
    """``connected``: a unix socket to speak through, and the process at its other end. ``by_libzmq``: libzmq should
    connect to the address, whose heartbeats look after a process that cannot be seen from here. Neither: nothing
    listens, or ``obstacle`` says why it is not spoken to."""

    connected: socket.socket | None = None
    process: int = 0
    by_libzmq: bool = False
    obstacle: str = ""


def find_way(address: Address, avoid_stream: bool) -> Way:
    """``avoid_stream``: the unix socket next to a port just failed. Raises OSError where no descriptor is
    left."""
    if address.scheme == "ipc":
        return _way_to(address, unix_name(address))
    twin = twin_of(address) if not avoid_stream else None
    if twin is not None:
        way = _way_to(address, "\0" + twin)
        if way.connected is not None:
            return way
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        owner = owner_of_listener(host, address.port)
    except ConnectionRefusedError:
        return Way()
    return Way(by_libzmq=True) if is_trusted(owner) else Way(obstacle=foreign_text(address, owner))


def _way_to(address: Address, name: str) -> Way:
    try:
        connected = _connect(name)
    except PermissionError:
        return Way(obstacle=f"Cannot connect to {address}: this user has no permission.")
    if connected is None:
        return Way()
    process, user = credentials_of(connected)
    if not is_foreign(user) and can_watch(process):
        return Way(connected, process)
    connected.close()
    return Way(obstacle=foreign_text(address, user)) if is_foreign(user) else Way(by_libzmq=True)


def _connect(name: str) -> socket.socket | None:
    """None: nothing listens there."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        connected.connect(name)
        return connected
    except OSError as error:
        connected.close()
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.EACCES):
            raise
        return None


def foreign_text(address: Address, user: int | None) -> str:
    return (
        f"Cannot trust {address}: the process that listens there belongs to {_name_of(user)}, not to this user. "
        "Connect to a scheduler of your own, or use keys (scaler_keygen)."
    )


def _name_of(user: int | None) -> str:
    import pwd  # where there are no other users, there is none either

    try:
        return f"user {pwd.getpwuid(user or 0).pw_name}"
    except KeyError:
        return f"user {user}"
