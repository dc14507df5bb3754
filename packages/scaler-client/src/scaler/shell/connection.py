"""The client's connection: what it must be able to do, and the one that clients inside tasks have."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Protocol

from scaler_protocol.messages import TaskName
from scaler_protocol.transport.socket_owner import credentials_of, is_foreign
from scaler_protocol.transport.stream import StreamConnection

AGENT_SOCKET_VARIABLE = "SCALER_AGENT_SOCKET"
SCHEDULER_VARIABLE = "SCALER_SCHEDULER_ADDRESS"
PARENT_VARIABLE = "SCALER_PARENT"


class ClientConnection(Protocol):
    """The connection that the client's I/O uses. ``fd`` may be edge-triggered: receive until None, also after a send.
    ``place``, ``token`` and ``obstacle``: see DealerConnection."""

    nested: bool

    @property
    def place(self) -> str: ...
    @property
    def token(self) -> bytes: ...
    @property
    def obstacle(self) -> str: ...

    @property
    def fd(self) -> int: ...
    @property
    def monitor_fd(self) -> int | None: ...
    @property
    def wants_write(self) -> bool: ...
    def send(self, frames: Sequence[bytes]) -> bool: ...
    def tell_wait(self, word: bytes) -> None: ...
    def receive(self) -> list[bytes] | None: ...
    def events(self) -> list[str]: ...
    def reconnect(self) -> None: ...
    def close(self, linger: bool) -> None: ...


class NestedConnection:
    """A stream to the agent of the task that this client lives in; the agent relays to the scheduler, to which it has
    proved who it is. When the stream ends while the agent lives on, ``reconnect`` makes another one. The number of the
    descriptor stays the same, because threads poll it."""

    nested = True
    monitor_fd = None
    place = ""
    token = b""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stream = StreamConnection(_connected_socket(address))
        self._stand_in: tuple[socket.socket, socket.socket] | None = None
        self._events = ["connected"]
        self._wait_word = b""
        self._wait_is_told = True
        self.fd = self._stream.fd
        self.obstacle = ""

    @property
    def wants_write(self) -> bool:
        return self._stream.wants_write

    def send(self, frames: Sequence[bytes]) -> bool:
        is_sent = self._stream.send(frames)
        if not self._wait_is_told:  # behind Hello, which is the first message on a connection
            self._wait_is_told = True
            self._stream.send([self._wait_word])
        return is_sent

    def tell_wait(self, word: bytes) -> None:
        """Tell the agent whether the task waits: ``channel.BLOCKED`` and the others."""
        self._wait_word = word
        self._stream.send([word])

    def receive(self) -> list[bytes] | None:
        if self._stream.wants_write:
            self._stream.flush()
        return self._stream.receive()

    def events(self) -> list[str]:
        if self._stream.eof and self._stand_in is None:
            self._end_stream()
            self._events = ["ended"]
        events, self._events = self._events, []
        return events

    def reconnect(self) -> None:
        if self._stand_in is None:
            self._end_stream()
        try:
            connected = _connected_socket(self._address)
        except OSError as error:
            self.obstacle = f"Cannot reach the agent of this task: {error}."
            self._events = ["ended"]
            return
        self._stream = StreamConnection(self._take_place(connected))
        self._wait_is_told = not self._wait_word
        self.obstacle = ""
        self._events = ["connected"]

    def close(self, linger: bool) -> None:
        if linger:
            self._stream.flush()
        self._stream.close()
        for each in self._stand_in or ():
            each.close()

    def _end_stream(self) -> None:
        """Put a silent socket in the place of the stream: polling one that has ended would return at once."""
        ended, (stand_in, other_end) = self._stream, socket.socketpair()
        os.dup2(stand_in.fileno(), self.fd, inheritable=False)
        stand_in.close()
        self._stand_in = _adopted(ended.plain_socket.detach()), other_end
        ended.close()

    def _take_place(self, connected: socket.socket) -> socket.socket:
        """The same connection, with the descriptor that threads poll."""
        assert self._stand_in is not None
        stand_in, other_end = self._stand_in
        self._stand_in = None
        os.dup2(connected.fileno(), self.fd, inheritable=False)
        connected.close()
        other_end.close()
        return _adopted(stand_in.detach())


def _connected_socket(address: str) -> socket.socket:
    """Raises OSError, also if the socket is another user's."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.connect("\0" + address[1:] if address.startswith("@") else address)
        if is_foreign(credentials_of(connected)[1]):
            raise ConnectionError("Cannot trust the agent of this task: the process at its socket is another user's.")
    except BaseException:
        connected.close()
        raise
    return connected


def _adopted(fd: int) -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)


def nested_socket(address: str | None) -> str | None:
    """The agent's socket, when this process belongs to a task of the scheduler at ``address`` (None: of any)."""
    agent = os.environ.get(AGENT_SOCKET_VARIABLE)
    if agent and (address is None or address == os.environ.get(SCHEDULER_VARIABLE)):
        return agent
    return None


def is_far_from_agents() -> bool:
    """Return whether this process runs a task where no agent is, as in Symphony: its clients connect by themselves."""
    return bool(os.environ.get(PARENT_VARIABLE)) and not os.environ.get(AGENT_SOCKET_VARIABLE)


def parent_task() -> TaskName:
    """The task that this process belongs to."""
    session, *numbers = os.environ.get(PARENT_VARIABLE, "").split(":")
    try:
        return TaskName(bytes.fromhex(session), *map(int, numbers))
    except (ValueError, TypeError):
        return TaskName(b"", 0, 0)
