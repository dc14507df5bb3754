"""Limits on the number of connections, and on what each may cost before it has shown the token.

aiohttp itself limits neither the number of connections nor the time that the head of a request may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

CONNECTIONS_LIMIT = 200
"""Maximum number of connections. Beyond it, the oldest one that is not admitted is closed, or else the new one."""

ADMIT_SECONDS = 10.0
"""Seconds until a connection must have shown that it is permitted."""

ADMIT_BYTES = 64 * 1024
"""Maximum number of bytes that a connection may send before it is admitted."""


class ConnectionLimits:
    """Creates a limited protocol for each connection, around that of the server, which ``make_inner`` returns."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make_inner: Callable[[], Any]) -> None:
        self._loop = loop
        self._make_inner = make_inner
        self._unauthenticated: dict[asyncio.BaseTransport, LimitedConnection] = {}
        self._count = 0

    def protocol(self) -> LimitedConnection:
        return LimitedConnection(self, self._make_inner())

    def admit(self, transport: asyncio.BaseTransport | None) -> None:
        """Lift the limits of time and bytes for this connection, which has shown the token."""
        if transport is not None and (connection := self._unauthenticated.pop(transport, None)) is not None:
            connection.admitted()

    def enter(self, connection: LimitedConnection, transport: asyncio.Transport) -> asyncio.TimerHandle | None:
        """Count a new connection, and return the timer that closes it if it is not admitted in time. Return None if
        there are too many connections; the caller closes it then."""
        if self._count >= CONNECTIONS_LIMIT and self._unauthenticated:
            next(iter(self._unauthenticated.values())).abort()
        elif self._count >= CONNECTIONS_LIMIT:
            return None
        self._count += 1
        self._unauthenticated[transport] = connection
        return self._loop.call_later(ADMIT_SECONDS, connection.abort)

    def leave(self, transport: asyncio.BaseTransport) -> None:
        self._count -= 1
        self._unauthenticated.pop(transport, None)


class LimitedConnection(asyncio.Protocol):
    """One connection, which is closed when it exceeds the limits before it is admitted."""

    def __init__(self, limits: ConnectionLimits, inner: Any) -> None:
        self._limits = limits
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._is_admitted = False

    def admitted(self) -> None:
        self._is_admitted = True
        self._stop_timer()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._gone()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._timer = self._limits.enter(self, transport)
        if self._timer is None:
            transport.abort()
            return
        self._transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if not self._is_admitted and self._bytes > ADMIT_BYTES:
            self.abort()
        elif self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return bool(self._inner.eof_received()) if self._transport is not None else None

    def connection_lost(self, error: Exception | None) -> None:
        was_let_in = self._timer is not None
        self._gone()
        if was_let_in:
            self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _gone(self) -> None:
        self._stop_timer()
        if self._transport is not None:
            self._limits.leave(self._transport)
            self._transport = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
