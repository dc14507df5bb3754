"""Connections to a publisher of this machine, whose owner is checked before a byte is read."""

from __future__ import annotations

import os
import socket

from scaler_protocol.address import Address
from scaler_protocol.monitor.feed import RefusedError
from scaler_protocol.monitor.other_users import ROOT, served_by_another
from scaler_protocol.monitor.socket_paths import find_socket
from scaler_protocol.transport.socket_owner import credentials_of, owner_of_listener

_CONNECT_SECONDS = 1.0


class LocalPublisher:
    """The publisher at a monitor address, or that of the scheduler at this address. It is looked for at each
    connection, because the scheduler may start later."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def connect(self) -> socket.socket:
        """A connection that does not block. OSError if nothing listens, RefusedError if another user does."""
        path = find_socket(self._address) or self._address.path
        connected = _connect_to_path(path) if path else self._connect_to_port()
        try:
            if path:
                self._check(credentials_of(connected)[1])
            connected.setblocking(False)
        except BaseException:
            connected.close()
            raise
        return connected

    def _connect_to_port(self) -> socket.socket:
        host = "127.0.0.1" if self._address.host == "localhost" else self._address.host
        self._check(owner_of_listener(host, self._address.port))
        return socket.create_connection((host, self._address.port), _CONNECT_SECONDS)

    def _check(self, owner: int | None) -> None:
        if owner is not None and owner not in (os.geteuid(), ROOT):
            raise RefusedError(served_by_another(str(self._address), owner))


def _connect_to_path(path: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        connected.connect("\0" + path[1:] if path.startswith("@") else path)
    except BaseException:
        connected.close()
        raise
    return connected
