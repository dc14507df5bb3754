"""Connections to a scheduler on another host, without keys: TCP without libzmq."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.transport import remote_route, zmtp_listener
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.remote_route import SchedulerHost
from scaler_protocol.transport.socket_options import set_options
from tests.support.ports import free_address
from tests.support.routers import OpenRouter
from tests.support.waiting import wait_until

Closing = Callable[[Any], Any]

SESSION = b"a far peer".ljust(16)
LOST_SECONDS = 4.0


@pytest.fixture(autouse=True)
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if loopback addresses were those of another host."""
    monkeypatch.setattr(Address, "is_local", property(lambda address: False))


@pytest.fixture
def router(context: Any, closing: Closing) -> OpenRouter:
    router: OpenRouter = closing(OpenRouter(context))
    router.address = router.bind("tcp://127.0.0.1:0")  # type: ignore[attr-defined]
    return router


def connected(context: Any, closing: Closing, router: Any) -> DealerConnection:
    dealer: DealerConnection = closing(DealerConnection(context, router.address, SESSION))
    wait_until(lambda: router.receive() is None and "connected" in dealer.connection_events())
    wait_until(lambda: router.receive() is None and router.probe(SESSION))
    return dealer


def test_messages_travel_both_ways_without_libzmq(context: Any, closing: Closing, router: Any) -> None:
    dealer = connected(context, closing, router)
    assert dealer.stream is not None and dealer.stream.fd >= 0
    assert dealer.send([b"question", bytes(100_000)])
    peer, frames = wait_until(router.receive)
    assert (peer, frames[0]) == (SESSION, b"question")
    assert router.send(SESSION, [b"answer"]) == "sent"
    assert wait_until(lambda: select.select([dealer.fd], [], [], 1)[0] and dealer.receive()) == [b"answer"]


def test_a_peer_that_answers_nothing_stays_while_its_kernel_does(context: Any, closing: Closing, router: Any) -> None:
    dealer = connected(context, closing, router)
    until = time.monotonic() + (zmtp_listener.SILENT_BEATS_LIMIT + 3) * zmtp_listener.BEAT_SECONDS
    while time.monotonic() < until:
        router.receive()
        assert not router.disconnected_events()
        time.sleep(0.05)
    assert router.send(SESSION, [b"still there"]) == "sent"
    assert wait_until(dealer.receive) == [b"still there"]


def test_a_scheduler_that_stands_still_is_given_up(context: Any, closing: Closing, router: Any) -> None:
    dealer = connected(context, closing, router)
    wait_until(lambda: dealer.receive() or "disconnected" in dealer.connection_events(), 20)


def test_a_scheduler_that_says_nothing_but_answers_is_kept(context: Any, closing: Closing, router: Any) -> None:
    dealer = connected(context, closing, router)
    until = time.monotonic() + LOST_SECONDS
    while time.monotonic() < until:
        router.receive()
        assert dealer.receive() is None and not dealer.connection_events()
        time.sleep(0.05)


def test_a_peer_connects_when_a_scheduler_listens(context: Any, closing: Closing) -> None:
    free_place = free_address()
    dealer = closing(DealerConnection(context, free_place, SESSION))
    assert not dealer.connection_events()
    router: Any = closing(OpenRouter(context))
    router.bind(free_place)
    wait_until(lambda: router.receive() is None and "connected" in dealer.connection_events())


def test_libzmq_at_the_other_end_will_do(context: Any, closing: Closing) -> None:
    theirs = closing(context.socket(zmq.ROUTER))
    set_options(theirs)
    port = theirs.bind_to_random_port("tcp://127.0.0.1")
    dealer = closing(DealerConnection(context, f"tcp://127.0.0.1:{port}", SESSION))
    wait_until(lambda: "connected" in dealer.connection_events())
    assert dealer.send([b"to libzmq"])
    assert theirs.recv_multipart() == [SESSION, b"to libzmq"]
    until = time.monotonic() + LOST_SECONDS
    while time.monotonic() < until:
        assert dealer.receive() is None and not dealer.connection_events()
        time.sleep(0.05)


def test_an_other_end_with_keys_is_an_obstacle(context: Any, closing: Closing) -> None:
    theirs = closing(context.socket(zmq.ROUTER))
    theirs.curve_server = True
    theirs.curve_secretkey = zmq.curve_keypair()[1]
    port = theirs.bind_to_random_port("tcp://127.0.0.1")
    dealer = closing(DealerConnection(context, f"tcp://127.0.0.1:{port}", SESSION))
    wait_until(lambda: dealer.connection_events() is not None and dealer.obstacle)
    assert "each handshake fails" in dealer.obstacle


def test_a_forked_child_does_not_keep_the_connection_open(context: Any, closing: Closing, router: Any) -> None:
    dealer = connected(context, closing, router)
    child = os.fork()
    if not child:
        time.sleep(30)
        os._exit(0)
    try:
        dealer.close()
        assert wait_until(lambda: router.receive() or router.disconnected_events()) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_name_is_looked_up_whenever_all_its_addresses_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, 0, 0, "", ("127.0.0.1", port))] * 2

    monkeypatch.setattr(remote_route.socket, "getaddrinfo", look_up)
    host = SchedulerHost(parse_address("tcp://scheduler.example:9"))
    tried: list[socket.socket] = []
    connect: Callable[[], socket.socket | None] = host.connect
    while len(tried) < 4:
        connecting = connect()
        if connecting is not None:
            tried.append(connecting)
    assert asked == ["scheduler.example"] * 2
    for each in tried:
        each.close()
