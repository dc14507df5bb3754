"""Watchers over the network: who may watch, for how long, and how many."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from scaler_protocol.monitor.subscription import RefusedError, Subscription
from scaler_scheduler.shell.network_watchers import NetworkWatchers
from scaler_scheduler.shell.watchers import SUBSCRIBE_SECONDS, TOO_MANY_WATCHERS, WATCHERS_LIMIT
from tests.cluster.test_keys import make_keys
from tests.support.waiting import wait_until


class Publisher:
    """Watchers, as the publisher's process serves them."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.said: list[str] = []
        self.watchers = NetworkWatchers(context, self.said.append)
        self.address = self.watchers.bind("tcp://127.0.0.1:0")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def turn(self, later_seconds: float = 0.0) -> bool:
        self.watchers.take()
        self.watchers.look(time.monotonic() + later_seconds)
        return self.watchers.wants(b"snapshot")


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = make_keys(tmp_path / "keys")
    monkeypatch.setenv("SCALER_KEYS", str(made))
    return made


@pytest.fixture
def publisher(keys: Path) -> Iterator[Publisher]:
    with zmq.Context() as context:
        made = Publisher(context)
        yield made
        made.watchers.close()


def test_a_key_that_was_taken_away_ends_its_connection(
    publisher: Publisher, keys: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    (keys / "admin.key").unlink()  # or it would be used
    watcher = Subscription(context, publisher.address)
    wait_until(publisher.turn)
    kept = (keys / "observe.pub").read_bytes()
    (keys / "observe.pub").unlink()
    later = iter(range(10**6))
    wait_until(lambda: not publisher.turn(next(later)))
    with pytest.raises(RefusedError, match="does not accept these keys"):
        wait_until(lambda: publisher.turn() or watcher.receive())
    (keys / "observe.pub").write_bytes(kept)
    wait_until(lambda: publisher.turn() or no_refusal(watcher))
    watcher.close()


def no_refusal(watcher: Subscription) -> None:
    try:
        watcher.receive()
    except RefusedError:
        pass


def test_keys_that_cannot_be_read_just_now_end_nothing(
    publisher: Publisher, keys: Path, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Subscription(context, publisher.address)
    wait_until(publisher.turn)
    keys.rename(keys.with_name("away"))
    for later in range(5):
        assert publisher.turn(later)
    keys.with_name("away").rename(keys)
    watcher.close()


def test_connections_that_ask_for_nothing_make_room_and_are_closed(
    publisher: Publisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    watcher = Subscription(context, publisher.address)
    wait_until(publisher.turn)
    files = psutil.Process().num_fds()
    flood = [socket.create_connection(("127.0.0.1", publisher.port)) for _ in range(2 * WATCHERS_LIMIT)]
    wait_until(lambda: publisher.turn() and psutil.Process().num_fds() <= files + len(flood) + WATCHERS_LIMIT + 5)
    assert publisher.said == [] and len(publisher.watchers._connections) <= WATCHERS_LIMIT
    wait_until(lambda: publisher.turn(SUBSCRIBE_SECONDS + 1) and len(publisher.watchers._connections) == 1)
    for each in flood:
        each.close()
    watcher.close()
    wait_until(lambda: not publisher.turn())


def test_only_so_many_can_watch(
    publisher: Publisher, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler_scheduler.shell.network_watchers.WATCHERS_LIMIT", 3)
    watchers = []
    for number in range(3):
        watchers.append(Subscription(context, publisher.address))
        wait_until(lambda number=number: publisher.turn() and asking(publisher) == number + 1)
    late = Subscription(context, publisher.address)
    wait_until(lambda: publisher.turn() and publisher.said == [TOO_MANY_WATCHERS])
    wait_until(lambda: publisher.turn() and len(publisher.watchers._connections) == 3)
    assert WATCHERS_LIMIT > 3
    for each in (*watchers, late):
        each.close()


def asking(publisher: Publisher) -> int:
    return sum(each.has_asked for each in publisher.watchers._connections.values())
