"""The connection of a client inside a task, which ends while the client lives."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scaler.shell.connection import NestedConnection
from scaler_protocol.transport.stream import StreamConnection

BLOCKED, UNBLOCKED = b"blocked", b"unblocked"


class StandInAgent:
    """Listens as an agent does, and stops listening on demand."""

    def __init__(self) -> None:
        self.name = f"scaler-test-{os.getpid()}-{secrets.token_hex(8)}"
        self.address = f"@{self.name}"
        self.listen()

    def listen(self) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(f"\0{self.name}")
        self.listening.listen()

    def accept(self) -> StreamConnection:
        return StreamConnection(self.listening.accept()[0])


@contextmanager
def connected() -> Iterator[tuple[StandInAgent, NestedConnection, StreamConnection]]:
    agent = StandInAgent()
    connection = NestedConnection(agent.address)
    assert connection.events() == ["connected"]
    stream = agent.accept()
    yield agent, connection, stream
    connection.close(linger=False)
    stream.close()
    agent.listening.close()


def is_readable(connection: NestedConnection) -> bool:
    return bool(select.select([connection.fd], [], [], 0)[0])


def end(connection: NestedConnection, stream: StreamConnection) -> None:
    stream.close()
    assert connection.receive() is None
    assert connection.events() == ["ended"]


def test_a_connection_that_ended_is_replaced_under_the_same_descriptor() -> None:
    with connected() as (agent, connection, stream):
        fd = connection.fd
        end(connection, stream)
        connection.reconnect()
        assert connection.events() == ["connected"] and connection.events() == []
        assert connection.fd == fd and connection.send([b"hello"])
        again = agent.accept()
        again.wait(5.0)
        assert again.receive() == [b"hello"]
        again.send([b"welcome"])
        select.select([fd], [], [], 5.0)
        assert connection.receive() == [b"welcome"]
        again.close()


def test_a_wait_is_told_again_behind_the_first_message() -> None:
    with connected() as (agent, connection, stream):
        connection.tell_wait(BLOCKED)
        end(connection, stream)
        connection.tell_wait(UNBLOCKED)
        connection.tell_wait(BLOCKED)
        connection.reconnect()
        connection.send([b"hello"])
        connection.send([b"more"])
        again = agent.accept()
        again.wait(5.0)
        assert [again.receive() for _ in range(4)] == [[b"hello"], [BLOCKED], [b"more"], None]
        again.close()


def test_while_the_agent_is_out_of_reach_polling_finds_nothing() -> None:
    with connected() as (agent, connection, stream):
        agent.listening.close()
        end(connection, stream)
        for _ in range(3):
            connection.reconnect()
            assert connection.events() == ["ended"] and not is_readable(connection)
            assert "Cannot reach the agent of this task" in connection.obstacle
            assert connection.receive() is None and not connection.send([b"lost"])
        agent.listen()
        connection.reconnect()
        assert connection.events() == ["connected"] and not connection.obstacle
        agent.accept().close()


def own_sockets() -> set[str]:
    """The names of all sockets of this process. Those of other tests may be closed at any time, by a collection."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {name for name in found if name.startswith("socket:")}


@pytest.mark.parametrize("has_ended", [False, True])
def test_closing_leaves_no_descriptor(has_ended: bool) -> None:
    before = own_sockets()
    with connected() as (_, connection, stream):
        if has_ended:
            end(connection, stream)
    assert own_sockets() <= before
