"""A watcher of a publisher on this machine: whom it trusts, and what a publisher can do to it."""

from __future__ import annotations

import os
import random
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from scaler_protocol.address import Address
from scaler_protocol.monitor import feed, local_publisher, local_stream
from scaler_protocol.monitor.bounds import MESSAGE_LIMIT_BYTES
from scaler_protocol.monitor.feed import FeedError, Received, RefusedError
from scaler_protocol.monitor.subscription import Subscription
from tests.support.monitoring import snapshot
from tests.support.users import another_user, listen
from tests.support.waiting import wait_until

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "monitor")


@contextmanager
def subscribed(context: zmq.Context[zmq.Socket[bytes]], path: str) -> Iterator[Subscription]:
    subscription = Subscription(context, f"ipc://{path}")
    try:
        yield subscription
    finally:
        subscription.close()


def refusal(subscription: Subscription) -> str:
    try:
        subscription.receive()
    except RefusedError as error:
        return str(error)
    return ""


def test_not_a_byte_of_another_users_publisher_is_read(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    path = f"/tmp/impostor-{os.getpid()}_monitor"
    try:
        with another_user(lambda: listen(path)), subscribed(context, path) as subscription:
            said = wait_until(lambda: refusal(subscription))
            assert said.startswith(f"ipc://{path} is served by user nobody, not by you, so nothing was read.")
            assert wait_until(lambda: refusal(subscription)) == said  # it is tried again
            with socket.socket(socket.AF_UNIX) as made:
                made.connect(path)  # the kernel told the user though the impostor never accepted
    finally:
        os.unlink(path)


def test_one_user_cannot_watch_the_publisher_of_another(tmp_path: Path) -> None:
    listener = listen(f"/tmp/of-root-{os.getpid()}_monitor")
    path = listener.getsockname()
    os.chmod(path, 0o600)

    def watch() -> None:
        stream = local_stream.LocalStream(Address("ipc", path=path), [b"snapshot"])
        with pytest.raises(RefusedError, match="Cannot connect to .*: Permission denied"):
            stream.receive()

    try:
        with another_user(watch):
            pass
    finally:
        listener.close()
        os.unlink(path)


def test_root_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("this process cannot listen as root")
    listener = listen(str(tmp_path / "monitor"))
    monkeypatch.setattr(local_publisher.os, "geteuid", lambda: 12345)
    stream = local_stream.LocalStream(Address("ipc", path=listener.getsockname()), [b"snapshot"])
    assert stream.receive() is None
    stream.close()
    listener.close()


def test_it_waits_for_a_publisher_and_for_the_next_one(context: zmq.Context[zmq.Socket[bytes]], path: str) -> None:
    with subscribed(context, path) as subscription:
        assert subscription.receive() is None
        for number in range(3):
            with context.socket(zmq.XPUB) as publisher:
                publisher.setsockopt(zmq.LINGER, 0)
                publisher.bind(f"ipc://{path}")
                assert wait_until(lambda: subscription.receive() or publisher.poll(0))
                assert publisher.recv() == b"\x01snapshot"
                publisher.send_multipart([b"snapshot", feed.encode(snapshot(success=number))])
                received = wait_until(subscription.receive)
                assert isinstance(received, Received) and received.message.tasks.success == number
            wait_until(lambda: subscription.receive() is None and subscription._stream._connection is None)


def test_a_dead_file_misleads_it_not(context: zmq.Context[zmq.Socket[bytes]], path: str) -> None:
    listen(path).close()
    with subscribed(context, path) as subscription:
        for _ in range(3):
            assert subscription.socket.poll(2000) and subscription.receive() is None
        os.unlink(path)
        with context.socket(zmq.XPUB) as publisher:
            publisher.bind(f"ipc://{path}")
            wait_until(lambda: subscription.receive() or publisher.poll(0))


def test_its_descriptor_tells_when_to_receive(context: zmq.Context[zmq.Socket[bytes]], path: str) -> None:
    with context.socket(zmq.XPUB) as publisher:
        publisher.setsockopt(zmq.LINGER, 0)
        publisher.bind(f"ipc://{path}")
        with subscribed(context, path) as subscription:
            assert publisher.recv() == b"\x01snapshot"
            while subscription.socket.poll(100):
                assert subscription.receive() is None
            publisher.send_multipart([b"snapshot", feed.encode(snapshot())])
            assert subscription.socket.poll(20_000)
            assert wait_until(subscription.receive)
            assert subscription.receive() is None and not subscription.socket.poll(0)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_refused_in_a_sentence(context: zmq.Context[zmq.Socket[bytes]], path: str, seed: int) -> None:
    chance = random.Random(seed)
    start = [b"", GREETING, GREETING + READY][seed % 3]
    with serving(path, lambda: start + chance.randbytes(chance.randrange(100_000))):
        with subscribed(context, path) as subscription:
            said = wait_until(lambda: broken(subscription))
            assert "closes each connection" in said or "is not a Scaler monitor stream" in said


def broken(subscription: Subscription) -> str:
    try:
        subscription.receive()
    except FeedError as error:
        return str(error)
    return "is not a Scaler monitor stream" if subscription._stream._connection is None else ""


def test_whoever_sends_without_end_does_not_keep_it(context: zmq.Context[zmq.Socket[bytes]], path: str) -> None:
    ping = b"\x04\x07\x04PING\x00\x00" * 10_000
    with serving(path, lambda: GREETING + READY + ping, repeated=ping), subscribed(context, path) as subscription:
        for _ in range(20):
            assert subscription.receive() is None


def test_a_message_that_is_announced_and_does_not_come_costs_nothing(
    context: zmq.Context[zmq.Socket[bytes]], path: str
) -> None:
    head = b"\x02" + (MESSAGE_LIMIT_BYTES - 1).to_bytes(8, "big")
    with serving(path, lambda: GREETING + READY + head), subscribed(context, path) as subscription:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wait_until(lambda: subscription.receive() is None and subscription._stream._connection.is_ready)
        assert subscription.receive() is None
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


@contextmanager
def serving(path: str, first: object, repeated: bytes = b"") -> Iterator[None]:
    """Whoever connects is sent these bytes; then ``repeated`` as often as it goes."""
    listener = listen(path)
    listener.settimeout(0.05)
    ends = threading.Event()

    def run() -> None:
        held = []
        while not ends.is_set():
            try:
                connected = listener.accept()[0]
            except TimeoutError:
                continue
            held.append(connected)
            connected.settimeout(0.05)
            try:
                connected.sendall(first())  # type: ignore[operator]
                while repeated and not ends.is_set():
                    connected.send(repeated)
            except OSError:
                pass
        for each in held:
            each.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        listener.close()
        os.unlink(path)
