"""Watchers over a unix socket: what they get, and what they cannot do to the publisher."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import zmq

from scaler_protocol.address import Address
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.local_stream import LocalStream
from scaler_scheduler.shell import local_watchers
from scaler_scheduler.shell.local_watchers import LocalWatchers
from scaler_scheduler.shell.standstill import LOOKS
from scaler_scheduler.shell.watchers import (
    QUEUE_LIMIT,
    SUBSCRIBE_SECONDS,
    TOO_MANY_TOPICS,
    TOO_MANY_WATCHERS,
    WATCHERS_LIMIT,
    WatchRequest,
)
from tests.support.users import another_user, listen
from tests.support.waiting import wait_until

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
SNAPSHOT = b"\x00\x09\x01snapshot"
EVENTS = b"\x00\x07\x01events"


class Publisher:
    """Watchers, as the publisher's process serves them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.said: list[str] = []
        self.requests: list[WatchRequest] = []
        self.watchers = LocalWatchers(listen(path), self.said.append)

    def turn(self) -> list[bytes]:
        """Topics asked for in the next few turns."""
        found = []
        for _ in range(20):
            found += self.watchers.take()
        self.requests += found
        return [request.topic for request in found]

    def connected(self, said: bytes = b"") -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.path)
        made.sendall(said)
        return made


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    made = Publisher(str(tmp_path / "monitor"))
    yield made
    made.watchers.close()


@contextmanager
def closing(*sockets: socket.socket) -> Iterator[None]:
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def test_each_gets_what_it_asked_for(publisher: Publisher) -> None:
    with closing(one := publisher.connected(GREETING + READY + SNAPSHOT)), zmq.Context() as context:
        other = context.socket(zmq.SUB)
        other.subscribe(b"events")
        other.connect(f"ipc://{publisher.path}")
        wait_until(lambda: publisher.turn() and len(publisher.requests) == 2)
        assert publisher.watchers.wants(b"snapshot") and publisher.watchers.wants(b"events")
        publisher.watchers.publish(b"snapshot", b"now")
        publisher.watchers.publish(b"events", b"then")
        assert one.recv(1000).endswith(b"\x01\x08snapshot\x00\x03now")
        assert other.recv_multipart() == [b"events", b"then"]
        other.close()
    wait_until(lambda: publisher.turn() == [] and not publisher.watchers.wants(b"events"))


def test_unsubscribing_ends_a_subscription(publisher: Publisher) -> None:
    with closing(one := publisher.connected(GREETING + READY + SNAPSHOT)):
        assert publisher.turn() == [b"snapshot"]
        one.sendall(b"\x00\x09\x00snapshot")
        publisher.turn()
        assert not publisher.watchers.wants(b"snapshot")


def test_another_user_is_not_served() -> None:
    publisher = Publisher(f"/tmp/served-{os.getpid()}_monitor")
    try:
        with another_user(publisher.connected):
            publisher.turn()
            assert len(publisher.watchers) == 0
        with closing(publisher.connected()):
            publisher.turn()
            assert len(publisher.watchers) == 1
    finally:
        publisher.watchers.close()
        os.unlink(publisher.path)


def test_ten_thousand_connections_cost_a_bound_and_shut_no_watcher_out(publisher: Publisher) -> None:
    with closing(watcher := publisher.connected(GREETING + READY + SNAPSHOT)):
        publisher.turn()
        before = psutil.Process().memory_info().rss
        for _ in range(100):
            flood = [publisher.connected(GREETING) for _ in range(100)]
            with closing(*flood):
                publisher.turn()
                assert len(publisher.watchers) <= WATCHERS_LIMIT
        late = publisher.connected(GREETING + READY + SNAPSHOT)
        with closing(late):
            assert publisher.turn() == [b"snapshot"]
            publisher.watchers.publish(b"snapshot", b"now")
            assert watcher.recv(1000).endswith(b"now") and late.recv(1000).endswith(b"now")
        assert psutil.Process().memory_info().rss - before < 32 * 1024 * 1024
    assert publisher.said == []


def test_only_so_many_can_watch(publisher: Publisher) -> None:
    many = []
    for _ in range(WATCHERS_LIMIT + 5):
        many.append(publisher.connected(GREETING + READY + SNAPSHOT))
        publisher.turn()
    with closing(*many):
        assert len(publisher.watchers) == WATCHERS_LIMIT and publisher.said == [TOO_MANY_WATCHERS]
        many[0].close()
        publisher.turn()
        with closing(publisher.connected(GREETING + READY + SNAPSHOT)):
            assert publisher.turn() == [b"snapshot"]


def test_whoever_asks_for_nothing_is_cut_off(publisher: Publisher) -> None:
    with closing(publisher.connected(), publisher.connected(GREETING), publisher.connected(GREETING + READY)):
        with closing(publisher.connected(GREETING + READY + SNAPSHOT)):
            publisher.turn()
            publisher.watchers.look(time.monotonic() + SUBSCRIBE_SECONDS - 1)
            assert len(publisher.watchers) == 4
            publisher.watchers.look(time.monotonic() + SUBSCRIBE_SECONDS + 1)
            assert len(publisher.watchers) == 1


@pytest.mark.parametrize(
    "flood",
    [
        b"".join(b"\x00\x05\x01%04d" % number for number in range(200)),
        b"\x00\x05\x02junk" * 200,
        b"\x00\x00" * 50_000 + b"\x00\x01\x02" * 200,
        b"\x02" + (2000).to_bytes(8, "big") + b"\x01" * 2000,
        b"\x06" + (2000).to_bytes(8, "big") + b"\x09SUBSCRIBE" + b"x" * 1990,
    ],
    ids=["topics", "junk", "empty", "long", "long-command"],
)
def test_whoever_asks_for_too_much_is_cut_off(publisher: Publisher, flood: bytes) -> None:
    with closing(one := publisher.connected(GREETING + READY + SNAPSHOT)):
        publisher.turn()
        one.settimeout(0.01)
        wait_until(lambda: _sent(one, flood) and publisher.turn() == [] and len(publisher.watchers) == 0)
        assert publisher.said in ([], [TOO_MANY_TOPICS])


def _sent(one: socket.socket, flood: bytes) -> bool:
    try:
        one.sendall(flood)
    except OSError:
        pass
    return True


def test_a_ping_flood_keeps_nobody_waiting(publisher: Publisher) -> None:
    with closing(flooding := publisher.connected(GREETING + READY + SNAPSHOT)):
        publisher.turn()
        flooding.setblocking(False)
        with closing(other := publisher.connected(GREETING + READY + SNAPSHOT)):
            for _ in range(50):
                _sent(flooding, b"\x04\x07\x04PING\x00\x00" * 20_000)
                publisher.watchers.take()
            publisher.turn()
            publisher.watchers.publish(b"snapshot", b"now")
            assert other.recv(1000).endswith(b"now")


def test_history_is_given_once(publisher: Publisher) -> None:
    topics = [feed.new_history_topic() for _ in range(3)]
    said = b"".join(b"\x00" + bytes((len(topic) + 1,)) + b"\x01" + topic for topic in topics)
    with closing(publisher.connected(GREETING + READY + said)):
        assert publisher.turn() == topics[:1]


def test_one_that_takes_nothing_misses_messages_costs_little_and_is_cut_off(publisher: Publisher) -> None:
    payload = bytes(512 * 1024)
    with closing(publisher.connected(GREETING + READY + SNAPSHOT + EVENTS)):
        publisher.turn()
        before = psutil.Process().memory_info().rss
        for _ in range(10 * QUEUE_LIMIT):
            publisher.watchers.publish(b"events", payload)
            publisher.watchers.publish(b"snapshot", payload)
        assert psutil.Process().memory_info().rss - before < 8 * 1024 * 1024  # the same bytes, again and again
        (watcher,) = publisher.watchers._watchers.values()
        assert len(watcher._queue) == QUEUE_LIMIT
        for look in range(LOOKS + 2):
            publisher.watchers.look(time.monotonic() + look)
        assert len(publisher.watchers) == 0


def test_one_that_is_slow_stays_and_gets_whole_messages(publisher: Publisher) -> None:
    payload = os.urandom(400 * 1024)
    with closing(publisher.connected(GREETING)):
        slow = LocalStream(Address("ipc", path=publisher.path), [b"events"])
        publisher.turn()
        wait_until(lambda: slow.receive() is None and publisher.turn() == [b"events"])
        got = 0
        for look in range(3 * LOOKS):
            publisher.watchers.publish(b"events", payload)
            publisher.turn()
            publisher.watchers.look(time.monotonic() + look / 10)
            received = slow.receive()
            got += received == payload
            assert received in (None, payload)
        assert got > LOOKS
        slow.close()


def test_without_descriptors_it_goes_on(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(watcher := publisher.connected(GREETING + READY + SNAPSHOT)):
        publisher.turn()
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(5)]
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(each) for each in os.listdir("/proc/self/fd")) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, limit[1]))
        held = []
        try:
            while True:  # so that not one is left
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        try:
            for each in waiting:
                each.connect(publisher.path)
            publisher.turn()
            publisher.watchers.publish(b"snapshot", b"now")
            assert len(publisher.watchers) == 1 and watcher.recv(1000).endswith(b"now")
            assert publisher.watchers.socket.poll(0) == []  # nothing goes on waking it
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            for descriptor in held:
                os.close(descriptor)
        with closing(*waiting, publisher.connected(GREETING + READY + SNAPSHOT)):
            assert publisher.turn() == [b"snapshot"]


def test_what_was_accepted_and_lost_at_once_does_no_harm(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in (b"", GREETING, GREETING + READY, GREETING + READY + SNAPSHOT, os.urandom(500)):
        publisher.connected(said).close()
        publisher.turn()
    assert len(publisher.watchers) == 0
    monkeypatch.setattr(local_watchers, "WATCHERS_LIMIT", 0)
    with closing(publisher.connected(GREETING)):
        publisher.turn()
    assert len(publisher.watchers) == 0


def test_at_a_port_too_another_user_is_not_served() -> None:
    with closing(listener := socket.create_server(("127.0.0.1", 0))):
        port = listener.getsockname()[1]
        watchers = LocalWatchers(socket.socket(fileno=os.dup(listener.fileno())), print)
        try:
            with another_user(lambda: socket.create_connection(("127.0.0.1", port))):
                for _ in range(10):
                    watchers.take()
                assert len(watchers) == 0
            with closing(own := socket.create_connection(("127.0.0.1", port))):
                own.sendall(GREETING + READY + SNAPSHOT)
                wait_until(lambda: watchers.take() and watchers.wants(b"snapshot"))
        finally:
            watchers.close()
