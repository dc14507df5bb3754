"""A watcher of a port of this machine: whom it trusts."""

from __future__ import annotations

import asyncio  # noqa: F401 (pyzmq imports it late, when the process is that of a user who may not read it)
import socket
from collections.abc import Iterator

import pytest
import zmq

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.feed import RefusedError
from scaler_protocol.monitor.subscription import Subscription
from tests.support.monitoring import snapshot
from tests.support.ports import free_port
from tests.support.users import another_user
from tests.support.waiting import wait_until


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


def impostor(port: int) -> zmq.Socket[bytes]:
    """Publishes to whoever comes, in a thread of libzmq's."""
    publisher = zmq.Context().socket(zmq.PUB)
    publisher.bind(f"tcp://127.0.0.1:{port}")
    payload = feed.encode(snapshot(success=666))

    def publish() -> None:
        while True:
            publisher.send_multipart([b"snapshot", payload])

    import threading

    threading.Thread(target=publish, daemon=True).start()
    return publisher


def refusal(subscription: Subscription) -> str:
    try:
        received = subscription.receive()
    except RefusedError as error:
        return str(error)
    assert received is None or received.message.tasks.success != 666
    return ""


def test_nothing_that_another_user_publishes_is_shown(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    port = free_port()
    subscription = Subscription(context, f"tcp://127.0.0.1:{port}")
    try:
        with another_user(lambda: impostor(port)):
            for _ in range(3):
                said = wait_until(lambda: refusal(subscription))
                assert said.startswith(f"tcp://127.0.0.1:{port} is served by user nobody, not by you")
        with context.socket(zmq.PUB) as publisher:
            publisher.setsockopt(zmq.LINGER, 0)
            wait_until(lambda: is_bound(publisher, port))
            payload = feed.encode(snapshot(success=1))
            wait_until(lambda: publisher.send_multipart([b"snapshot", payload]) or received(subscription))
    finally:
        subscription.close()


def is_bound(publisher: zmq.Socket[bytes], port: int) -> bool:
    try:
        publisher.bind(f"tcp://127.0.0.1:{port}")
    except zmq.ZMQError:
        return False
    return True


def received(subscription: Subscription) -> bool:
    try:
        found = subscription.receive()
    except RefusedError:
        return False
    return found is not None and found.message.tasks.success == 1


def test_a_port_at_which_nobody_listens_is_waited_for(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    subscription = Subscription(context, f"tcp://localhost:{port}")
    assert subscription.receive() is None
    subscription.close()
