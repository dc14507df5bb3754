"""The way to a scheduler on the same machine, and whether to take it: before a peer connects, or sends anything, it
checks which user owns the listening socket."""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple

from scaler_protocol.address import Address
from scaler_protocol.transport.endpoints import unix_name
from scaler_protocol.transport.local_socket import local_socket_name
from scaler_protocol.transport.peer_process import can_watch
from scaler_protocol.transport.socket_owner import credentials_of, is_foreign, is_trusted, owner_of_listener


class LocalRoute(NamedTuple):
    """``connected``: a unix socket to speak through, and the process at its other end. ``by_libzmq``: libzmq should
    connect to the address, whose heartbeats look after a process that cannot be seen from here. Neither: nothing
    listens, or ``obstacle`` says why it is not spoken to."""

    connected: socket.socket | None = None
    process: int = 0
    by_libzmq: bool = False
    obstacle: str = ""


def find_route(address: Address, avoid_stream: bool) -> LocalRoute:
    """``avoid_stream``: the unix socket next to a port just failed. Raises OSError where no descriptor is
    left."""
    if address.scheme == "ipc":
        return _route_to(address, unix_name(address))
    local_socket = local_socket_name(address) if not avoid_stream else None
    if local_socket is not None:
        route = _route_to(address, "\0" + local_socket)
        if route.connected is not None:
            return route
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        owner = owner_of_listener(host, address.port)
    except ConnectionRefusedError:
        return LocalRoute()
    return LocalRoute(by_libzmq=True) if is_trusted(owner) else LocalRoute(obstacle=foreign_text(address, owner))


def _route_to(address: Address, name: str) -> LocalRoute:
    try:
        connected = _connect(name)
    except PermissionError:
        return LocalRoute(obstacle=f"Cannot connect to {address}: this user has no permission.")
    if connected is None:
        return LocalRoute()
    process, user = credentials_of(connected)
    if not is_foreign(user) and can_watch(process):
        return LocalRoute(connected, process)
    connected.close()
    return LocalRoute(obstacle=foreign_text(address, user)) if is_foreign(user) else LocalRoute(by_libzmq=True)


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
