"""What a client has under way when it pushes an object: the queue before a slow link stays short, and the link full."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest

from scaler_protocol.objects import pacing
from scaler_protocol.objects.pacing import QUEUE_SECONDS, SHORT_BYTES, Pacing, Path, room_of

ROUND_TRIP_SECONDS = 0.05
LINK = 10_000_000
"""Bytes per second."""


def path_of(room: int, rate: int = LINK) -> Path:
    """The way over a link of this rate when ``room`` bytes are under way."""
    queued = max(0.0, room / rate - ROUND_TRIP_SECONDS)
    return Path(queued, ROUND_TRIP_SECONDS, min(rate, int(room / ROUND_TRIP_SECONDS)))


def test_without_a_queue_the_system_decides() -> None:
    assert room_of(Path(QUEUE_SECONDS / 2, ROUND_TRIP_SECONDS, LINK), 0, SHORT_BYTES) == 0


def test_a_long_queue_is_limited_to_what_the_link_takes() -> None:
    room = room_of(path_of(5_000_000), 0, SHORT_BYTES)
    assert room == int(LINK * (ROUND_TRIP_SECONDS + QUEUE_SECONDS))


def test_a_link_that_was_slow_for_a_moment_is_filled_again() -> None:
    """Within one second, without a queue that is much longer than allowed."""
    room = room_of(Path(1.0, ROUND_TRIP_SECONDS, 1000), 0, SHORT_BYTES)
    sent_bytes = seconds = 0.0
    while seconds < 1.0:
        path = path_of(room)
        assert path.queued_seconds < 1.5 * QUEUE_SECONDS
        room = room_of(path, room, SHORT_BYTES)
        sent_bytes += SHORT_BYTES
        seconds += SHORT_BYTES / path.bytes_per_second
    assert path_of(room).bytes_per_second == LINK


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as made:
        yield made


def test_the_limit_of_a_connection_is_lifted(connected: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = itertools.chain(
        [Path(1.0, ROUND_TRIP_SECONDS, 1000)], itertools.repeat(Path(0.0, ROUND_TRIP_SECONDS, LINK))
    )
    monkeypatch.setattr(pacing, "_path_of", lambda _: next(paths))
    limit = Pacing(connected)
    limit.next_bytes()
    limited = connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    for _ in range(1000):
        limit.next_bytes()
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 4 * limited
