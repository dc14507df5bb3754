"""Whose a socket is, as the kernel says."""

from __future__ import annotations

import encodings.idna  # noqa: F401  a child that has become another user cannot import it any more
import os
import socket
import sys

import pytest

from scaler_protocol.transport import socket_owner
from scaler_protocol.transport.socket_owner import PeerOwners, credentials_of, is_foreign, is_trusted, owner_of_listener
from tests.support.ports import free_port
from tests.support.users import NOBODY, another_user, needs_root

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@pytest.fixture(params=["netlink", "proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "proc":
        monkeypatch.setattr(socket_owner, "_netlink", lambda: None)
    return str(request.param)


@pytest.mark.parametrize(
    ("bound", "asked"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1"), ("::", "::1"), ("::", "127.0.0.1")],
)
def test_our_own_listener(way: str, bound: str, asked: str) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    both = bound == "::" and socket.has_dualstack_ipv6()
    with socket.create_server((bound, 0), family=family, dualstack_ipv6=both) as listener:
        assert owner_of_listener(asked, listener.getsockname()[1]) == os.geteuid()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nothing_listens(way: str, host: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        owner_of_listener(host, free_port())


def test_who_is_bound_and_does_not_listen_is_no_listener(way: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            owner_of_listener("127.0.0.1", bound.getsockname()[1])


@needs_root
def test_another_users_listener(way: str) -> None:
    port = free_port()
    with another_user(lambda: socket.create_server(("127.0.0.1", port))):
        assert owner_of_listener("127.0.0.1", port) == NOBODY


@needs_root
def test_the_most_specific_listener_counts(way: str) -> None:
    """It is the one that a connection reaches."""
    port = free_port()
    with another_user(lambda: socket.create_server(("127.0.0.2", port))):
        with socket.create_server(("127.0.0.1", port)):
            assert owner_of_listener("127.0.0.1", port) == 0
            assert owner_of_listener("127.0.0.2", port) == NOBODY


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_other_end_of_a_connection(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        with socket.create_connection(listener.getsockname()[:2]) as ours, listener.accept()[0] as accepted:
            owners = PeerOwners()
            assert owners.owner(accepted, ours.getsockname()[:2]) == os.geteuid()
            owners.close()


@needs_root
def test_another_user_at_the_other_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with another_user(lambda: socket.create_connection(listener.getsockname())):
            accepted, address = listener.accept()
            owners = PeerOwners()
            with accepted:
                assert owners.owner(accepted, address) == NOBODY
            owners.close()


def test_where_the_kernel_does_not_answer_an_owner_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that may not use netlink."""
    monkeypatch.setattr(socket_owner, "_netlink", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as ours, listener.accept()[0] as accepted:
            assert PeerOwners().owner(accepted, ours.getsockname()) is None
        monkeypatch.setattr(socket_owner, "_sockets", lambda: iter([("broken",)]))
        assert owner_of_listener("127.0.0.1", listener.getsockname()[1]) is None


def test_a_user_that_this_namespace_does_not_know_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows all of them under one number."""
    monkeypatch.setattr(socket_owner, "_sees_all_users", lambda: False)
    assert socket_owner._seen(NOBODY) is None and not is_foreign(NOBODY)
    monkeypatch.setattr(socket_owner, "_sees_all_users", lambda: True)
    assert socket_owner._seen(NOBODY) == NOBODY and is_foreign(NOBODY) is (os.geteuid() != NOBODY)


def test_who_is_trusted() -> None:
    assert is_trusted(os.geteuid()) and is_trusted(0) and is_trusted(None)
    assert not is_trusted(os.geteuid() + 1)


def test_credentials_of_a_unix_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert credentials_of(one) == (os.getpid(), os.geteuid())
