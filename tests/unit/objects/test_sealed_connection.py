"""Connections that are sealed with a key: what was sent arrives, and nothing else does."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("cryptography")

from scaler_protocol.objects.sealed_connection import FRAME_BYTES, SALT_BYTES, SealedConnection

KEY = bytes(range(32))
SIZE_BYTES = 4
TAG_BYTES = 16


class Wire:
    """What the dialer sends, before it reaches the listener."""

    def __init__(self) -> None:
        self.dialer_end, self._tap = socket.socketpair()
        self._feed, self.listener_end = socket.socketpair()

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self._tap.recv(count - len(data))
        return data

    def give(self, data: bytes) -> None:
        self._feed.sendall(data)

    def return_salt(self) -> None:
        salt = b""
        while len(salt) < SALT_BYTES:
            salt += self._feed.recv(SALT_BYTES - len(salt))
        self._tap.sendall(salt)

    def end(self) -> None:
        self._feed.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self.dialer_end, self._tap, self._feed, self.listener_end):
            each.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture
def ends() -> Iterator[tuple[SealedConnection, SealedConnection]]:
    one, other = socket.socketpair()
    pair = SealedConnection(one, KEY, True), SealedConnection(other, KEY, False)
    shake_hands(*pair)
    yield pair
    one.close()
    other.close()


def shake_hands(dialer: SealedConnection, listener: SealedConnection) -> None:
    other = threading.Thread(target=listener.do_handshake)
    other.start()
    dialer.do_handshake()
    other.join()


def greeted(wire: Wire, listener_key: bytes = KEY) -> tuple[SealedConnection, SealedConnection]:
    dialer = SealedConnection(wire.dialer_end, KEY, True)
    listener = SealedConnection(wire.listener_end, listener_key, False)

    def pass_on() -> None:
        wire.give(wire.take(SALT_BYTES))
        wire.return_salt()

    passing = threading.Thread(target=pass_on)
    passing.start()
    shake_hands(dialer, listener)
    passing.join()
    return dialer, listener


def frame_of(wire: Wire, dialer: SealedConnection, data: bytes) -> bytes:
    dialer.sendall(data)
    return wire.take(SIZE_BYTES + len(data) + TAG_BYTES)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_however_they_are_read(
    ends: tuple[SealedConnection, SealedConnection], seed: int
) -> None:
    draw = random.Random(seed)
    for sender, receiver in (ends, ends[::-1]):
        data = draw.randbytes(draw.choice([1, 100_000, 3 * FRAME_BYTES + 1]))
        sending = threading.Thread(target=sender.sendall, args=(data,))
        sending.start()
        received = bytearray()
        while len(received) < len(data):
            received += receiver.recv(draw.choice([1, 48, 5000, FRAME_BYTES, 2 * FRAME_BYTES]))
        sending.join()
        assert received == data


def test_a_full_socket_takes_the_rest_of_a_frame_later(ends: tuple[SealedConnection, SealedConnection]) -> None:
    sender, receiver = ends
    sender.settimeout(0.0)
    data, received, sent = random.Random(1).randbytes(4 * FRAME_BYTES), bytearray(), 0
    stops = 0
    while len(received) < len(data):
        try:
            sent += sender.send(memoryview(data)[sent:]) if sent < len(data) else 0
        except BlockingIOError:
            stops += 1
        receiver.settimeout(0.0)
        try:
            received += receiver.recv(FRAME_BYTES)
        except BlockingIOError:
            assert receiver.missing_bytes > 0
    assert received == data and stops


def test_nothing_is_readable_on_the_wire(wire: Wire) -> None:
    dialer, listener = greeted(wire)
    secret = b"secret " * 100
    frame = frame_of(wire, dialer, secret)
    assert b"secret" not in frame
    wire.give(frame)
    assert listener.recv(len(secret)) == secret


def flip(frame: bytes, place: int) -> bytes:
    return frame[:place] + bytes([frame[place] ^ 1]) + frame[place + 1 :]


FORGERIES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "changed": lambda one, two: flip(one, SIZE_BYTES + 3),
    "changed tag": lambda one, two: flip(one, len(one) - 1),
    "longer": lambda one, two: flip(one, 0) + b"x" * 10,
    "left out": lambda one, two: two,
    "exchanged": lambda one, two: two + one,
    "empty": lambda one, two: TAG_BYTES.to_bytes(4, "little") + bytes(TAG_BYTES),
    "huge": lambda one, two: (2**31).to_bytes(4, "little") + bytes(1000),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_frames_end_the_connection(wire: Wire, forgery: str) -> None:
    dialer, listener = greeted(wire)
    one, two = frame_of(wire, dialer, b"one" * 50), frame_of(wire, dialer, b"two" * 50)
    wire.give(FORGERIES[forgery](one, two))
    wire.end()
    with pytest.raises(ConnectionError):
        listener.recv(1000)


def test_a_repeated_frame_ends_the_connection(wire: Wire) -> None:
    dialer, listener = greeted(wire)
    frame = frame_of(wire, dialer, b"one")
    wire.give(frame + frame)
    assert listener.recv(3) == b"one"
    with pytest.raises(ConnectionError):
        listener.recv(3)


def test_the_bytes_of_one_connection_say_nothing_on_the_next(wire: Wire) -> None:
    """The key is the same: who repeats what was sent has another salt of the listener."""
    dialer = SealedConnection(wire.dialer_end, KEY, True)
    listener = SealedConnection(wire.listener_end, KEY, False)
    dialing = threading.Thread(target=dialer.do_handshake)
    dialing.start()
    salt = wire.take(SALT_BYTES)
    wire.give(salt)
    listener.do_handshake()
    wire.return_salt()
    dialing.join()
    frame = frame_of(wire, dialer, b"token")
    stranger, second_end = socket.socketpair()
    second = SealedConnection(second_end, KEY, False)
    stranger.sendall(salt + frame)
    second.do_handshake()
    with pytest.raises(ConnectionError):
        second.recv(5)
    wire.give(frame)
    assert listener.recv(5) == b"token"
    stranger.close()
    second_end.close()


def test_an_end_with_another_key_hears_nothing(wire: Wire) -> None:
    dialer, listener = greeted(wire, bytes(32))
    wire.give(frame_of(wire, dialer, b"token"))
    with pytest.raises(ConnectionError):
        listener.recv(5)


def test_the_two_directions_have_different_keys(ends: tuple[SealedConnection, SealedConnection]) -> None:
    """A frame that is sent back to its sender cannot be opened there."""
    one, other = socket.socketpair()
    dialer = SealedConnection(one, KEY, True)
    other.sendall(bytes(SALT_BYTES))
    dialer.do_handshake()
    dialer.sendall(b"token")
    other.recv(SALT_BYTES)
    other.sendall(other.recv(100))
    with pytest.raises(ConnectionError):
        dialer.recv(5)
    one.close()
    other.close()
