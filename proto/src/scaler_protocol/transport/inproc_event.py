"""The connection to a socket of this process, of which libzmq reports nothing."""

from __future__ import annotations

import socket


class InprocEvent:
    """Says "connected", once, readable like a monitor."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.send(b"c")
        self.fd = self._reader.fileno()

    def take(self) -> bool:
        try:
            return bool(self._reader.recv(1))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
