"""Stores that fetch from one another prove who they are."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler_protocol.codec import decode, encode
from scaler_protocol.key_files import generate
from scaler_protocol.messages import Challenge, Envelope, Hello, ObjectChunk, ObjectKey, ObjectRequest, Welcome
from scaler_protocol.objects.arrival import CUT, GONE
from scaler_protocol.objects.exchange import Exchange
from scaler_protocol.objects.source import RemoteStore
from scaler_protocol.security import ensure_token
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.support.routers import OpenRouter
from tests.support.waiting import wait_until

Heard = tuple[list[Any], list[Any]]
KEY = ObjectKey(b"owner of objects", 1)


@pytest.fixture(autouse=True)
def token() -> None:
    ensure_token()


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    exchange = Exchange(b"s" * 16)
    yield exchange
    exchange.close()


@pytest.fixture
def source_of() -> Iterator[Callable[[str], RemoteStore]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sources: list[RemoteStore] = []

    def make(endpoint: str) -> RemoteStore:
        sources.append(RemoteStore(context, endpoint))
        return sources[-1]

    yield make
    for each in sources:
        each.close()
    context.term()


def meet(
    exchange: Exchange, source: RemoteStore, until: Callable[[list[Any], list[Any]], Any]
) -> tuple[list[Any], list[Any]]:
    """What the serving end and the fetching one have heard when that holds."""
    there: list[Any] = []
    here: list[Any] = []

    def look() -> bool:
        there.extend(each.body for each in exchange.receive())
        here.extend(source.bodies())
        return bool(until(there, here))

    wait_until(look, 10)
    return there, here


def test_both_ends_know_the_ticket(exchange: Exchange, source_of: Callable[[str], RemoteStore]) -> None:
    source = source_of(exchange.listen("127.0.0.1"))
    there, here = meet(exchange, source, lambda there, here: here)
    assert isinstance(here[0], Welcome) and here[0].session == b"s" * 16 and here[0].proof
    source.send(ObjectRequest(KEY))
    there, _ = meet(exchange, source, lambda there, here: there)
    assert there == [ObjectRequest(KEY)]


def test_whoever_does_not_know_it_is_not_heard(exchange: Exchange, source_of: Callable[[str], RemoteStore]) -> None:
    address = exchange.listen("127.0.0.1").partition("#")[0]
    source = source_of(f"{address}#{'0' * 32}")
    there, here = meet(exchange, source, lambda there, here: GONE in here)
    source.send(ObjectRequest(KEY))
    assert there == [] and exchange.receive() == []


@pytest.mark.parametrize("asks", [True, False])
def test_a_store_that_does_not_know_it_is_not_believed(source_of: Callable[[str], RemoteStore], asks: bool) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = OpenRouter(context)
    source = source_of(router.bind("tcp://127.0.0.1:0") + "#0123")
    heard: list[Any] = []

    def serve() -> bool:
        while message := router.receive():
            hello = decode(message[1]).body
            assert isinstance(hello, Hello) and b"0123" not in message[1][0]
            answers: list[Any] = [Challenge(bytes(32), hello.number)] if asks and not hello.proof else [
                Welcome(b"w" * 16, 1, number=hello.number, proof=bytes(32)), ObjectChunk(KEY, 4, 0, b"evil")
            ]  # fmt: skip
            for each in answers:
                router.send(message[0], encode(Envelope(each)))
        heard.extend(source.bodies())
        return GONE in heard

    try:
        wait_until(serve, 10)
        assert set(heard) == {GONE}
    finally:
        router.close()
        context.term()


def test_when_a_key_is_taken_away_its_connection_ends(
    exchange: Exchange, source_of: Callable[[str], RemoteStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path / "keys", new_key_pair)
    (tmp_path / "keys" / "admin.key").unlink()
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    source = source_of(exchange.listen("127.0.0.1"))
    meet(exchange, source, lambda there, here: here)
    assert exchange.next_deadline() is not None
    (tmp_path / "keys" / "work.pub").rename(tmp_path / "keys" / "gone")
    _, here = meet(exchange, source, lambda there, here: CUT in here)


def test_a_flood_of_others_holds_no_transfer_up(exchange: Exchange, source_of: Callable[[str], RemoteStore]) -> None:
    """Nor does it cost memory: it is the same socket as a scheduler's."""
    import socket

    import psutil

    endpoint = exchange.listen("127.0.0.1")
    source = source_of(endpoint)
    meet(exchange, source, lambda there, here: here)
    host, port = endpoint.partition("#")[0].removeprefix("tcp://").split(":")
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            try:
                with socket.create_connection((host, int(port)), timeout=1) as connection:
                    connection.sendall(os.urandom(100_000))
            except OSError:
                pass

    before = psutil.Process().memory_info().rss
    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            source.send(ObjectRequest(KEY))
            meet(exchange, source, lambda there, here: there)
        assert psutil.Process().memory_info().rss - before < 64e6
    finally:
        stop.set()
        for thread in threads:
            thread.join()
