"""The file of an ipc address."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

from scaler_protocol.address import Address
from scaler_protocol.transport.endpoints import in_use, sentence


def prepare_path(address: Address) -> None:
    """Remove a socket file at which no process listens any more. Raises OSError when one does, or when it is a file of
    another kind."""
    if address.scheme != "ipc" or address.path.startswith("@"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address.path)
        except BlockingIOError:  # more wait there than it has room for
            raise in_use(address) from None
        except OSError:
            _remove_stale(address)
            return
    raise in_use(address)


def _remove_stale(address: Address) -> None:
    try:
        is_socket = stat.S_ISSOCK(os.lstat(address.path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise sentence(errno.EEXIST, f"Cannot listen on {address}: a file with this name exists. Remove it.")
    os.unlink(address.path)


class SocketFile:
    """The file of the listening socket, if the address has one."""

    def __init__(self, address: Address) -> None:
        self._path = "" if address.scheme != "ipc" or address.path.startswith("@") else address.path
        self._inode = 0
        if self._path:
            status = os.stat(self._path)
            self._inode = status.st_ino if stat.S_ISSOCK(status.st_mode) else 0

    def is_there(self) -> bool:
        """Return whether it has not been removed or replaced."""
        try:
            return bool(self._inode) and os.stat(self._path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Unless it is another one by now."""
        if self.is_there():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
