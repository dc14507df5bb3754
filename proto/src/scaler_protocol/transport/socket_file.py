"""The file of an ipc address."""

from __future__ import annotations

import os
import socket
import stat

from scaler_protocol.address import Address
from scaler_protocol.transport.endpoints import in_use


def check_path_free(address: Address) -> None:
    """libzmq would silently take a socket file over from a process that still listens on it. Raises OSError."""
    name = "\0" + address.path[1:] if address.path.startswith("@") else address.path
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(name)
        except OSError:
            return
    raise in_use(address)


class SocketFile:
    """The file where somebody listens now, if the address has one."""

    def __init__(self, address: Address) -> None:
        self._path = "" if address.scheme != "ipc" or address.path.startswith("@") else address.path
        self._inode = 0
        if self._path:
            status = os.stat(self._path)
            self._inode = status.st_ino if stat.S_ISSOCK(status.st_mode) else 0

    def remove(self) -> None:
        """Unless it is another one by now."""
        try:
            if self._inode and os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except FileNotFoundError:
            pass
