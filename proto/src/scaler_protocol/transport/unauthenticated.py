"""Connections of peers that have not authenticated, and the limits of their cost.

Any process that can connect may flood. So only the start of one small message is kept for each connection, connections
are few and short-lived, and only a share of the time is spent on them (``time_share``), after authenticated peers were
served. Unread bytes wait in the kernel, whose buffers are bounded; the bytes of a connection are released with it.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

from scaler_protocol.keys import ServerKeys
from scaler_protocol.transport.curve import CurveServer
from scaler_protocol.transport.prompt_delivery import deliver_promptly
from scaler_protocol.transport.socket_owner import PeerOwners, credentials_of, is_foreign, is_trusted
from scaler_protocol.transport.timer import Timer
from scaler_protocol.transport.zmtp import ZmtpConnection

HANDSHAKE_SECONDS_LIMIT = 10.0
"""Seconds until a connection must have completed its handshake."""

SECONDS_LIMIT = 30.0
"""Seconds until a connection must have authenticated."""

COUNT_LIMIT = 2048
"""No more than half of the descriptors that this process may have, either. Beyond it the oldest goes, or the newest
while the oldest has not had ``GRACE_SECONDS``: many peers may come back at once."""

GRACE_SECONDS = 2.0
_EVENTS_LIMIT = 64
_ACCEPT_LIMIT = 4
_BACKLOG = 4096


class Listening(NamedTuple):
    """A socket that listens. ``needs_process``: a process that cannot be seen from here is turned away."""

    socket: socket.socket
    is_local: bool = True
    needs_process: bool = False


class Arrived(NamedTuple):
    connection: ZmtpConnection
    process: int
    since: float


class Unauthenticated:
    """``fd`` is readable when there is something to do: then go through ``messages``. With ``keys``, connections are
    encrypted, and a peer that does not show one of these keys gets no message through."""

    def __init__(self, keys: ServerKeys | None = None) -> None:
        self._keys = keys
        self._epoll = select.epoll()
        self._timer = Timer()
        self._owners = PeerOwners()
        self._listening: dict[int, Listening] = {}
        self._arrived: dict[int, Arrived] = {}  # by descriptor; the oldest come first
        self._identities: dict[bytes, ZmtpConnection] = {}  # of those that have shaken hands
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._epoll.register(self._timer.fd, select.EPOLLIN)

    def __len__(self) -> int:
        return len(self._arrived)

    @property
    def fd(self) -> int:
        return self._epoll.fileno()

    @property
    def identities(self) -> list[bytes]:
        """The identities of the connections that have completed their handshake."""
        return list(self._identities)

    def listen(self, listening: Listening) -> None:
        """On a socket that is bound. Raises OSError."""
        listening.socket.setblocking(False)
        listening.socket.listen(_BACKLOG)
        self._listening[listening.socket.fileno()] = listening
        self._epoll.register(listening.socket.fileno(), select.EPOLLIN)

    def messages(self, deadline: float) -> Iterator[tuple[bytes, list[bytes], bytes]]:
        """Senders, their frames and users, until nothing waits or the deadline has passed. The frames are empty for a
        message that was not a Hello and was dropped."""
        while ready := self._epoll.poll(0, _EVENTS_LIMIT):
            for fd, _ in ready:
                message = self._serve(fd)
                if message is not None:
                    yield message
                if time.monotonic() >= deadline:
                    return

    def __contains__(self, identity: bytes) -> bool:
        """A connection that has completed its handshake has this identity."""
        return identity in self._identities

    def answer(self, identity: bytes, frames: list[bytes]) -> bool:
        """False: it has gone."""
        return self._identities[identity].send(frames)

    def take(self, identity: bytes) -> Arrived | None:
        """It has authenticated, and is the caller's from now on, who has it watched elsewhere."""
        connection = self._identities.pop(identity, None)
        return self._arrived.pop(connection.fd) if connection is not None else None

    def end(self, identity: bytes) -> None:
        connection = self._identities.get(identity)
        if connection is not None:
            self._end(connection.fd)

    def stop_listening(self) -> None:
        for listening in self._listening.values():
            listening.socket.close()
        self._listening.clear()

    def close(self) -> None:
        """May be called twice."""
        if self._epoll.closed:
            return
        self.stop_listening()
        for fd in list(self._arrived):
            self._end(fd)
        self._timer.close()
        self._owners.close()
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
        self._epoll.close()

    # ---- what waits ----------------------------------------------------------------------------------------------

    def _serve(self, fd: int) -> tuple[bytes, list[bytes], bytes] | None:
        listening = self._listening.get(fd)
        if listening is not None:
            self._accept(listening)
        elif fd == self._timer.fd:
            self._end_overdue()
        elif fd in self._arrived:  # else it has ended just now
            return self._read(self._arrived[fd].connection)
        return None

    def _read(self, connection: ZmtpConnection) -> tuple[bytes, list[bytes], bytes] | None:
        """One message at most."""
        if not connection.is_ready:
            connection.look()
            if connection.is_ready:
                self._name(connection)
        frames = connection.receive()
        if frames is None and (connection.has_ended or connection.is_cut):
            self._end(connection.fd)
        return (connection.identity, frames, connection.user) if frames is not None else None

    def _name(self, connection: ZmtpConnection) -> None:
        """Among unauthenticated connections, the last one that presents an identity owns it."""
        connection.name_unless_named()
        older = self._identities.get(connection.identity)
        if older is not None:
            self._end(older.fd)
        self._identities[connection.identity] = connection

    # ---- connections ---------------------------------------------------------------------------------------------

    def _accept(self, listening: Listening) -> None:
        for _ in range(_ACCEPT_LIMIT):
            try:
                connected, address = listening.socket.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._turn_away(listening)
                return
            process = self._process_of(connected, address, listening)
            if process is None or not self._has_room():
                connected.close()
            else:
                self._add(connected, process)

    def _process_of(self, connected: socket.socket, address: object, listening: Listening) -> int | None:
        """Return the id of the process at the other end; 0: it cannot be seen from here. None: it is another user's,
        and is told nothing."""
        if connected.family == socket.AF_UNIX:
            process, user = credentials_of(connected)
            return None if is_foreign(user) or (listening.needs_process and not process) else process
        if listening.is_local and isinstance(address, tuple):
            owner = self._owners.owner(connected, address[:2])
            return 0 if is_trusted(owner) else None
        return 0

    def _turn_away(self, listening: Listening) -> None:
        """This process has no descriptor left: close a waiting connection, so that its peer does not wait indefinitely,
        and wake this process again and again."""
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
        self._spare_fd = -1
        try:
            listening.socket.accept()[0].close()
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # another thread has taken it

    def _has_room(self) -> bool:
        limit = min(COUNT_LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        if len(self._arrived) < limit:
            return True
        fd, oldest = next(iter(self._arrived.items()))
        if time.monotonic() - oldest.since < GRACE_SECONDS:
            return False
        self._end(fd)
        return True

    def _add(self, connected: socket.socket, process: int) -> None:
        try:
            if connected.family != socket.AF_UNIX:
                deliver_promptly(connected)
            connection = ZmtpConnection(connected, "ROUTER", is_limited=True, curve=self._curve())
            connection.watch_in(self._epoll.fileno())
        except OSError:
            connected.close()
            return
        if not self._arrived:
            self._timer.set(HANDSHAKE_SECONDS_LIMIT)
        self._arrived[connection.fd] = Arrived(connection, process, time.monotonic())

    def _curve(self) -> CurveServer | None:
        return CurveServer(self._keys.secret, self._keys.user_of) if self._keys is not None else None

    def _end_overdue(self) -> None:
        self._timer.take()
        now = time.monotonic()
        for fd, each in list(self._arrived.items()):
            limit = SECONDS_LIMIT if each.connection.is_ready else HANDSHAKE_SECONDS_LIMIT
            if now - each.since >= limit:
                self._end(fd)
        if self._arrived:
            self._timer.set(HANDSHAKE_SECONDS_LIMIT / 4)

    def _end(self, fd: int) -> None:
        connection = self._arrived.pop(fd).connection
        if self._identities.get(connection.identity) is connection:
            del self._identities[connection.identity]
        connection.close()
