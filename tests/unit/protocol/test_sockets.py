from __future__ import annotations

import errno
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler_protocol.ids import new_session
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES
from scaler_protocol.security import ensure_token
from scaler_protocol.transport.dealer_connection import DealerConnection
from tests.support.routers import OpenRouter
from tests.support.waiting import wait_until
from tests.support.zmtp import greet, has_ended

Closing = Callable[[Any], Any]
pytestmark = pytest.mark.usefixtures("token")


@pytest.fixture(params=["tcp", "ipc", "inproc"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "tcp": "tcp://127.0.0.1:0",
        "ipc": f"ipc://{tmp_path}/socket",
        "inproc": f"inproc://{request.node.name}",
    }[request.param]


def meet(router: OpenRouter, dealer: DealerConnection) -> list[str]:
    """What the dealer hears of its connection first. The router's end answers while it is served."""
    return wait_until(lambda: router.receive() or dealer.connection_events())


def connect(router: OpenRouter, dealer: DealerConnection) -> None:
    """Until both know of it, whatever the dealer says before: it may meet the socket that was closed just now. What the
    router gets meanwhile is dropped."""
    heard: list[str] = []

    def have_met() -> bool:
        router.receive()
        heard.extend(dealer.connection_events())
        return heard[-1:] == ["connected"] and router.probe(dealer._session)

    wait_until(have_met)
    wait_until(lambda: dealer.receive() is None and not readable(dealer.fd, 0))


def readable(descriptor: int, seconds: float = 5.0) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def test_messages_both_ways(context: Any, closing: Closing, address: str) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind(address)
    session = new_session()
    dealer = closing(DealerConnection(context, bound, session))
    wait_until(lambda: router.receive() or readable(dealer.monitor_fd, 0.01))
    assert meet(router, dealer) == ["connected"]
    assert dealer.connection_events() == []
    assert dealer.send([b"one", b"payload"]) and dealer.send([b"two"])
    assert readable(router.fd)
    assert wait_until(router.receive) == (session, [b"one", b"payload"])
    assert wait_until(router.receive) == (session, [b"two"])
    assert router.receive() is None
    assert router.send(session, [b"answer", b""]) == "sent"
    assert wait_until(dealer.receive) == [b"answer", b""]
    assert dealer.receive() is None


def test_probes_are_swallowed(context: Any, closing: Closing, address: str) -> None:
    router = closing(OpenRouter(context))
    session = new_session()
    dealer = closing(DealerConnection(context, router.bind(address), session))
    meet(router, dealer)
    assert dealer.send([b""]) and dealer.send([b"first"])
    assert wait_until(router.receive) == (session, [b"first"])
    assert router.probe(session) and router.send(session, [b"second"]) == "sent"
    assert wait_until(dealer.receive) == [b"second"]


def test_who_is_gone_is_known(context: Any, closing: Closing, address: str) -> None:
    router = closing(OpenRouter(context))
    session = new_session()
    dealer = closing(DealerConnection(context, router.bind(address), session))
    assert router.send(new_session(), [b"x"]) == "gone"
    meet(router, dealer)
    dealer.send([b"here"])
    wait_until(router.receive)
    assert router.disconnected_events() == 0 and router.probe(session)
    dealer.close()
    wait_until(lambda: router.receive() or not router.probe(session))
    assert router.send(session, [b"x"]) == "gone"
    if not address.startswith("inproc"):
        wait_until(lambda: router.receive() or readable(router.monitor_fd, 0.01))
        assert wait_until(router.disconnected_events) == 1


def test_nothing_is_queued_without_a_connection(context: Any, closing: Closing) -> None:
    dealer = closing(DealerConnection(context, "tcp://127.0.0.1:9", new_session()))
    assert not dealer.send([b"x"])
    assert dealer.receive() is None
    assert "connected" not in dealer.connection_events()


def test_reconnection_is_seen_and_quick(context: Any, closing: Closing) -> None:
    first = closing(OpenRouter(context))
    bound = first.bind("tcp://127.0.0.1:0")
    session = new_session()
    dealer = closing(DealerConnection(context, bound, session))
    assert meet(first, dealer) == ["connected"]
    first.close()
    assert wait_until(dealer.connection_events) == ["disconnected"]
    wait_until(lambda: not dealer.send([b"lost"]))
    second = closing(OpenRouter(context))
    wait_until(lambda: try_bind(second, bound))
    began = time.monotonic()
    connect(second, dealer)
    assert time.monotonic() - began < 1
    assert dealer.send([b"again"])
    assert wait_until(second.receive) == (session, [b"again"])


def test_peers_of_one_user_meet_off_the_network(context: Any, closing: Closing) -> None:
    """Whichever of the two is there first, and also when the other one comes back."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    address, session = f"tcp://127.0.0.1:{port}", new_session()
    dealer = closing(DealerConnection(context, address, session))
    for _ in range(2):
        router = closing(OpenRouter(context))
        wait_until(lambda router=router: try_bind(router, address))
        connect(router, dealer)
        assert dealer.send([b"here"])
        assert wait_until(router.receive) == (session, [b"here"])
        wait_until(lambda: not has_connections(port))
        router.close()
        assert wait_until(dealer.connection_events) == ["disconnected"]


def test_peers_of_another_user_stay_on_the_network(
    context: Any, closing: Closing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "mine"))
    ensure_token()
    dealer = closing(DealerConnection(context, bound, new_session()))
    assert meet(router, dealer) == ["connected"]
    assert has_connections(int(bound.rsplit(":", 1)[1]))


def has_connections(port: int) -> bool:
    """Over tcp, to what listens there."""
    with open("/proc/net/tcp") as table:
        return any(f":{port:04X} " in line and line.split()[3] == "01" for line in table)


def try_bind(router: OpenRouter, address: str) -> bool:
    try:
        return bool(router.bind(address))
    except OSError:
        return False


def test_a_second_connection_of_a_session_takes_over(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    session = new_session()
    old = closing(DealerConnection(context, bound, session))
    meet(router, old)
    new = closing(DealerConnection(context, bound, session))
    meet(router, new)
    new.send([b"mine"])
    assert wait_until(router.receive) == (session, [b"mine"])
    assert router.send(session, [b"for the new one"]) == "sent"
    assert wait_until(new.receive) == [b"for the new one"]


STOPPING = """
import signal, sys, zmq
context = zmq.Context()
if sys.argv[2] == "libzmq":
    dealer = context.socket(zmq.DEALER)
    dealer.routing_id = b"a peer that stops"
    dealer.heartbeat_ivl = 500
    dealer.connect(sys.argv[1])
    dealer.send(b"hello")
else:
    from scaler_protocol.transport.dealer_connection import DealerConnection
    dealer = DealerConnection(context, sys.argv[1], b"a peer that stops")
    while not dealer.send([b"hello"]):
        dealer.connection_events()
signal.pause()
"""


@pytest.mark.parametrize("scheme", ["tcp", "ipc"])
@pytest.mark.parametrize("kind", ["ours", "libzmq"])
def test_a_stopped_peer(context: Any, closing: Closing, tmp_path: Path, scheme: str, kind: str) -> None:
    """Whose process can be watched may stop for as long as it likes, since its end would be noticed; who comes over tcp
    is gone when it gives no sign of life."""
    router = closing(OpenRouter(context))
    bound = router.bind(f"ipc://{tmp_path}/socket" if scheme == "ipc" else "tcp://127.0.0.1:0")
    peer = subprocess.Popen([sys.executable, "-c", STOPPING, bound, kind])
    try:
        session, _ = wait_until(router.receive, 20)
        peer.send_signal(signal.SIGSTOP)
        is_gone = lambda: not router.receive() and not router.probe(session)  # noqa: E731
        if (scheme, kind) == ("tcp", "libzmq"):
            wait_until(is_gone, 6)
        else:
            with pytest.raises(AssertionError):
                wait_until(is_gone, 3)
    finally:
        peer.kill()
        peer.wait()


def test_a_stopped_scheduler_beside_us_is_gone_until_it_goes_on(context: Any, closing: Closing) -> None:
    code = (
        "import select, zmq\n"
        "from tests.support.routers import OpenRouter\n"
        "router = OpenRouter(zmq.Context())\n"
        "print(router.bind('tcp://127.0.0.1:0'), flush=True)\n"
        "while True:\n"
        "    select.select([router.fd], [], [], 0.1)\n"
        "    while router.receive(): pass\n"
    )
    peer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert peer.stdout is not None
    try:
        dealer = closing(DealerConnection(context, peer.stdout.readline().strip(), new_session()))
        assert wait_until(dealer.connection_events) == ["connected"]
        assert dealer.stream is not None
        peer.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: (dealer.send([b"x"]), dealer.connection_events())[1]) == ["disconnected"]
        assert not dealer.send([b"x"])
        peer.send_signal(signal.SIGCONT)
        assert wait_until(dealer.connection_events)[-1] == "connected"
    finally:
        peer.kill()
        peer.wait()
        peer.stdout.close()


def test_a_foreign_server_is_never_connected(context: Any, closing: Closing) -> None:
    """Something that listens on the port and does not speak ZeroMQ."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        dealer = closing(DealerConnection(context, f"tcp://127.0.0.1:{server.getsockname()[1]}", new_session()))
        connected, _ = server.accept()
        with connected:
            connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
            with pytest.raises(AssertionError):
                wait_until(lambda: "connected" in dealer.connection_events(), 0.5)
            assert dealer.receive() is None


def test_a_server_with_other_security_is_told(context: Any, closing: Closing) -> None:
    server = closing(context.socket(zmq.ROUTER))
    server.curve_server = True
    server.curve_secretkey = zmq.curve_keypair()[1]
    port = server.bind_to_random_port("tcp://127.0.0.1")
    dealer = closing(DealerConnection(context, f"tcp://127.0.0.1:{port}", new_session()))
    assert readable(dealer.monitor_fd)
    assert "handshake_failed" in wait_until(dealer.connection_events)


def test_a_foreign_client_does_no_harm(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://127.0.0.1:0")
    with socket.create_connection(("127.0.0.1", int(bound.rsplit(":", 1)[1]))) as foreign:
        foreign.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        session = new_session()
        dealer = closing(DealerConnection(context, bound, session))
        connect(router, dealer)
        assert dealer.send([b"fine"])
        assert wait_until(router.receive) == (session, [b"fine"])


# ---- binding --------------------------------------------------------------------------------------------------------


def test_a_busy_address_is_told_in_a_sentence(context: Any, closing: Closing, address: str) -> None:
    bound = closing(OpenRouter(context)).bind(address)
    with pytest.raises(OSError) as caught:
        closing(OpenRouter(context)).bind(bound)
    reason = "another process already listens there. Stop it, or give another address."
    assert str(caught.value) == f"Cannot listen on {bound}: {reason}"
    assert caught.value.errno == errno.EADDRINUSE


def test_an_address_of_another_machine(context: Any, closing: Closing) -> None:
    with pytest.raises(OSError, match="this machine has no such address"):
        closing(OpenRouter(context)).bind("tcp://192.0.2.1:0")


def test_localhost_is_one_address_on_both_ends(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    bound = router.bind("tcp://localhost:0")
    assert bound.startswith("tcp://localhost:") and not bound.endswith(":0")
    dealer = closing(DealerConnection(context, bound, new_session()))
    connect(router, dealer)


def test_socket_files_are_removed_and_stale_ones_replaced(context: Any, closing: Closing, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    router = closing(OpenRouter(context))
    router.bind(f"ipc://{path}")
    assert path.is_socket()
    router.close()
    wait_until(lambda: not path.exists())


def test_a_file_of_somebody_else_is_left_alone(context: Any, closing: Closing, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    router = closing(OpenRouter(context))
    router.bind(f"ipc://{path}")
    os.unlink(path)
    path.write_text("mine")
    router.close()
    assert path.read_text() == "mine"


def test_closing_twice_is_fine(context: Any, tmp_path: Path) -> None:
    router = OpenRouter(context)
    dealer = DealerConnection(context, router.bind(f"ipc://{tmp_path}/socket"), new_session())
    for thing in (router, dealer, router, dealer):
        thing.close()


# ---- frames ---------------------------------------------------------------------------------------------------------


def test_frames_are_copied_and_may_be_any_buffer(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    session = new_session()
    dealer = closing(DealerConnection(context, router.bind("tcp://127.0.0.1:0"), session))
    meet(router, dealer)
    changing = bytearray(b"before" * 100_000)
    frames: list[Any] = [b"", memoryview(b"abcdef")[1:3], changing, bytes(1_000_000), *[b"x"] * 60]
    assert dealer.send(frames)
    changing[:] = b"after!" * 100_000
    expected = [b"", b"bc", b"before" * 100_000, bytes(1_000_000), *[b"x"] * 60]
    assert wait_until(router.receive) == (session, expected)
    assert router.send(memoryview(session), tuple(frames)) == "sent"
    assert len(wait_until(dealer.receive)) == 64


@pytest.mark.parametrize("frames", [[], [b"fine", "text"], [b"fine", memoryview(b"abcd")[::2]], [b"fine", None], 5])
def test_a_bad_message_is_not_sent_in_part(context: Any, closing: Closing, frames: Any) -> None:
    router = closing(OpenRouter(context))
    session = new_session()
    dealer = closing(DealerConnection(context, router.bind("tcp://127.0.0.1:0"), session))
    meet(router, dealer)
    with pytest.raises((TypeError, ValueError, BufferError)):
        dealer.send(frames)
    assert dealer.send([b"next"])
    assert wait_until(router.receive) == (session, [b"next"])
    with pytest.raises((TypeError, ValueError, BufferError)):
        router.send(session, frames)
    assert router.send(session, [b"answer"]) == "sent"
    assert wait_until(dealer.receive) == [b"answer"]


def test_a_peer_that_takes_nothing_is_full(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    silent = closing(context.socket(zmq.DEALER))
    silent.setsockopt(zmq.ROUTING_ID, b"silent")
    silent.setsockopt(zmq.RCVHWM, 1)
    silent.connect(router.bind("inproc://full"))
    silent.send(b"here")
    wait_until(router.receive)
    outcomes = [router.send(b"silent", [b"x", b"y"]) for _ in range(20_000)]
    assert outcomes[0] == "sent" and outcomes[-1] == "full"


@pytest.mark.parametrize("address", ["tcp", "ipc"], indirect=True)
def test_a_cut_between_messages_costs_none_of_the_next(context: Any, closing: Closing, address: str) -> None:
    """Peers that vanish while many frames are sent: the first message after that arrives whole."""
    router = closing(OpenRouter(context))
    bound = router.bind(address)
    dealer = closing(DealerConnection(context, bound, new_session()))
    for number in range(5):
        connect(router, dealer)
        assert dealer.receive() is None  # whoever sends also receives
        for _ in range(50):
            dealer.send([b"%d" % number] * 50)
        router.close()
        wait_until(lambda: not dealer.send([b"lost"] * 50))
        router = closing(OpenRouter(context))
        wait_until(functools.partial(try_bind, router, bound))
        connect(router, dealer)
        assert dealer.send([b"first", b"%d" % number])
        assert wait_until(router.receive)[1][-2:] == [b"first", b"%d" % number]
        router.close()
        wait_until(lambda: "disconnected" in dealer.connection_events())
        router = closing(OpenRouter(context))
        wait_until(functools.partial(try_bind, router, bound))


def test_a_closed_socket_is_not_touched(context: Any, tmp_path: Path) -> None:
    router = OpenRouter(context)
    dealer = DealerConnection(context, router.bind(f"ipc://{tmp_path}/socket"), new_session())
    dealer.close()
    router.close()
    for call in (lambda: dealer.send([b"x"]), dealer.receive, lambda: router.send(b"p", [b"x"]), router.receive):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == zmq.ENOTSOCK


def test_a_socket_that_its_context_closed_is_not_touched() -> None:
    context = zmq.Context()
    router = OpenRouter(context)
    router.bind("inproc://gone")
    context.destroy(0)
    with pytest.raises(zmq.ZMQError):
        router.receive()


def test_signals_interrupt_nothing(context: Any, closing: Closing) -> None:
    router = closing(OpenRouter(context))
    session = new_session()
    dealer = closing(DealerConnection(context, router.bind("tcp://127.0.0.1:0"), session))
    meet(router, dealer)
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for number in range(200):
            assert dealer.send([b"%d" % number])
            assert wait_until(router.receive) == (session, [b"%d" % number])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


def test_who_announces_more_than_any_message_has_is_hung_up_on(
    context: zmq.Context[zmq.Socket[bytes]], closing: Closing
) -> None:
    """Before it is known who that is: its bytes would be kept until they are all there."""
    router = closing(OpenRouter(context))
    size = 64 * MESSAGE_LIMIT_BYTES
    with greet(router.bind("tcp://127.0.0.1:0")) as connection:
        connection.sendall(b"\x02" + size.to_bytes(8, "big"))
        connection.setblocking(False)
        wait_until(lambda: router.receive() or has_ended(connection))


def test_a_message_as_large_as_any_arrives_of_whoever_speaks_the_protocol(
    context: zmq.Context[zmq.Socket[bytes]], closing: Closing
) -> None:
    router = closing(OpenRouter(context))
    with greet(router.bind("tcp://127.0.0.1:0")) as connection:
        payload = bytes(2 * MESSAGE_LIMIT_BYTES)
        message = b"\x02" + len(payload).to_bytes(8, "big") + payload
        sender = threading.Thread(target=connection.sendall, args=(message,))
        sender.start()
        _, [received] = wait_until(router.receive)
        sender.join()
        assert received == payload
