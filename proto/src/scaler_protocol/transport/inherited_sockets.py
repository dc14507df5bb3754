"""Sockets that the service manager (systemd) has bound before it started this command: socket activation.

Connections to them wait while the command starts, or starts again. The protocol is that of ``sd_listen_fds``:
descriptors from 3 on, as many as LISTEN_FDS says, for the process LISTEN_PID.
"""

from __future__ import annotations

import functools
import os
import socket

from scaler_protocol.address import Address

_FIRST_DESCRIPTOR = 3


def take_inherited_socket(address: Address) -> socket.socket | None:
    """The socket that is bound to this address; None if there is no such socket, or if it was taken before."""
    sockets = _inherited_sockets()
    return sockets.pop((address.host, address.port), None) if address.scheme == "tcp" else None


@functools.cache
def _inherited_sockets() -> dict[tuple[str, int], socket.socket]:
    """By host and port. Takes the variables out of the environment, so that processes started from here do not see
    them."""
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isdigit():
        return {}
    found = {}
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)):
        os.set_inheritable(descriptor, False)
        each = socket.socket(fileno=descriptor)
        if each.family in (socket.AF_INET, socket.AF_INET6) and each.type == socket.SOCK_STREAM:
            host, port = each.getsockname()[:2]
            found[host, port] = each
    return found
