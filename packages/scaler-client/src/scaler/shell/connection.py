"""The client's connection: what it must be able to do, and the one that clients inside tasks have."""

from __future__ import annotations

import os
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
    def receive(self) -> list[bytes] | None: ...
    def events(self) -> list[str]: ...
    def reconnect(self) -> None: ...
    def close(self, linger: bool) -> None: ...


class NestedConnection:
    """A stream to the agent of the task that this client lives in; the agent relays to the scheduler, to which it has
    proved who it is."""

    nested = True
    monitor_fd = None
    place = obstacle = ""
    token = b""

    def __init__(self, address: str) -> None:
        self._stream = StreamConnection.connect(address)
        if is_foreign(credentials_of(self._stream.plain_socket)[1]):
            self._stream.close()
            raise ConnectionError("Cannot trust the agent of this task: the process at its socket is another user's.")
        self.fd = self._stream.fd
        self._told_connected = False
        self._told_lost = False

    @property
    def wants_write(self) -> bool:
        return self._stream.wants_write

    def send(self, frames: Sequence[bytes]) -> bool:
        return self._stream.send(frames)

    def receive(self) -> list[bytes] | None:
        if self._stream.wants_write:
            self._stream.flush()
        return self._stream.receive()

    def events(self) -> list[str]:
        if not self._told_connected:
            self._told_connected = True
            return ["connected"]
        if self._stream.eof and not self._told_lost:
            self._told_lost = True
            return ["disconnected"]
        return []

    def reconnect(self) -> None:
        """A task's agent is one and the same."""

    def close(self, linger: bool) -> None:
        if linger:
            self._stream.flush()
        self._stream.close()


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
