"""Another process has the name of the store: it costs time once, and calls go on without a store."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects import starting
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.names import cluster_id, socket_name


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "TAKEN_SECONDS", 0.1)


@pytest.fixture
def taken(cluster: bytes) -> Iterator[socket.socket]:
    """A socket that has the name of the store, but does not listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        bound.bind("\0" + socket_name(cluster)[1:])
        yield bound


def fail_to_connect(cluster: bytes) -> str:
    connection = StoreConnection(cluster, may_start=True)
    try:
        with pytest.raises(StoreUnavailable) as caught:
            connection.put(ObjectKey(b"an owner of it..", 1), b"x")
        return str(caught.value)
    finally:
        connection.close()


def test_a_name_that_is_taken_and_does_not_listen_is_not_waited_for(cluster: bytes, taken: socket.socket) -> None:
    assert "does not listen" in fail_to_connect(cluster)


def test_a_listener_that_does_not_accept_is_not_waited_for(cluster: bytes, taken: socket.socket) -> None:
    taken.listen(0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as waiting:
        waiting.connect(taken.getsockname())  # more than one has no room
        assert "does not accept" in fail_to_connect(cluster)


def test_a_listener_that_ends_each_connection_is_not_said_to_be_absent(cluster: bytes, taken: socket.socket) -> None:
    taken.listen()
    with ended_connections(taken):
        assert "ends each connection" in fail_to_connect(cluster)


@contextmanager
def ended_connections(listening: socket.socket) -> Iterator[None]:
    def serve() -> None:
        while (connected := listening.accept()[0]) and connected.recv(1):
            connected.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(listening.getsockname())
        thread.join()


def test_a_taken_name_costs_time_once(cluster: bytes, taken: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    why = fail_to_connect(cluster)
    monkeypatch.delattr(starting, "_reach")
    assert fail_to_connect(cluster) == why


def test_a_name_that_has_become_free_is_used_later(
    cluster: bytes, taken: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "AVOID_SECONDS", 0.0)
    fail_to_connect(cluster)
    taken.close()
    connection = StoreConnection(cluster, may_start=True)
    assert connection.put(ObjectKey(b"an owner of it..", 1), b"x") == 1
    connection.close()


def test_no_one_without_the_token_can_compute_the_name() -> None:
    place = "tcp://127.0.0.1:2345", "host", str(os.getuid())
    assert len({cluster_id(*place, token) for token in (b"", b"a" * 64, b"b" * 64)}) == 3
    assert cluster_id(*place, b"a" * 64) == cluster_id(*place, b"a" * 64)
