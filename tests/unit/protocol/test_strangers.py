"""Who connects over the network and never says who he is: he may not fill this process' memory, nor stay for ever."""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler_protocol import keys
from scaler_protocol.ids import new_session
from scaler_protocol.transport import strangers
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.doorkeeper import new_key_pair
from scaler_protocol.transport.router_socket import RouterSocket
from tests.support.waiting import wait_until
from tests.support.zmtp import greet, has_ended, send_some

pytestmark = [
    pytest.mark.usefixtures("token"),
    pytest.mark.skipif(sys.platform != "linux", reason="servers run on Linux"),
]

Closing = Callable[[Any], Any]
MORE_FRAMES = b"\x01\x00" * 50_000
"""Empty ones, of a message without an end."""


class Served:
    """A router whose owner welcomes nobody but those he is told to."""

    def __init__(self, router: RouterSocket) -> None:
        self.router = router
        self.address = router.bind("tcp://127.0.0.1:0")
        self.messages: list[tuple[bytes, list[bytes]]] = []

    def serve(self) -> None:
        ready = select.select([self.router.fd, self.router.monitor_fd], [], [], 0.01)[0]
        if self.router.monitor_fd in ready:
            self.router.disconnected_events()
        while message := self.router.receive():
            self.messages.append(message)

    def until(self, predicate: Callable[[], Any], seconds: float = 10.0) -> Any:
        return wait_until(lambda: self.serve() or predicate(), seconds)


@pytest.fixture
def served(context: Any, closing: Closing) -> Served:
    return Served(closing(RouterSocket(context)))


@pytest.fixture
def stranger(served: Served) -> Iterator[socket.socket]:
    with greet(served.address) as connection:
        connection.setblocking(False)
        yield connection


def connect(served: Served) -> socket.socket:
    host, port = served.address.removeprefix("tcp://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.setblocking(False)
    return connection


def flood(served: Served, connection: socket.socket, data: bytes) -> None:
    """Until it is cut off, before it has sent much more than it may."""
    sent = 0
    while not has_ended(connection):
        sent += send_some(connection, data)
        assert sent < 10 * strangers.BYTES_LIMIT
        served.serve()


def test_a_message_without_an_end_is_cut_off(served: Served, stranger: socket.socket) -> None:
    before = psutil.Process().memory_info().rss
    flood(served, stranger, MORE_FRAMES)
    assert psutil.Process().memory_info().rss - before < 500e6
    assert served.messages == []


def test_messages_of_somebody_who_is_not_welcome_are_cut_off(served: Served, stranger: socket.socket) -> None:
    flood(served, stranger, (b"\x00\xff" + bytes(255)) * 1000)


def test_who_is_welcome_sends_what_he_likes(served: Served, stranger: socket.socket) -> None:
    stranger.setblocking(True)
    stranger.sendall(b"\x00\x05hello")
    [(peer, _)] = served.until(lambda: served.messages)
    served.router.welcome(peer)
    payload = bytes(1_000_000)
    for number in range(2, 2 * strangers.BYTES_LIMIT // len(payload) + 10):
        stranger.sendall(b"\x02" + len(payload).to_bytes(8, "big") + payload)
        served.until(lambda number=number: len(served.messages) == number)


def test_who_comes_back_is_a_stranger_again(served: Served, stranger: socket.socket) -> None:
    stranger.sendall(b"\x00\x05hello")
    [(peer, _)] = served.until(lambda: served.messages)
    served.router.welcome(peer)
    stranger.close()
    served.until(lambda: not served.router.probe(peer))
    with greet(served.address) as again:
        again.setblocking(False)
        flood(served, again, MORE_FRAMES)


@pytest.mark.parametrize("word", [b"", b"\xff", b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0")])
def test_who_never_ends_his_greeting_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
    monkeypatch.setattr(strangers, "SECONDS_LIMIT", 0.3)
    with connect(served) as connection:
        connection.send(word)
        served.until(lambda: has_ended(connection))


def test_who_keeps_his_connection_alive_and_says_nothing_is_cut_off(
    served: Served, stranger: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "SECONDS_LIMIT", 0.5)
    served.until(lambda: (send_some(stranger, b"\x04\x07\x04PING\x00\x00"), has_ended(stranger))[1])


def test_of_too_many_the_oldest_goes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "COUNT_LIMIT", 5)
    monkeypatch.setattr(strangers, "GRACE_SECONDS", 0.0)
    several = [connect(served) for _ in range(8)]
    served.until(lambda: [has_ended(each) for each in several] == [True] * 3 + [False] * 5)
    for each in several:
        each.close()


def test_of_too_many_at_once_the_last_have_to_come_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "COUNT_LIMIT", 5)
    several = [connect(served) for _ in range(8)]
    served.until(lambda: [has_ended(each) for each in several] == [False] * 5 + [True] * 3)
    for each in several:
        each.close()


def test_of_many_who_together_send_too_much_those_with_most_go(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "TOTAL_BYTES_LIMIT", 500_000)
    several = [greet(served.address) for _ in range(4)]
    for number, each in enumerate(several):
        each.setblocking(False)
        send_some(each, b"\x01\x00" * 50_000 * (number + 1))
    served.until(lambda: has_ended(several[-1]))
    assert not has_ended(several[0])
    for each in several:
        each.close()


def test_no_descriptor_is_left(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "SECONDS_LIMIT", 0.1)
    served.serve()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        with connect(served) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if number % 4 == 0:
                served.until(lambda connection=connection: has_ended(connection))
    served.until(lambda: len(os.listdir("/proc/self/fd")) == before)


def test_a_key_that_is_not_on_the_list_is_bounded_as_well(
    context: Any, closing: Closing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler lets it in, to tell it in words that it is not."""
    keys.generate(tmp_path / "keys", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    served = Served(closing(RouterSocket(context)))
    public, secret = new_key_pair()
    listed = keys.client_keys

    def unlisted(address: Any) -> Any:
        chosen = listed(address)
        assert chosen is not None
        return keys.PeerKeys(secret, public, chosen.server_public)

    dealer = closing(DealerConnection(context, served.address, new_session(), unlisted))
    served.until(lambda: "connected" in dealer.connection_events())
    served.until(lambda: dealer.send([b""] * 1000) and "disconnected" in dealer.connection_events(), 30)
