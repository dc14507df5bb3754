"""Peers of a scheduler with keys that have not authenticated: who gets in, and what the others may cost."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from scaler_protocol import keys
from scaler_protocol.ids import new_session
from scaler_protocol.key_files import generate
from scaler_protocol.messages import HELLO_LIMIT_BYTES, Role
from scaler_protocol.transport import unauthenticated, zmtp
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.router_socket import RouterSocket
from tests.support.served_router import ServedRouter
from tests.support.waiting import wait_until
from tests.support.zmtp import has_ended, send_some

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="servers run on Linux")

Closing = Callable[[Any], Any]
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


class Served(ServedRouter):
    """A served router with keys, and peers that connect to it."""

    def connect(self, word: bytes = b"") -> socket.socket:
        host, port = self.address.removeprefix("tcp://").split(":")
        connection = socket.create_connection((host, int(port)), timeout=10)
        connection.sendall(word)
        connection.setblocking(False)
        return connection


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generate(tmp_path / "keys", new_key_pair)
    (tmp_path / "keys" / "admin.key").unlink()
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def served(context: Any, closing: Closing, directory: Path) -> Served:
    return Served(closing(RouterSocket(context)))


def dealer_with(context: Any, served: Served, secret: bytes | None) -> DealerConnection:
    """A peer whose secret key is this one, or that of submit.key."""
    listed = keys.client_keys

    def choose(address: Any) -> Any:
        chosen = listed(address)
        assert chosen is not None
        return chosen if secret is None else keys.PeerKeys(secret, chosen.server_public)

    return DealerConnection(context, served.address, new_session(), choose)


# ---- who has no key --------------------------------------------------------------------------------------------------


def test_a_key_that_is_not_known_gets_no_byte_through(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, new_key_pair()[1]))
    events: list[str] = []
    served.until(lambda: events.extend(dealer.connection_events()) or "key_refused" in events)
    assert "connected" not in events and not dealer.send([b"x"])
    assert "does not know this key, or it has expired" in dealer.obstacle
    assert served.first == [] and served.messages == []


def test_a_key_that_becomes_known_is_let_in(context: Any, closing: Closing, served: Served, directory: Path) -> None:
    public, secret = new_key_pair()
    dealer = closing(dealer_with(context, served, secret))
    served.until(lambda: "key_refused" in dealer.connection_events())
    (directory / "submit-late.pub").write_bytes(public)
    dealer.reconnect()
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([b"hello"]) and dealer.obstacle == ""
    served.until(lambda: served.first)


def test_a_new_key_is_read_when_it_connects_again(
    context: Any, closing: Closing, served: Served, directory: Path
) -> None:
    """The file of a peer's key may be replaced while it runs."""
    good = (directory / "submit.key").read_bytes()
    (directory / "submit.key").write_bytes(new_key_pair()[1])
    dealer = closing(DealerConnection(context, served.address, new_session()))
    served.until(lambda: "key_refused" in dealer.connection_events())
    (directory / "submit.key").write_bytes(good)
    dealer.reconnect()
    served.until(lambda: "connected" in dealer.connection_events())


def test_a_new_key_of_the_server_is_read_after_handshakes_that_fail(
    context: Any, closing: Closing, served: Served, directory: Path
) -> None:
    """The scheduler's key was replaced before its public half reached this host."""
    good = (directory / "scheduler.pub").read_bytes()
    (directory / "scheduler.pub").write_bytes(new_key_pair()[0])
    dealer = closing(DealerConnection(context, served.address, new_session()))
    served.until(lambda: "handshake_failed" in dealer.connection_events())
    (directory / "scheduler.pub").write_bytes(good)
    served.until(lambda: "connected" in dealer.connection_events())


def test_whoever_began_with_keys_never_speaks_without(
    context: Any, closing: Closing, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a process may change while it runs."""
    router = closing(RouterSocket(context))
    served = Served(router)
    dealer = closing(DealerConnection(context, served.address, new_session()))
    served.until(lambda: "connected" in dealer.connection_events())
    monkeypatch.delenv("SCALER_KEYS")
    dealer.reconnect()
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.stream is not None and dealer.stream.is_ready


def test_another_server_key_is_told(context: Any, closing: Closing, served: Served, directory: Path) -> None:
    (directory / "scheduler.pub").write_bytes(new_key_pair()[0])
    dealer = closing(DealerConnection(context, served.address, new_session()))
    served.until(lambda: dealer.connection_events() is None or dealer.obstacle, 20)
    assert "differs from scheduler.pub" in dealer.obstacle


@pytest.mark.parametrize("word", [b"", b"\xff", GREETING, GREETING + b"\x06" + bytes(8)])
def test_who_never_ends_its_handshake_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
    monkeypatch.setattr(unauthenticated, "HANDSHAKE_SECONDS_LIMIT", 0.3)
    with served.connect(word) as connection:
        served.until(lambda: has_ended(connection))


def test_of_too_many_the_oldest_goes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "COUNT_LIMIT", 5)
    monkeypatch.setattr(unauthenticated, "GRACE_SECONDS", 0.0)
    several = [served.connect() for _ in range(8)]
    served.until(lambda: [has_ended(each) for each in several] == [True] * 3 + [False] * 5)
    for each in several:
        each.close()


def test_of_too_many_at_once_the_last_have_to_come_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "COUNT_LIMIT", 5)
    several = [served.connect() for _ in range(8)]
    served.until(lambda: [has_ended(each) for each in several] == [False] * 5 + [True] * 3)
    for each in several:
        each.close()


def test_many_at_once_leave_memory_flat(served: Served) -> None:
    before = psutil.Process().memory_info().rss
    several: list[socket.socket] = []
    for _ in range(1500):
        several.append(served.connect(GREETING))
        served.serve()
    assert psutil.Process().memory_info().rss - before < 64e6
    for each in several:
        each.close()


# ---- who has one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [[b"two", b"frames"], [bytes(HELLO_LIMIT_BYTES)] * 3 + [b""]])
def test_with_a_key_only_a_hello_is_taken_in(
    context: Any, closing: Closing, served: Served, message: list[bytes]
) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send(message) and dealer.send([b"hello"])
    served.until(lambda: served.first and served.first[-1][1] == [b"hello"])
    assert [frames for _, frames, _ in served.first] == [[], [b"hello"]]


def test_with_a_key_a_long_frame_ends_the_connection(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([bytes(HELLO_LIMIT_BYTES)])
    served.until(lambda: served.first)
    assert dealer.send([bytes(HELLO_LIMIT_BYTES + 1)])
    served.until(lambda: "disconnected" in dealer.connection_events())
    assert len(served.first) == 1


def test_with_a_key_a_peer_that_is_not_admitted_is_bounded(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    sent = 0
    while "disconnected" not in dealer.connection_events():
        sent += 16_000 * dealer.send([bytes(8_000)] * 2)
        served.serve()
        assert sent < 4 * zmtp.SKIPPED_LIMIT_BYTES


def test_a_peer_names_its_user_from_its_first_message_on(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([b"hello"])
    served.until(lambda: served.first)
    [(peer, frames, user)] = served.first
    assert frames == [b"hello"] and keys.role_of_user(user) == Role.SUBMIT
    served.router.admit(peer)
    assert dealer.send([b"more"])
    wait_until(lambda: [(peer, [b"more"], user)] == served.router.receive_many(10))


def test_nobody_takes_a_peers_place_before_it_is_admitted(context: Any, closing: Closing, served: Served) -> None:
    session = new_session()
    peer, other = (closing(DealerConnection(context, served.address, session)) for _ in range(2))
    served.until(lambda: "connected" in peer.connection_events())
    assert peer.send([b"hello"])
    served.until(lambda: served.first)
    served.router.admit(session)
    served.until(lambda: "connected" in other.connection_events())
    assert other.send([b"hello"]) and peer.send([b"still here"])
    served.until(lambda: len(served.first) == 2 and served.messages == [(session, [b"still here"])])


def test_a_refusal_is_not_for_the_peer_whose_place_was_claimed(context: Any, closing: Closing, served: Served) -> None:
    """The claimant may have gone before it is answered."""
    session = new_session()
    peer, other = (closing(DealerConnection(context, served.address, session)) for _ in range(2))
    served.until(lambda: "connected" in peer.connection_events())
    assert peer.send([b"hello"])
    served.until(lambda: served.first)
    served.router.admit(session)
    served.until(lambda: "connected" in other.connection_events())
    assert other.send([b"hello"])
    served.until(lambda: len(served.first) == 2)
    other.close()
    answers: list[str] = []
    wait_until(lambda: answers.append(served.router.answer(session, [b"refused"])) or answers[-1] == "gone")
    served.router.send(session, [b"not refused"])
    assert wait_until(lambda: peer.connection_events() is None or peer.receive()) == [b"not refused"]


def test_whoever_is_admitted_sends_what_it_likes(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([b"hello"])
    served.until(lambda: served.first)
    served.router.admit(served.first[0][0])
    for count in range(1, 6):
        assert dealer.send([bytes(1_000_000), b"x"])
        served.until(lambda count=count: dealer.receive() is None and len(served.messages) == count)


def test_a_peer_can_be_disconnected(context: Any, closing: Closing, served: Served) -> None:
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([b"hello"])
    [(peer, _, _)] = served.until(lambda: served.first)
    served.router.admit(peer)
    served.router.disconnect(b"nobody")
    served.router.disconnect(peer)
    served.until(lambda: "disconnected" in dealer.connection_events())


def test_no_descriptor_is_left(context: Any, served: Served) -> None:
    served.serve()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        with served.connect(b"GET / HTTP/1.1\r\n\r\n") as connection:
            if number % 4 == 0:
                served.until(lambda connection=connection: has_ended(connection))
    served.until(lambda: len(os.listdir("/proc/self/fd")) == before)


def test_nobody_connects_before_it_listens(context: Any, closing: Closing, directory: Path) -> None:
    """What the owner still has to start may need descriptors."""
    router = closing(RouterSocket(context))
    address = router.reserve("tcp://127.0.0.1:0")
    port = int(address.rsplit(":", 1)[1])
    with socket.socket() as early:
        assert early.connect_ex(("127.0.0.1", port)) != 0
    router.listen()
    served = Served.__new__(Served)
    served.router, served.address, served.first, served.messages = router, address, [], []
    dealer = closing(dealer_with(context, served, None))
    served.until(lambda: "connected" in dealer.connection_events())
    with pytest.raises(OSError, match="another process already listens there"):
        closing(RouterSocket(zmq.Context.instance())).bind(address)


def test_what_is_sent_by_hand_is_no_handshake(served: Served) -> None:
    with served.connect(GREETING + b"\x04\x50" + bytes(80)) as connection:
        served.until(lambda: send_some(connection, b"x") == 0 or has_ended(connection))
