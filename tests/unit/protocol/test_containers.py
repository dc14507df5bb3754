"""Peers on one machine, one of which is in a container that shares the network: it has processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from scaler_protocol.ids import new_session
from scaler_protocol.transport.dealer_connection import DealerConnection
from tests.support.namespaces import apart
from tests.support.routers import OpenRouter
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("token"),
    pytest.mark.skipif(sys.platform != "linux", reason="there are no namespaces"),
]

Closing = Callable[[Any], Any]

PEER = """
import select, sys, zmq
from scaler_protocol.transport.dealer_connection import DealerConnection
dealer = DealerConnection(zmq.Context(), sys.argv[1], b"a peer")
while True:
    select.select([dealer.fd, dealer.monitor_fd], [], [], 0.1)
    dealer.connection_events(), dealer.receive(), dealer.send([b"hello"])
"""
SCHEDULER = """
import select, zmq
from tests.support.routers import OpenRouter
router = OpenRouter(zmq.Context())
print(router.bind("tcp://127.0.0.1:0"), flush=True)
while True:
    select.select([router.fd, router.monitor_fd], [], [], 0.1)
    router.disconnected_events()
    while message := router.receive():
        router.send(*message)
"""
EVENTS = """
import select, sys, zmq
from scaler_protocol.transport.dealer_connection import DealerConnection
dealer = DealerConnection(zmq.Context(), sys.argv[1], b"a peer")
while True:
    select.select([dealer.fd, dealer.monitor_fd], [], [], 0.1)
    for event in dealer.connection_events():
        print(event, flush=True)
    dealer.receive(), dealer.send([b"hello"])
"""
WATCHED = """
import os
from scaler_protocol.transport.peer_process import can_watch
assert not can_watch(os.getpid())
"""


@contextmanager
def contained(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """What started it, and the process itself."""
    command = [*apart("--mount-proc"), sys.executable, "-c", code, *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield started, wait_until(psutil.Process(started.pid).children)[0]
    finally:
        started.kill()
        started.communicate()


def test_a_peer_in_a_container_is_heard_and_its_death_is_noticed(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    with contained(PEER, router.bind("tcp://127.0.0.1:0")) as (_, peer):
        assert wait_until(router.receive, 20) == (b"a peer", [b"hello"])
        assert router.probe(b"a peer") and router.disconnected_events() == 0
        peer.kill()
        wait_until(lambda: not router.receive() and not router.probe(b"a peer"), 2)


def test_a_stopped_peer_in_a_container_is_gone_after_its_heartbeats(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    with contained(PEER, router.bind("tcp://127.0.0.1:0")) as (_, peer):
        assert wait_until(router.receive, 20) == (b"a peer", [b"hello"])
        peer.suspend()
        wait_until(lambda: not router.receive() and not router.probe(b"a peer"), 6)
        peer.resume()
        assert wait_until(router.receive, 6) == (b"a peer", [b"hello"])


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_in_a_container_is_heard_and_its_end_is_noticed(
    context: Any, closing: Closing, end: signal.Signals
) -> None:
    with contained(SCHEDULER) as (started, scheduler):
        assert started.stdout is not None
        dealer = closing(DealerConnection(context, started.stdout.readline().strip(), new_session()))
        wait_until(lambda: "connected" in dealer.connection_events())
        assert dealer.send([b"x"])
        assert wait_until(dealer.receive) == [b"x"]
        scheduler.send_signal(end)
        wait_until(lambda: "disconnected" in dealer.connection_events(), 6)
        if end == signal.SIGSTOP:
            scheduler.resume()
            wait_until(lambda: "connected" in dealer.connection_events())
            assert dealer.send([b"y"])
            assert wait_until(dealer.receive) == [b"y"]


def test_a_peer_in_a_container_notices_that_its_scheduler_is_stopped() -> None:
    """Whose process it cannot see."""
    scheduler = subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE, text=True)
    assert scheduler.stdout is not None
    try:
        with contained(EVENTS, scheduler.stdout.readline().strip()) as (started, _):
            assert started.stdout is not None and started.stdout.readline() == "connected\n"
            scheduler.send_signal(signal.SIGSTOP)
            assert started.stdout.readline() == "disconnected\n"
            scheduler.send_signal(signal.SIGCONT)
            assert started.stdout.readline() == "connected\n"
    finally:
        scheduler.kill()
        scheduler.communicate()


def test_where_proc_is_that_of_others_nobody_can_be_watched() -> None:
    assert subprocess.run([*apart(), sys.executable, "-c", WATCHED], timeout=30).returncode == 0
    assert os.readlink("/proc/self") == str(os.getpid())
