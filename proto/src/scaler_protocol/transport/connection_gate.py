"""Refuses new connections of addresses that open too many without authenticating (``connection_rate``), before libzmq
accepts them: it does that in the thread that moves the bytes of all peers with keys."""

from __future__ import annotations

import contextlib
import socket

from scaler_protocol.transport import connection_filter
from scaler_protocol.transport.connection_rate import ConnectionRate
from scaler_protocol.transport.timer import Timer


class ConnectionGate:
    """The gate of one listening TCP socket, which belongs to libzmq. Connections are named by their descriptors. ``fd``
    is readable when ``update`` must be called."""

    def __init__(self, listening_fd: int) -> None:
        self._listening_fd = listening_fd
        self._rate = ConnectionRate()
        self._addresses: dict[int, str] = {}  # of connections that have not authenticated
        self._refused: frozenset[str] = frozenset()
        self._timer = Timer()

    @property
    def fd(self) -> int:
        return self._timer.fd

    def add(self, fd: int, now: float) -> None:
        """A connection has opened. It may have closed since, and its descriptor may be that of another one."""
        address = _peer_address(fd)
        if address is not None:
            self._addresses[fd] = address
            self._rate.add(address, now)

    def admit(self, fd: int) -> None:
        """The peer has authenticated."""
        address = self._addresses.pop(fd, None)
        if address is not None:
            self._rate.give_back(address)

    def forget(self, fd: int) -> None:
        """The connection has ended."""
        self._addresses.pop(fd, None)

    def update(self, now: float) -> None:
        """Make the kernel refuse the addresses that are over their rate now, and no others."""
        is_due = self._timer.take()
        over = self._rate.over(now)
        if over != self._refused:
            with contextlib.suppress(OSError):  # a container may forbid filters; the other limits hold without this one
                connection_filter.attach(self._listening_fd, over)
            self._refused = over
        elif not is_due:
            return
        deadline = self._rate.next_deadline()
        if deadline is not None:
            self._timer.set(max(0.0, deadline - now))

    def close(self) -> None:
        self._timer.close()


def _peer_address(fd: int) -> str | None:
    """Return the peer's IP address; None if the connection has closed."""
    with contextlib.suppress(OSError):
        connection = socket.socket(fileno=fd)
        try:
            host: str = connection.getpeername()[0]
            return host.removeprefix("::ffff:").partition("%")[0]
        finally:
            connection.detach()
    return None
