"""Who connects to a store and does not say who it is, or says what cannot be. Those that are inside do not notice."""

from __future__ import annotations

import os
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from scaler_protocol.codec import encode
from scaler_protocol.handshake import make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.messages import HELLO_LIMIT_BYTES, Envelope, ObjectKey, Role, StoreSettings
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import StoreFull, StoreUnavailable
from scaler_protocol.objects.names import peer_process, socket_name
from scaler_protocol.transport.framing import SIZE_LIMIT_BYTES, pack
from scaler_protocol.transport.pending_handshakes import COUNT_LIMIT
from tests.unit.objects.conftest import Connect

KEY = ObjectKey(b"an owner of it..", 1)
OTHER_USER = 65534


@pytest.fixture
def inside(connect: Connect) -> StoreConnection:
    connection = connect()
    connection.connect()
    return connection


@pytest.fixture
def store(cluster: bytes, inside: StoreConnection) -> psutil.Process:
    with knock(cluster) as connected:
        return psutil.Process(peer_process(connected))


def knock(cluster: bytes) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.connect("\0" + socket_name(cluster)[1:])
    connected.settimeout(30)
    return connected


def works(connection: StoreConnection, size: int = 100_000) -> bool:
    data = os.urandom(size)
    connection.put(KEY, data)
    found = bytes(connection.get(KEY, 30))
    connection.drop([KEY])
    return found == data


def is_cut_off(connected: socket.socket) -> bool:
    while True:
        try:
            if not connected.recv(65536):
                return True
        except ConnectionResetError:
            return True


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_silent_connections_are_bounded_in_number(
    cluster: bytes, inside: StoreConnection, store: psutil.Process, many_descriptors: None
) -> None:
    before = store.num_fds()
    with ExitStack() as opened:
        silent = [opened.enter_context(knock(cluster)) for _ in range(COUNT_LIMIT + 200)]
        assert is_cut_off(silent[0])
        assert store.num_fds() <= before + COUNT_LIMIT + 1  # one is accepted before the oldest goes
        assert works(inside)
        newcomer = StoreConnection(cluster, may_start=False)
        assert works(newcomer)
        newcomer.close()


FIRST_MESSAGES = {
    "a long one, announced": struct.pack("<IHI", HELLO_LIMIT_BYTES + 1, 1, HELLO_LIMIT_BYTES - 5),
    "the longest, announced": struct.pack("<IHI", SIZE_LIMIT_BYTES, 1, SIZE_LIMIT_BYTES - 6),
    "garbage": b"\xff" * 100,
    "another message than Hello": pack(encode(Envelope(StoreSettings(1, "/", "")))),
    "something else than a message": pack([b"GET / HTTP/1.1"]),
    "the Hello of a stranger": pack(encode(Envelope(make_hello(Role.WORK, new_session())))),
}


@pytest.mark.parametrize("first", FIRST_MESSAGES)
def test_who_does_not_begin_with_a_short_and_right_hello_is_cut_off(
    first: str, cluster: bytes, inside: StoreConnection
) -> None:
    with knock(cluster) as connected:
        connected.sendall(FIRST_MESSAGES[first])
        assert is_cut_off(connected)
    assert works(inside)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_flood_is_not_listened_to(cluster: bytes, inside: StoreConnection, store: psutil.Process) -> None:
    before = store.num_fds()
    flooding = os.fork()
    if flooding == 0:
        try:
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            while True:
                with knock_as(cluster) as connected:
                    connected.send(b"\xff" * 1000)
        finally:
            os._exit(0)
    try:
        for _ in range(200):
            assert works(inside, 1_000_000)
        assert store.num_fds() <= before + 70
    finally:
        os.kill(flooding, 9)
        os.waitpid(flooding, 0)


def knock_as(cluster: bytes) -> socket.socket:
    """As ``knock`` by a user whose store this is not."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.connect(f"\0scaler-store-0-{cluster.hex()}")
    return connected


def test_without_descriptors_a_store_goes_on_and_says_so_to_who_comes(cluster: bytes, store: psutil.Process) -> None:
    agent = AgentConnection.open(cluster, StoreSettings(0, "", ""))
    inside = StoreConnection(cluster, may_start=False)
    assert works(inside)
    limits = store.rlimit(psutil.RLIMIT_NOFILE)
    store.rlimit(psutil.RLIMIT_NOFILE, (store.num_fds(), limits[1]))
    with pytest.raises(StoreUnavailable, match="cannot accept connections: Too many open files"):
        StoreConnection(cluster, may_start=True).connect()
    assert works(inside)
    with pytest.raises(StoreFull, match="Too many open files"):
        inside.put(KEY, bytes(80_000_000))  # needs a segment of its own
    assert works(inside)
    store.rlimit(psutil.RLIMIT_NOFILE, limits)
    assert works(inside, 80_000_000)
    late = StoreConnection(cluster, may_start=False)
    assert works(late)
    for each in (agent, inside, late):
        each.close()
