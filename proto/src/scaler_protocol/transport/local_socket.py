"""The local socket of a loopback address: a Unix socket of the same listener, for the same user, at a lower cost. Its
protocol is ZMTP, too.

It is an abstract one, so it lives in the network namespace in which the loopback interface is, and ends with its
process. Its name is made of the user's token, so that other users cannot listen there before the scheduler does.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import sys

from scaler_protocol.address import Address
from scaler_protocol.security import read_token

_NAME_SIZE_BYTES = 16


def local_socket_name(address: Address) -> str | None:
    """Its name, without the zero byte before it. None: it has none, since others than this user on this machine can
    reach it, or since there are no such names."""
    if sys.platform != "linux" or address.scheme != "tcp" or not address.is_local:
        return None
    try:
        token = read_token()
    except (OSError, ValueError):
        return None
    if not token:
        return None
    host = "127.0.0.1" if address.host == "localhost" else address.host
    name = hashlib.blake2b(f"{host}:{address.port}".encode(), key=token[:64], digest_size=_NAME_SIZE_BYTES)
    return f"scaler-{name.hexdigest()}"


def bound_local_socket(address: Address) -> socket.socket | None:
    """Return a socket bound to the name of the local socket of this address. None: it has none, or the name is taken by
    another process, which could not bind the port. Then peers use the port."""
    name = local_socket_name(address)
    if name is None:
        return None
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind("\0" + name)
    except OSError as error:
        made.close()
        logging.warning(f"Cannot listen on the local socket of {address}: {error.strerror}. Peers use the port.")
        return None
    return made
