"""The unix socket beside a loopback address: the same listener for the same user, at a lower price. What is said there
is ZMTP as well, but spoken without libzmq (``zmtp``).

It is an abstract one, so it lives in the network namespace in which the loopback interface is, and ends with its
process. Its name is made of the user's token: nobody else can listen there before the scheduler does, to be shown the
token by those who take him for it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys

from scaler_protocol.address import Address
from scaler_protocol.security import read_token
from scaler_protocol.transport.peer_process import can_watch
from scaler_protocol.transport.zmtp_listener import peer_of

_NAME_SIZE_BYTES = 16


def twin_of(address: Address) -> str | None:
    """Its name, without the zero byte before it. None: it has none, since others than this user on this machine can
    reach it, or since there are no such names."""
    if sys.platform != "linux" or address.scheme != "tcp" or not address.is_local:
        return None
    try:
        token = read_token()
    except OSError:
        return None
    if not token:
        return None
    host = "127.0.0.1" if address.host == "localhost" else address.host
    name = hashlib.blake2b(f"{host}:{address.port}".encode(), key=token[:64], digest_size=_NAME_SIZE_BYTES)
    return f"scaler-{name.hexdigest()}"


def connect_to_twin(name: str) -> socket.socket | None:
    """None: nobody listens there, or another user, who is not to be told anything, or one that could not be watched
    from here, or there is no descriptor left."""
    try:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None
    try:
        connected.connect("\0" + name)
        process, user = peer_of(connected)
        if user == os.geteuid() and can_watch(process):
            return connected
    except OSError:
        pass
    connected.close()
    return None
