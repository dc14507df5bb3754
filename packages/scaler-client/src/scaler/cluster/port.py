"""A free port of the loopback interface, kept for whoever is going to listen on it."""

from __future__ import annotations

import socket


class ReservedPort:
    """Bound but not listening: nobody else is given the port, and a listener that allows the reuse of addresses, as
    libzmq does, can take it over. Whoever connects before is refused and tries again."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"

    def release(self) -> None:
        self._socket.close()
