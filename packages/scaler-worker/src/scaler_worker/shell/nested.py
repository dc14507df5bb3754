"""The socket to which clients inside tasks connect. It is abstract, so it leaves no file behind."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from typing import Protocol

from scaler_protocol.codec import HARD_LIMIT_BYTES, MalformedMessage, decode, encode
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.messages import Envelope, Hello, TaskColumn, WhoAreYou
from scaler_protocol.transport.acceptor import Acceptor
from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.worker_process import channel

MESSAGES_AT_ONCE = 256
"""Then others are heard."""

FRAMES_LIMIT = 63
RELAYED_LIMIT_BYTES = HARD_LIMIT_BYTES - 4096
"""A larger message could not be sent on inside another."""


class NestedEvents(Protocol):
    """Events of clients inside tasks."""

    def nested_opened(self, session: bytes, parent: TaskColumn) -> None:
        """A client has connected; ``parent`` names the one task in which it lives."""

    def nested_frames(self, session: bytes, frames: tuple[bytes, ...]) -> None:
        """A message to the scheduler."""

    def nested_blocked(self, session: bytes) -> None:
        """The client waits for results."""

    def nested_waits_for_lock(self, session: bytes) -> None: ...

    def nested_unblocked(self, session: bytes) -> None: ...
    def nested_closed(self, session: bytes) -> None: ...


class NestedListener:
    """Accepts the connections of these clients and passes their messages on."""

    def __init__(self, loop: GuardedLoop, agent: NestedEvents) -> None:
        self._loop = loop
        self._agent = agent
        name = f"scaler-agent-{os.getpid()}-{secrets.token_hex(8)}"
        self.address = f"@{name}"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"\0{name}")
        listening.listen(128)
        self._acceptor = Acceptor(listening, "The agent of this host")
        self._sessions: dict[bytes, StreamConnection] = {}
        self._names: dict[StreamConnection, bytes] = {}
        loop.add_reader(self._acceptor.fd, self._on_connection)

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
        self._loop.remove_reader(self._acceptor.fd)
        self._acceptor.close()
        for connection in list(self._names):
            self._end(connection)

    def _on_connection(self) -> None:
        for accepted in self._acceptor.accept():
            connection = StreamConnection(accepted)
            self._names[connection] = b""
            self._loop.add_reader(connection.fd, self._charge, connection)

    def _charge(self, connection: StreamConnection) -> None:
        """Close a connection on which an error occurred."""
        try:
            self._on_readable(connection)
        except Exception as error:
            if isinstance(error, MemoryError):
                self._loop.failed("Disconnecting a client inside a task.", error)
            else:
                logging.exception("Disconnecting a client inside a task")
            self._end(connection)

    def _on_readable(self, connection: StreamConnection) -> None:
        for _ in range(MESSAGES_AT_ONCE):
            frames = connection.receive() if connection in self._names else None
            if frames is None:
                break
            self._handle(connection, frames)
        else:
            self._loop.call_soon(self._charge, connection)  # messages already read cause no further event
            return
        if connection.eof:
            self._end(connection)

    def _handle(self, connection: StreamConnection, frames: list[bytes]) -> None:
        session = self._names[connection]
        if len(frames) > FRAMES_LIMIT or sum(map(len, frames)) > RELAYED_LIMIT_BYTES:
            raise ValueError("A message of a client inside a task is too large to be passed on.")
        if frames == [channel.BLOCKED]:
            self._agent.nested_blocked(session)
        elif frames == [channel.WAITS_FOR_A_LOCK]:
            self._agent.nested_waits_for_lock(session)
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
        if connection not in self._names:
            return
        session = self._names.pop(connection)
        self._loop.remove_reader(connection.fd)
        self._loop.remove_writer(connection.fd)
        connection.close()
        if session and self._sessions.get(session) is connection:
            del self._sessions[session]
            self._agent.nested_closed(session)
