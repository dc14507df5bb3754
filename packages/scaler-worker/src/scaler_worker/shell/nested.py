"""Where clients inside tasks connect: an abstract socket, which leaves no file behind."""

from __future__ import annotations

import os
import secrets
import socket
import struct
from typing import Any

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.messages import Envelope, Hello, TaskColumn, WhoAreYou
from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.processor import channel


class NestedListener:
    """``agent`` has the methods ``nested_opened(session, parent)``, ``nested_frames(session, frames)``,
    ``nested_blocked(session)``, ``nested_unblocked(session)`` and ``nested_closed(session)``, and ``heard()`` after all
    that waited."""

    def __init__(self, loop: GuardedLoop, agent: Any) -> None:
        self._loop = loop
        self._agent = agent
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"scaler-agent-{os.getpid()}-{secrets.token_hex(8)}"
        self.address = f"@{name}"
        self._socket.bind(f"\0{name}")
        self._socket.listen(128)
        self._socket.setblocking(False)
        self._sessions: dict[bytes, StreamConnection] = {}
        self._names: dict[StreamConnection, bytes] = {}
        loop.add_reader(self._socket.fileno(), self._on_connection)

    def send(self, session: bytes, frames: tuple[bytes, ...]) -> None:
        connection = self._sessions.get(session)
        if connection is None:
            return
        connection.send(frames)
        if connection.wants_write:
            self._loop.add_writer(connection.fd, self._on_writable, connection)

    def renew(self, session: bytes) -> None:
        """Ask for a new Hello."""
        self.send(session, tuple(encode(Envelope(WhoAreYou()))))

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for connection in list(self._names):
            self._end(connection)

    def _on_connection(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, OSError):
                return
            if not _is_same_user(accepted):
                accepted.close()
                continue
            connection = StreamConnection(accepted)
            self._names[connection] = b""
            self._loop.add_reader(connection.fd, self._on_readable, connection)

    def _on_readable(self, connection: StreamConnection) -> None:
        while connection in self._names and (frames := connection.receive()) is not None:
            self._handle(connection, frames)
        if connection.eof and connection in self._names:
            self._end(connection)
        self._agent.heard()

    def _handle(self, connection: StreamConnection, frames: list[bytes]) -> None:
        session = self._names[connection]
        if frames == [channel.BLOCKED]:
            self._agent.nested_blocked(session)
        elif frames == [channel.UNBLOCKED]:
            self._agent.nested_unblocked(session)
        elif session or self._open(connection, frames):
            self._agent.nested_frames(self._names[connection], tuple(frames))

    def _open(self, connection: StreamConnection, frames: list[bytes]) -> bool:
        """The first message is Hello."""
        try:
            hello = decode(frames).body
        except MalformedMessage:
            hello = None
        if not isinstance(hello, Hello):
            self._end(connection)
            return False
        old = self._sessions.pop(hello.session, None)
        if old is not None:
            self._end(old)
        self._names[connection] = hello.session
        self._sessions[hello.session] = connection
        parent = TaskColumn(hello.parent_session, (hello.parent_task,), (hello.parent_attempt,))
        self._agent.nested_opened(hello.session, parent)
        return True

    def _on_writable(self, connection: StreamConnection) -> None:
        if connection.flush() or connection.eof:
            self._loop.remove_writer(connection.fd)

    def _end(self, connection: StreamConnection) -> None:
        session = self._names.pop(connection, b"")
        self._loop.remove_reader(connection.fd)
        self._loop.remove_writer(connection.fd)
        connection.close()
        if session and self._sessions.get(session) is connection:
            del self._sessions[session]
            self._agent.nested_closed(session)


def _is_same_user(connected: socket.socket) -> bool:
    """Abstract sockets have no permissions: ask the kernel who is there."""
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", data)
    return user in (os.geteuid(), 0)
