"""A free port of the loopback interface, reserved for the process that will listen on it."""

from __future__ import annotations

import socket


class ReservedPort:
    """Bound but not listening, so that no other program gets the port. A listener that allows the reuse of addresses,
    like libzmq, can take it over. Connections before that are refused and tried again."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"

    def release(self) -> None:
        self._socket.close()
