"""The kernel drops new connections from the addresses that it is told, and leaves the others alone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from scaler_protocol.transport import connection_filter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="servers run on Linux")

UNANSWERED_SECONDS = 0.3
ADDRESSES = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


@pytest.fixture(params=["127.0.0.1", "::"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """The second one accepts IPv4 and IPv6."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with closing(socket.create_server((request.param, 0), family=family, dualstack_ipv6=":" in request.param)) as made:
        yield made


def connects(listening: socket.socket, source: str) -> bool:
    target = "::1" if ":" in source else "127.0.0.1"
    try:
        with socket.create_connection(
            (target, listening.getsockname()[1]), timeout=UNANSWERED_SECONDS, source_address=(source, 0)
        ) as connection:
            accepted, _ = listening.accept()
            with accepted:
                accepted.sendall(b"through")
                return connection.recv(7) == b"through"
    except TimeoutError:
        return False


def test_only_connections_from_the_addresses_are_dropped(listening: socket.socket) -> None:
    connection_filter.attach(listening.fileno(), ["127.0.0.2", "127.0.0.4"])
    assert [connects(listening, each) for each in ADDRESSES] == [False, True, False]
    connection_filter.attach(listening.fileno(), ["127.0.0.3"])
    assert [connects(listening, each) for each in ADDRESSES] == [True, False, True]
    connection_filter.attach(listening.fileno(), [])
    assert [connects(listening, each) for each in ADDRESSES] == [True, True, True]


def test_an_address_of_version_6(listening: socket.socket) -> None:
    if listening.family != socket.AF_INET6:
        pytest.skip("this socket accepts IPv4 only")
    connection_filter.attach(listening.fileno(), ["::2", "127.0.0.2"])
    assert connects(listening, "::1") and connects(listening, "127.0.0.3") and not connects(listening, "127.0.0.2")
    connection_filter.attach(listening.fileno(), ["127.0.0.2", "::1"])
    assert not connects(listening, "::1") and connects(listening, "127.0.0.3")


def test_more_addresses_than_fit_drop_all(listening: socket.socket) -> None:
    connection_filter.attach(listening.fileno(), [f"10.0.0.{each}" for each in range(connection_filter.ADDRESS_LIMIT)])
    assert connects(listening, "127.0.0.2")
    connection_filter.attach(
        listening.fileno(), [f"10.0.0.{each}" for each in range(connection_filter.ADDRESS_LIMIT + 1)]
    )
    assert not connects(listening, "127.0.0.2")


def test_connections_that_are_open_stay(listening: socket.socket) -> None:
    """They have the filter of their listening socket."""
    connection_filter.attach(listening.fileno(), ["127.0.0.9"])
    address = "127.0.0.1", listening.getsockname()[1]
    with socket.create_connection(address, source_address=("127.0.0.2", 0)) as connection:
        accepted, _ = listening.accept()
        with accepted:
            connection_filter.attach(listening.fileno(), ["127.0.0.2"])
            accepted.sendall(b"still")
            assert connection.recv(5) == b"still"
