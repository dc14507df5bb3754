"""Bulk connections between stores: who may open one, what travels on it, and what happens when it breaks."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.key_files import generate
from scaler_protocol.messages import (
    OWNER_SOURCE,
    UPLOAD_NUMBER,
    ObjectKey,
    ObjectRequest,
    ObjectStored,
    StoreFound,
    StoreRefused,
    Welcome,
)
from scaler_protocol.objects.arrival import OPENING
from scaler_protocol.objects.bulk import Bulk, Change
from scaler_protocol.objects.bulk_frames import (
    HEADER_BYTES,
    PIECE_BYTES,
    Bytes,
    Piece,
    pack_header,
    parse_header,
)
from scaler_protocol.objects.bulk_offers import (
    FINGERPRINT_BYTES,
    NAME_BYTES,
    SEALING_KEY_BYTES,
    TOKEN_BYTES,
    Offer,
    can_seal,
    offer_in,
)
from scaler_protocol.objects.certificate import Certificate
from scaler_protocol.objects.exchange import Exchange
from scaler_protocol.objects.push import PushConnection, Pusher
from scaler_protocol.security import ensure_token
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.support.waiting import wait_until
from tests.unit.objects.test_transfers import Host

KEY = ObjectKey(b"owner of objects", 7)
SENT = ObjectKey(b"owner of objects", UPLOAD_NUMBER + 5)
HOST = "127.0.0.1"


class End:
    """Takes and gives the bytes of pieces."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.received_bytes = 0
        self.wants = True
        self.pieces: list[Piece] = []  # that were sent
        self.bulk = Bulk(self)
        self.changes: list[Change] = []

    def target(self, label: str, piece: Piece, done: int) -> memoryview | None:
        return memoryview(self.data)[piece.offset + done : piece.offset + piece.length] if self.wants else None

    def received(self, label: str, piece: Piece, count: int) -> None:
        self.received_bytes += count

    def sent(self, label: str, piece: Piece) -> None:
        self.pieces.append(piece)

    def move(self) -> None:
        self.changes += self.bulk.move()


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    """One listens."""
    pair = End(5 * PIECE_BYTES), End(5 * PIECE_BYTES)
    yield pair
    for end in pair:
        end.bulk.close()


@pytest.fixture(params=["plain", "tls", "sealed"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a connection is encrypted: with TLS where the library for sealing is missing."""
    return use(request.param, monkeypatch)


def use(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "sealed" and not can_seal():
        pytest.skip("cryptography is not installed")
    if kind == "tls":
        monkeypatch.setattr("scaler_protocol.objects.bulk.can_seal", lambda: False)
        monkeypatch.setattr("scaler_protocol.objects.bulk_offers.can_seal", lambda: False)
    return kind


def offer_of(end: End, label: str = "peer:-1") -> Offer:
    offer = offer_in(end.bulk.offer(label))
    assert offer is not None
    return offer


def move_until(ends: tuple[End, End], condition: Callable[[], object]) -> None:
    def look() -> bool:
        for end in ends:
            end.move()
        return bool(condition())

    wait_until(look, 20)


def opened(ends: tuple[End, End]) -> None:
    listener, dialer = ends
    dialer.bulk.dial("tcp://there", HOST, offer_of(listener))
    move_until(ends, lambda: listener.bulk.is_open("peer:-1") and dialer.bulk.is_open("tcp://there"))


def content(size: int) -> tuple[bytes, Bytes]:
    data = os.urandom(size)
    fd = os.memfd_create("test")
    os.write(fd, data)
    return data, Bytes(fd, 0, memoryview(data))


@pytest.mark.parametrize("dialer_sends", [False, True])
def test_pieces_arrive(ends: tuple[End, End], kind: str, dialer_sends: bool) -> None:
    ends[0].bulk.listen(HOST, kind != "plain")
    opened(ends)
    sender, receiver = (ends[1], ends[0]) if dialer_sends else ends
    label = "tcp://there" if dialer_sends else "peer:-1"
    size = 2 * PIECE_BYTES + 17
    data, place = content(size)
    for offset in range(0, size, PIECE_BYTES):
        length = min(PIECE_BYTES, size - offset)
        part = Bytes(place.fd, offset, place.view[offset : offset + length])
        assert sender.bulk.send(label, Piece(KEY, size, offset, length), part)
    move_until(ends, lambda: receiver.received_bytes == size and len(sender.pieces) == 3)
    assert receiver.data[:size] == data
    os.close(place.fd)


def test_what_is_not_wanted_is_discarded(ends: tuple[End, End]) -> None:
    ends[0].bulk.listen(HOST, False)
    opened(ends)
    ends[0].wants = False
    data, place = content(100_000)
    ends[1].bulk.send("tcp://there", Piece(KEY, len(data), 0, len(data)), place)
    move_until(ends, lambda: ends[1].pieces)
    ends[0].wants = True
    ends[1].bulk.send("tcp://there", Piece(KEY, len(data), 0, len(data)), place)
    move_until(ends, lambda: ends[0].received_bytes == len(data))
    assert ends[0].data[: len(data)] == data
    os.close(place.fd)


@pytest.mark.parametrize("wrong", ["name", "token", "fingerprint or key"])
def test_who_knows_only_a_part_of_the_offer_is_not_accepted(ends: tuple[End, End], kind: str, wrong: str) -> None:
    ends[0].bulk.listen(HOST, kind != "plain")
    offer = offer_of(ends[0])
    last = {"key": bytes(SEALING_KEY_BYTES)} if kind == "sealed" else {"fingerprint": bytes(FINGERPRINT_BYTES)}
    changes: dict[str, Any] = {"name": os.urandom(NAME_BYTES), "token": os.urandom(TOKEN_BYTES)}
    offer = replace(offer, **({wrong: changes[wrong]} if wrong in changes else last))
    ends[1].bulk.dial("tcp://there", HOST, offer)
    move_until(ends, lambda: ends[1].changes)
    assert ends[1].changes == [Change("tcp://there", False)] and ends[0].changes == []


def test_an_offer_is_good_for_one_connection(ends: tuple[End, End]) -> None:
    ends[0].bulk.listen(HOST, False)
    offer = offer_of(ends[0])
    for label, is_open in (("one", True), ("two", False)):
        ends[1].bulk.dial(label, HOST, offer)
        move_until(ends, lambda label=label: label in [each.label for each in ends[1].changes])  # type: ignore[misc]
        assert ends[1].changes[-1] == Change(label, is_open)


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_an_offer_that_ends_after_its_name_was_shown_opens_nothing(ends: tuple[End, End], is_withdrawn: bool) -> None:
    ends[0].bulk.listen(HOST, False)
    offer = offer_of(ends[0])
    with socket.create_connection((HOST, offer.port)) as early:
        early.sendall(offer.name)
        early.settimeout(20)
        wait_until(lambda: ends[0].move() or any(each._claimed for each in ends[0].bulk._channels.values()), 20)
        if is_withdrawn:
            ends[0].bulk.withdraw("peer:-1")
        else:
            ends[1].bulk.dial("tcp://there", HOST, offer)
            move_until(ends, lambda: ends[1].bulk.is_open("tcp://there"))
        early.sendall(offer.token)
        move_until(ends, lambda: len(ends[0].bulk._channels) == int(not is_withdrawn))
        assert early.recv(1) == b""
    assert ends[0].bulk.is_open("peer:-1") is not is_withdrawn


def test_a_port_that_does_not_answer_is_given_up(ends: tuple[End, End]) -> None:
    with socket.create_server((HOST, 0)) as silent:
        offer = Offer(silent.getsockname()[1], bytes(NAME_BYTES), bytes(TOKEN_BYTES))
        ends[1].bulk.dial("tcp://there", HOST, offer)
        started = time.monotonic()
        move_until(ends, lambda: ends[1].changes)
    assert ends[1].changes == [Change("tcp://there", False)] and 1 < time.monotonic() - started < 8


@pytest.mark.parametrize("garbage", [b"", b"x" * NAME_BYTES, os.urandom(5000)])
def test_strangers_are_disconnected(ends: tuple[End, End], garbage: bytes) -> None:
    ends[0].bulk.listen(HOST, False)
    port = offer_of(ends[0]).port
    with socket.create_connection((HOST, port)) as stranger:
        stranger.sendall(garbage)
        stranger.shutdown(socket.SHUT_WR)
        stranger.setblocking(False)

        def is_closed() -> bool:
            try:
                return stranger.recv(1) == b""
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

        move_until(ends, is_closed)
    opened(ends)


def test_a_malformed_header_ends_the_connection(ends: tuple[End, End]) -> None:
    ends[0].bulk.listen(HOST, False)
    offer = offer_of(ends[0])
    with socket.create_connection((HOST, offer.port)) as peer:
        peer.sendall(offer.name + offer.token)
        move_until(ends, lambda: ends[0].bulk.is_open("peer:-1"))
        peer.sendall(b"\xff" * HEADER_BYTES)
        move_until(ends, lambda: Change("peer:-1", False) in ends[0].changes)


def test_withdrawn_connections_end(ends: tuple[End, End]) -> None:
    ends[0].bulk.listen(HOST, False)
    opened(ends)
    ends[0].bulk.withdraw("peer:-1")
    move_until(ends, lambda: Change("tcp://there", False) in ends[1].changes)
    assert not ends[1].bulk.send("tcp://there", Piece(KEY, 1, 0, 1), Bytes(0, 0, memoryview(b"x")))


@pytest.mark.parametrize("works", [True, False])
def test_a_source_is_welcome_when_its_bulk_connection_is_open_or_cannot_be(
    monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """Then chunks are asked for."""
    ensure_token()
    if not works:
        with socket.create_server((HOST, 0)) as closed:
            port = closed.getsockname()[1]
        make = Offer.to_feature
        monkeypatch.setattr(Offer, "to_feature", lambda self: make(replace(self, port=port)))
    ends = Exchange(b"s" * 16, End(1)), Exchange(b"t" * 16, End(1))
    endpoint = ends[0].listen(HOST)
    ends[1].open(endpoint)
    heard: tuple[list[Any], list[Any]] = [], []

    def look() -> bool:
        for end, bodies in zip(ends, heard, strict=True):
            bodies.extend(each.body for each in [*end.move_bulk(), *end.receive()])
        return any(isinstance(body, Welcome) for body in heard[1])

    wait_until(look, 20)
    assert heard[1][0] == OPENING
    ends[1].ask(endpoint, ObjectRequest(KEY))
    wait_until(lambda: look() and ObjectRequest(KEY, direct=works) in heard[0], 20)
    for end in ends:
        end.close()


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_headers_are_read_as_they_were_written() -> None:
    piece = Piece(SENT, 10**12, 5 * 10**11, PIECE_BYTES)
    assert parse_header(pack_header(piece)) == piece


@pytest.mark.parametrize(
    "piece",
    [Piece(KEY, 10, 0, 0), Piece(KEY, 10, 5, 6), Piece(KEY, 2**63, 0, 1), Piece(KEY, 2**30, 0, PIECE_BYTES + 1)],
)
def test_headers_that_cannot_be_are_refused(piece: Piece) -> None:
    with pytest.raises(ValueError, match="malformed"):
        parse_header(pack_header(piece))


LONG_PORT = f"bulk:70000:{bytes(NAME_BYTES).hex()}:{bytes(TOKEN_BYTES).hex()}:"


@pytest.mark.parametrize("feature", ["bulk", "bulk:1:2:3:4", "bulk:0:::", "bulk:x:aa:bb:", LONG_PORT])
def test_offers_that_cannot_be_read_are_none(feature: str) -> None:
    assert offer_in(("other", feature)) is None


@pytest.mark.parametrize("listener_seals", [False, True])
@pytest.mark.parametrize("dialer_seals", [False, True])
def test_a_connection_is_sealed_if_both_ends_can(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch, listener_seals: bool, dialer_seals: bool
) -> None:
    """Otherwise TLS is used, also with peers of earlier versions, which do not know the other offer."""
    monkeypatch.setattr("scaler_protocol.objects.bulk.can_seal", lambda: listener_seals)
    monkeypatch.setattr("scaler_protocol.objects.bulk_offers.can_seal", lambda: dialer_seals)
    ends[0].bulk.listen(HOST, True)
    features = ends[0].bulk.offer("peer:-1")
    offer = offer_in(features)
    assert features[0].startswith("bulk:") and len(features) == 1 + listener_seals
    assert offer is not None and bool(offer.key) == (listener_seals and dialer_seals)


def test_an_offer_to_seal_with_a_short_key_is_none() -> None:
    if can_seal():
        assert offer_in((f"sealed:7:{bytes(NAME_BYTES).hex()}:{bytes(TOKEN_BYTES).hex()}:aabb",)) is None


def test_a_sealed_connection_refuses_whoever_has_seen_its_name(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is not secret; without the key nothing can be said."""
    use("sealed", monkeypatch)
    ends[0].bulk.listen(HOST, True)
    offer = offer_of(ends[0])
    with socket.create_connection((HOST, offer.port)) as stranger:
        stranger.sendall(offer.name + os.urandom(16) + (48).to_bytes(4, "little") + os.urandom(48))
        stranger.setblocking(False)
        received = bytearray()

        def is_closed() -> bool:
            try:
                data = stranger.recv(100)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            received.extend(data)
            return not data

        move_until(ends, is_closed)
    assert len(received) <= 16, "more than a salt was said"
    opened(ends)


def test_certificates_differ() -> None:
    assert Certificate().fingerprint != Certificate().fingerprint


# ---- stores ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "sealed"])
def host(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    if use(request.param, monkeypatch) == "sealed":
        generate(tmp_path / "keys", new_key_pair)
        (tmp_path / "keys" / "admin.key").unlink()
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    host = Host(HOST)
    yield host
    host.close()


class Pushes:
    def __init__(self, endpoint: str) -> None:
        self.failed: list[tuple[ObjectKey, str]] = []
        self.pusher = Pusher(endpoint, lambda key, why: self.failed.append((key, why)))


def test_an_object_is_pushed(host: Host) -> None:
    pushes, data = Pushes(host.endpoint), os.urandom(3 * PIECE_BYTES + 1)
    host.agent.fetch(SENT, len(data), [OWNER_SOURCE])
    pushes.pusher.add(SENT, memoryview(data))
    assert host.answers() == [StoreFound(SENT, len(data))]
    assert host.program.get(SENT, 30) == data
    pushes.pusher.close()
    assert pushes.failed == []


def test_an_offer_may_come_before_the_fetch(host: Host) -> None:
    """The next object of the same connection has arrived, so the store has read the offer of the first one."""
    connection, data = PushConnection(host.endpoint), os.urandom(PIECE_BYTES)
    connection._source.send(ObjectStored(SENT, len(data), b""))
    host.agent.fetch(KEY, 1, [OWNER_SOURCE])
    connection.push(KEY, memoryview(b"x"), lambda: False)
    assert host.answers() == [StoreFound(KEY, 1)]
    host.agent.fetch(SENT, len(data), [OWNER_SOURCE])
    request = connection._await(lambda body: isinstance(body, ObjectRequest) and body.key == SENT, 30)
    connection._send(SENT, memoryview(data), request.offset, lambda: False)
    assert host.answers() == [StoreFound(SENT, len(data))]
    connection.close()


def test_an_owner_that_does_not_come_is_given_up(host: Host) -> None:
    host.agent.fetch(SENT, 5, [OWNER_SOURCE])
    (answer,) = host.answers()
    assert isinstance(answer, StoreRefused)


def test_a_push_that_is_cut_continues_where_it_stopped(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends after each mebibyte of the first two."""
    begun: list[int] = []
    send = PushConnection._send

    def cut(self: PushConnection, key: ObjectKey, data: memoryview, offset: int, is_dropped: Callable[[], bool]) -> Any:
        begun.append(offset)
        if len(begun) == 3:
            return send(self, key, data, offset, is_dropped)
        self._bulk.sendall(pack_header(Piece(key, len(data), offset, PIECE_BYTES)))
        self._bulk.sendall(data[offset : offset + PIECE_BYTES])
        wait_until(lambda: host.program.status(30).received_bytes == offset + PIECE_BYTES)
        raise ConnectionError("cut")

    monkeypatch.setattr(PushConnection, "_send", cut)
    pushes, data = Pushes(host.endpoint), os.urandom(4 * PIECE_BYTES)
    host.agent.fetch(SENT, len(data), [OWNER_SOURCE])
    pushes.pusher.add(SENT, memoryview(data))
    assert host.answers() == [StoreFound(SENT, len(data))]
    assert host.program.get(SENT, 30) == data and begun == [0, PIECE_BYTES, 2 * PIECE_BYTES]
    pushes.pusher.close()


def test_when_a_key_is_taken_away_its_push_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate(tmp_path / "keys", new_key_pair)
    (tmp_path / "keys" / "admin.key").unlink()
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    host = Host(HOST)
    connection = PushConnection(host.endpoint)
    (tmp_path / "keys" / "work.pub").rename(tmp_path / "keys" / "gone")
    connection._connected.settimeout(10)
    assert connection._connected.recv(1) == b"", "the bulk connection stays open"
    connection.close()
    host.close()


def test_a_push_that_cannot_connect_fails() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    pushes = Pushes(f"tcp://{HOST}:{port}#{'0' * 32}")
    pushes.pusher.add(SENT, memoryview(b"12345"))
    wait_until(lambda: pushes.failed, 20)
    assert pushes.failed[0][0] == SENT and pushes.failed[0][1]
    pushes.pusher.close()


def test_an_object_with_another_size_is_not_taken(host: Host) -> None:
    pushes = Pushes(host.endpoint)
    host.agent.fetch(SENT, 1000, [OWNER_SOURCE])
    pushes.pusher.add(SENT, memoryview(bytes(2000)))
    (answer,) = host.answers()
    assert isinstance(answer, StoreRefused)
    pushes.pusher.close()


def test_silent_strangers_do_not_stop_a_transfer(host: Host) -> None:
    other = Host(HOST)
    connection = PushConnection(other.endpoint)
    port = connection._connected.getpeername()[1]
    strangers = [socket.create_connection((HOST, port), 1) for _ in range(50)]
    data = os.urandom(2 * PIECE_BYTES)
    other.program.put(KEY, data)
    host.agent.fetch(KEY, len(data), [other.endpoint])
    assert host.answers() == [StoreFound(KEY, len(data))]
    connection.close()
    for stranger in strangers:
        stranger.close()
    other.close()
