"""ZeroMQ's protocol as we speak it on this machine: with libzmq, with itself, and with what is no ZMTP at all."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import zmq

from scaler_protocol.address import parse_address
from scaler_protocol.ids import new_session
from scaler_protocol.transport import unauthenticated
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.local_socket import local_socket_name
from scaler_protocol.transport.zmtp import WAITING_LIMIT_BYTES, ZmtpConnection
from tests.support.routers import OpenRouter
from tests.support.users import as_nobody, needs_root
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("token"),
    pytest.mark.skipif(sys.platform != "linux", reason="there are no abstract unix sockets"),
]

Closing = Callable[[Any], Any]

SIZES = [0, 1, 2, 254, 255, 256, 257, 65_535, 65_536, 65_537, 2**20 - 1, 2**20, 2**20 + 1]
MESSAGES: list[list[bytes]] = [
    *[[os.urandom(size)] for size in SIZES if size],
    [os.urandom(size) for size in SIZES],
    [b"", b""],
    [b"", b"behind an empty frame"],
    [bytes([number]) * number for number in range(64)],
]

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(payload: bytes, flags: int = 0) -> bytes:
    if len(payload) < 256:
        return bytes((flags, len(payload))) + payload
    return bytes((flags | 2,)) + len(payload).to_bytes(8, "big") + payload


def command(name: bytes, data: bytes = b"") -> bytes:
    return frame(bytes((len(name),)) + name + data, 4)


def ready(kind: bytes = b"ROUTER", identity: bytes = b"") -> bytes:
    properties = ((b"Socket-Type", kind), (b"Identity", identity))
    named = ((bytes((len(name),)) + name, len(value).to_bytes(4, "big") + value) for name, value in properties)
    return command(b"READY", b"".join(name + value for name, value in named))


def message(frames: Sequence[bytes]) -> bytes:
    return b"".join(frame(each, 1) for each in frames[:-1]) + frame(frames[-1])


@pytest.fixture
def ends(closing: Closing) -> tuple[ZmtpConnection, socket.socket]:
    """A DEALER of ours, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    return closing(ZmtpConnection(ours, "DEALER", b"me")), closing(theirs)


class Router(OpenRouter):
    """One that listens."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        super().__init__(context)
        self.address = self.bind("tcp://127.0.0.1:0")

    @property
    def local_socket(self) -> str:
        name = local_socket_name(parse_address(self.address))
        assert name is not None
        return name


@pytest.fixture
def router(context: Any, closing: Closing) -> Router:
    router: Router = closing(Router(context))
    return router


def plain(router: Router) -> socket.socket:
    """A bare connection to what the router listens on beside its port."""
    return connected_to(router.local_socket)


def connected_to(name: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(10)
    connected.connect("\0" + name)
    return connected


def dealer_of(context: Any, router: Router, session: bytes) -> DealerConnection:
    dealer = DealerConnection(context, router.address, session)
    wait_until(lambda: router.receive() is None and "connected" in dealer.connection_events())
    wait_until(lambda: router.receive() is None and router.probe(session))
    assert dealer.stream is not None and dealer.receive() is None
    return dealer


def readable(fd: int, seconds: float = 5.0) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])


def take(receive: Callable[[], Any], count: int) -> list[Any]:
    """At least so many messages."""
    taken: list[Any] = []
    wait_until(lambda: taken.extend(iter(receive, None)) or len(taken) >= count)
    return taken


def shake_hands(connection: ZmtpConnection) -> ZmtpConnection:
    wait_until(lambda: connection.look() or connection.is_ready)
    return connection


def read_all(theirs: socket.socket) -> bytes:
    """Until the other end is gone."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := theirs.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


# ---- with libzmq ----------------------------------------------------------------------------------------------------


def libzmq_router(context: Any, closing: Closing, **options: int) -> tuple[Any, ZmtpConnection]:
    theirs = closing(context.socket(zmq.ROUTER))
    theirs.rcvtimeo = 10_000
    for name, value in options.items():
        setattr(theirs, name, value)
    name = f"scaler-test-{uuid.uuid4().hex}"
    theirs.bind(f"ipc://@{name}")
    return theirs, shake_hands(closing(ZmtpConnection(connected_to(name), "DEALER", b"our dealer")))


def test_our_dealer_and_the_router_of_libzmq(context: Any, closing: Closing) -> None:
    theirs, ours = libzmq_router(context, closing)
    for frames in MESSAGES:
        assert ours.send(frames)
        pump = threading.Thread(target=drain_until_written, args=(ours,))
        pump.start()
        assert theirs.recv_multipart() == [b"our dealer", *frames]
        pump.join()
    for frames in MESSAGES:
        theirs.send_multipart([b"our dealer", *frames])
    assert take(ours.receive, len(MESSAGES)) == MESSAGES


def drain_until_written(ours: ZmtpConnection) -> None:
    wait_until(lambda: ours.receive() is None and not ours.waiting_bytes)


def test_the_dealer_of_libzmq_and_our_router(context: Any, closing: Closing, router: Router) -> None:
    theirs = closing(context.socket(zmq.DEALER))
    theirs.rcvtimeo = 10_000
    theirs.routing_id = b"their dealer"
    theirs.connect(f"ipc://@{router.local_socket}")
    for frames in MESSAGES:
        theirs.send_multipart(frames)
    assert take(router.receive, len(MESSAGES)) == [(b"their dealer", frames) for frames in MESSAGES]
    for frames in MESSAGES:
        assert router.send(b"their dealer", frames) == "sent"
    answers: list[list[bytes]] = []
    wait_until(lambda: router.receive() or received(theirs, answers) or len(answers) == len(MESSAGES))
    assert answers == MESSAGES


def received(theirs: Any, into: list[list[bytes]]) -> None:
    while theirs.poll(0):
        into.append(theirs.recv_multipart())


def test_heartbeats_of_libzmq_are_answered(context: Any, closing: Closing) -> None:
    theirs, ours = libzmq_router(context, closing, heartbeat_ivl=10, heartbeat_timeout=100, heartbeat_ttl=100)
    alarm = threading.Event()
    timer = threading.Timer(0.5, alarm.set)  # several times the timeout
    timer.start()
    while not alarm.is_set():
        readable(ours.fd, 0.05)
        assert ours.receive() is None and not ours.has_ended
    assert ours.send([b"still here"])
    assert theirs.recv_multipart() == [b"our dealer", b"still here"]


# ---- byte by byte ---------------------------------------------------------------------------------------------------


SPOKEN: list[list[bytes]] = [[b"one"], [b"", b"x" * 300, b""], [b"y" * 255, b"z" * 256], [b"last"]]
SPEECH = GREETING + ready() + b"".join(message(each) for each in SPOKEN)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_cut_anywhere(ends: tuple[ZmtpConnection, socket.socket], seed: int) -> None:
    ours, theirs = ends
    chosen = random.Random(seed)
    places = sorted(chosen.sample(range(1, len(SPEECH)), chosen.choice((1, 5, 50, len(SPEECH) - 1))))
    got: list[list[bytes]] = []
    for start, end in pairwise([0, *places, len(SPEECH)]):
        theirs.sendall(SPEECH[start:end])
        ours.look()
        got += iter(ours.receive, None)
    assert got == SPOKEN


def test_commands_between_frames(ends: tuple[ZmtpConnection, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(GREETING + ready() + frame(b"first", 1))
    theirs.sendall(command(b"PING", b"\0\x10context") + command(b"UNHEARD", b"of") + frame(b"second"))
    shake_hands(ours)
    assert take(ours.receive, 1) == [[b"first", b"second"]]
    ours.close()
    assert read_all(theirs).endswith(command(b"PONG", b"context"))


@pytest.mark.parametrize("seed", range(30))
def test_garbage_ends_the_connection_or_waits_for_more(ends: tuple[ZmtpConnection, socket.socket], seed: int) -> None:
    ours, theirs = ends
    chosen = random.Random(seed)
    speech = bytearray(SPEECH)
    for place in chosen.sample(range(len(speech)), 5):
        speech[place] = chosen.randrange(256)
    speech += chosen.randbytes(chosen.choice((0, 10, 10_000)))
    with contextlib.suppress(BrokenPipeError):
        theirs.sendall(speech)
    theirs.close()
    wait_until(lambda: ours.look() or list(iter(ours.receive, None)) or ours.has_ended)


LONG_IDENTITY = ready(identity=b"x" * 256)
REFUSED = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "an old version": GREETING[:10] + b"\x02\x00" + GREETING[12:],
    "another mechanism": GREETING[:12] + b"CURVE".ljust(20, b"\0") + GREETING[32:],
    "another kind of socket": GREETING + ready(b"PUB"),
    "a dealer, as we are": GREETING + ready(b"DEALER"),
    "no kind of socket": GREETING + command(b"READY"),
    "a message before it is ready": GREETING + frame(b"too soon"),
    "a ping before it is ready": GREETING + command(b"PING", b"\0\0"),
    "any command before it is ready": GREETING + command(b"SUBSCRIBE") * 100,
    "an error": GREETING + command(b"ERROR", b"\x02no"),
    "properties cut off": GREETING + command(b"READY", b"\x0bSocket-Type\0\0\0\xffROUTER"),
    "a name without a value": GREETING + command(b"READY", b"\xffSocket-Type"),
    "a long identity": GREETING + LONG_IDENTITY,
    "a huge command": GREETING + b"\x06" + (5000).to_bytes(8, "big"),
    "flags that there are not": GREETING + b"\x08\x00",
    "a command with more to come": GREETING + b"\x05\x00",
}
REFUSED_LATER = {
    "ready again": ready(identity=b"another"),
    "a frame too long to be": b"\x02" + b"\x7f" * 8,
    "a frame longer than a message may be": b"\x02" + (2**22 + 1).to_bytes(8, "big"),
    "65 frames": frame(b"", 1) * 65,
    "a ping that says too much": command(b"PING", b"\0\0" + bytes(17)),
    "flags that there are not": b"\x80\x00",
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_handshakes(ends: tuple[ZmtpConnection, socket.socket], what: str) -> None:
    ours, theirs = ends
    theirs.sendall(REFUSED[what])
    wait_until(lambda: ours.look() or ours.has_ended)
    assert not ours.is_ready and not ours.send([b"x"]) and ours.receive() is None
    assert read_all(theirs).startswith(GREETING)  # and then the end


@pytest.mark.parametrize("what", REFUSED_LATER)
def test_refused_later(ends: tuple[ZmtpConnection, socket.socket], what: str) -> None:
    ours, theirs = ends
    theirs.sendall(GREETING + ready() + message([b"before"]) + REFUSED_LATER[what] + message([b"behind"]))
    shake_hands(ours)
    assert take(ours.receive, 1) == [[b"before"]]
    wait_until(lambda: ours.receive() or ours.has_ended)
    assert not ours.send([b"x"])
    read_all(theirs)


def test_who_becomes_another_is_lost_as_who_it_was(router: Router, closing: Closing) -> None:
    theirs = closing(plain(router))
    theirs.sendall(GREETING + ready(b"DEALER", b"first") + message([b"hello"]))
    assert wait_until(router.receive) == (b"first", [b"hello"])
    theirs.sendall(message([b"mine"]) + ready(b"DEALER", b"second") + message([b"forged"]))
    assert wait_until(router.receive) == (b"first", [b"mine"])
    assert wait_until(lambda: router.receive() or router.disconnected_events()) == 1
    assert router.send(b"first", [b"x"]) == "gone" and router.send(b"second", [b"x"]) == "gone"


def test_who_has_no_name_gets_one(router: Router, closing: Closing) -> None:
    several = [closing(plain(router)) for _ in range(3)]
    for theirs in several:
        theirs.sendall(GREETING + ready(b"DEALER") + message([b"hello"]))
    names = {name for name, _ in take(router.receive, 3)}
    assert len(names) == 3 and all(name[:1] == b"\0" and router.probe(name) for name in names)


@pytest.mark.parametrize("word", [b"", GREETING[:40], GREETING, GREETING + b"\x06"])
def test_who_does_not_end_his_handshake_is_cut_off(
    router: Router, closing: Closing, monkeypatch: pytest.MonkeyPatch, word: bytes
) -> None:
    monkeypatch.setattr(unauthenticated, "HANDSHAKE_SECONDS_LIMIT", 0.2)
    slow, quick = closing(plain(router)), closing(plain(router))
    slow.sendall(word)
    quick.sendall(GREETING + ready(b"DEALER", b"quick") + message([b"hello"]))
    assert wait_until(router.receive) == (b"quick", [b"hello"])
    slow.setblocking(False)
    wait_until(lambda: router.receive() or ended(slow))
    with pytest.raises(AssertionError):
        wait_until(lambda: router.receive() or router.disconnected_events(), 0.4)
    assert router.probe(b"quick")


def ended(theirs: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        while theirs.recv(65536):
            pass
        return True
    return False


def test_of_too_many_half_open_connections_the_oldest_goes(
    router: Router, closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "COUNT_LIMIT", 5)
    monkeypatch.setattr(unauthenticated, "GRACE_SECONDS", 0.0)
    done = closing(plain(router))
    done.sendall(GREETING + ready(b"DEALER", b"done") + message([b"hello"]))
    assert wait_until(router.receive) == (b"done", [b"hello"])
    several = [closing(plain(router)) for _ in range(8)]
    for each in several:
        each.setblocking(False)
    wait_until(lambda: router.receive() or [ended(each) for each in several] == [True] * 3 + [False] * 5)
    assert router.probe(b"done") and router.disconnected_events() == 0


def test_who_asks_and_reads_no_answers_is_cut_off(closing: Closing) -> None:
    """As long as it has not authenticated it gets little to wait for it."""
    ours, theirs = socket.socketpair()
    connection = closing(ZmtpConnection(ours, "ROUTER", is_limited=True))
    theirs.setblocking(False)
    closing(theirs).sendall(GREETING + ready(b"DEALER"))
    pings, sent = command(b"PING", b"\0\0") * 500, 0
    while not connection.has_ended:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            sent += theirs.send(pings)
        connection.look()
        connection.receive()
        assert sent < 20e6


# ---- wake-ups -------------------------------------------------------------------------------------------------------


def test_who_waits_for_messages_misses_no_connection(context: Any, closing: Closing, router: Router) -> None:
    """Whatever is called in between, the descriptor for events tells of the connection."""
    dealer = closing(DealerConnection(context, router.address, new_session()))
    for _ in range(5):
        router.receive()
        assert dealer.receive() is None and not dealer.send([b"x"]) and not readable(dealer.fd, 0)
    assert readable(dealer.monitor_fd)
    assert wait_until(lambda: router.receive() or dealer.connection_events()) == ["connected"]
    assert not readable(dealer.monitor_fd, 0) and not readable(dealer.fd, 0)


def test_garbage_of_a_scheduler_is_told_as_an_end(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    stream = dealer.stream
    assert stream is not None
    ours = closing(socket.socket(fileno=os.dup(stream.fd)))
    router.close()
    assert readable(dealer.monitor_fd)
    assert wait_until(dealer.connection_events) == ["disconnected"]
    assert dealer.stream is None and ours.recv(1) == b""


def test_each_message_wakes(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    for size in (1, 65_535, 65_536, 2**20):
        assert dealer.send([bytes(size)] * 2)
        wait_until(lambda: dealer.receive() or router.receive())
        assert router.receive() is None and not readable(router.fd, 0)
        assert router.send(b"a session", [bytes(size)] * 2) == "sent"
        wait_until(lambda: router.receive() or (readable(dealer.fd) and dealer.receive()))
        assert dealer.receive() is None and not readable(dealer.fd, 0)


def test_what_waits_leaves_in_order_when_there_is_room(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    count = 20_000
    for number in range(count):
        assert dealer.send([b"%d" % number, bytes(1000)])
    assert dealer.stream is not None and dealer.stream.waiting_bytes > 1_000_000
    assert not readable(dealer.fd, 0)  # no room
    got: list[bytes] = []
    while len(got) < count:
        assert readable(router.fd)
        got += [frames[0] for _, frames in iter(router.receive, None)]
        assert dealer.receive() is None
    assert got == [b"%d" % number for number in range(count)]
    assert not dealer.stream.waiting_bytes and not readable(dealer.fd, 0)


def test_who_never_reads_is_cut_off(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    assert router.send(b"a session", [b"first"]) == "sent"
    large = [bytes(2**20)] * 4
    outcomes = [router.send(b"a session", large) for _ in range(WAITING_LIMIT_BYTES // 2**22 + 10)]
    assert outcomes[0] == "sent" and outcomes[-1] == "gone"
    assert wait_until(lambda: router.receive() or router.disconnected_events()) == 1
    assert dealer.receive() == [b"first"]  # what the kernel had taken
    wait_until(lambda: dealer.receive() is None and "disconnected" in dealer.connection_events())


def test_threads_that_send_while_one_receives(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    lock, count = threading.Lock(), 1000

    def send(name: bytes) -> None:
        for number in range(count):
            with lock:
                assert dealer.send([name, b"%d" % number, bytes(random.randrange(3000))])

    def echo() -> None:
        for _ in range(4 * count):
            peer, frames = wait_until(router.receive)
            assert router.send(peer, frames) == "sent"
        while not done.is_set():
            router.receive()

    done = threading.Event()
    threads = [threading.Thread(target=send, args=(bytes((65 + number,)),)) for number in range(4)]
    threads.append(threading.Thread(target=echo))
    for thread in threads:
        thread.start()
    got: dict[bytes, list[int]] = {}
    while sum(map(len, got.values())) < 4 * count:
        assert readable(dealer.fd)
        with lock:
            for name, number, _ in iter(dealer.receive, None):
                got.setdefault(name, []).append(int(number))
    done.set()
    for thread in threads:
        thread.join()
    assert list(got.values()) == [list(range(count))] * 4


# ---- processes ------------------------------------------------------------------------------------------------------


PEER = """
import os, signal, sys, zmq
from scaler_protocol.transport.dealer_connection import DealerConnection
dealer = DealerConnection(zmq.Context(), sys.argv[1], b"a peer with a child")
while "connected" not in dealer.connection_events(): pass
dealer.send([b"hello"])
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
print(os.getpid(), flush=True)
signal.pause()
"""


def test_the_end_of_a_process_whose_child_lives_on(router: Router) -> None:
    peer = subprocess.Popen([sys.executable, "-c", PEER, router.address], stdout=subprocess.PIPE)
    assert peer.stdout is not None
    child = 0
    try:
        assert wait_until(router.receive, 20) == (b"a peer with a child", [b"hello"])
        child = int(peer.stdout.readline())
        assert wait_until(lambda: router.receive() or router.disconnected_events()) == 1
        assert router.send(b"a peer with a child", [b"x"]) == "gone"
        os.kill(child, 0)  # lives, and has the descriptor
    finally:
        peer.kill()
        peer.wait()
        peer.stdout.close()
        if child:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_disturbs_nothing(context: Any, closing: Closing, router: Router) -> None:
    dealer = closing(dealer_of(context, router, b"a session"))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            dealer.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert dealer.send([b"still"])
    assert wait_until(router.receive) == (b"a session", [b"still"])
    assert router.send(b"a session", [b"here"]) == "sent"
    assert readable(dealer.fd) and wait_until(dealer.receive) == [b"here"]
    assert dealer.connection_events() == [] and router.disconnected_events() == 0
    router.close()
    assert readable(dealer.monitor_fd) and dealer.connection_events() == ["disconnected"]


def test_no_descriptor_is_left(context: Any, closing: Closing, router: Router) -> None:
    before = len(os.listdir("/proc/self/fd"))
    dealers = [dealer_of(context, router, b"%d" % number) for number in range(20)]
    for dealer in dealers:
        dealer.close()
    lost = 0
    while lost < 20:
        assert readable(router.fd) and router.receive() is None
        lost += router.disconnected_events()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_without_descriptors_turns_away(context: Any, closing: Closing, router: Router) -> None:
    """Who waits is told at once, and whoever comes when there are some again is let in."""
    waiting = [closing(plain(router)) for _ in range(10)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers = [closing(socket.socket()) for _ in range(50)]  # no number below theirs is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(each.fileno() for each in fillers) + 5, hard))
    try:
        for _ in range(30):
            assert router.receive() is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    answers = [each.recv(64, socket.MSG_DONTWAIT) for each in waiting]
    assert 0 < answers.count(b"") < 10 and answers.count(b"") + answers.count(GREETING) == 10
    closing(dealer_of(context, router, b"later"))


EVENTS = """
import select, sys, zmq
from scaler_protocol.transport.dealer_connection import DealerConnection
dealer = DealerConnection(zmq.Context(), sys.argv[1], b"a peer")
while True:
    select.select([dealer.monitor_fd], [], [], 1)
    for event in dealer.connection_events():
        print(event, flush=True)
    dealer.send([b"hello"])
"""


@pytest.mark.parametrize("left", [1, 2, 3, 4, 7])
def test_a_peer_with_too_few_descriptors_for_libzmq_lives_on(router: Router, left: int) -> None:
    """Where one is missing for its first socket libzmq would end the process."""
    peer = subprocess.Popen([sys.executable, "-c", EVENTS, router.address], stdout=subprocess.PIPE, text=True)
    assert peer.stdout is not None
    try:
        assert wait_until(router.receive, 20) == (b"a peer", [b"hello"])
        assert peer.stdout.readline() == "connected\n"
        used = len(os.listdir(f"/proc/{peer.pid}/fd"))
        limits = resource.prlimit(peer.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (used + left - 1, limits[1]))
        router.close()
        assert peer.stdout.readline() == "disconnected\n"
        with pytest.raises(AssertionError):
            wait_until(lambda: peer.poll() is not None, 0.5)
    finally:
        peer.kill()
        peer.communicate()


WITHOUT_MEMORY = """
import resource
from scaler_protocol.ids import new_session
from scaler_protocol.transport.context import new_context
from tests.support.waiting import wait_until
from tests.unit.protocol.test_zmtp import Router, dealer_of, shake_hands

context = new_context()
router = Router(context)
large, small = dealer_of(context, router, new_session()), dealer_of(context, router, new_session())
received = []

def read():
    try:
        received.extend(router.receive_many(1))
    except MemoryError as error:
        received.append(error)
    return len(received) >= 2

assert large.send([bytes(3 * 2**20)]) and small.send([b"small"])
limits = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, limits[1]))
wait_until(read)
resource.setrlimit(resource.RLIMIT_AS, limits)
assert received[0][1] == [b"small"], received
assert isinstance(received[1], MemoryError), received
assert router.disconnected_events() == 1
wait_until(lambda: "disconnected" in large.connection_events())
assert small.connection_events() == []
wait_until(lambda: (read(), "connected" in large.connection_events())[1])
del received[:]
assert large.send([bytes(3 * 2**20)])
wait_until(lambda: (large.connection_events(), read(), received)[2])
for each in (large, small, router):
    each.close()
context.term()
print("repeated")
"""


def test_a_connection_for_whose_message_there_is_no_memory_ends_alone_and_it_is_raised() -> None:
    """Its peer connects again, and sends the message again. What another peer has sent is not lost with it."""
    always_mapped = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}  # or memory freed earlier would be used
    program = [sys.executable, "-c", WITHOUT_MEMORY]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, env=always_mapped)
    assert done.stdout == "repeated\n", done.stderr


@needs_root
def test_another_user_is_turned_away_without_a_word(router: Router) -> None:
    name = router.local_socket

    def act() -> None:
        with connected_to(name) as theirs:
            assert theirs.recv(64) == b""

    child = as_nobody(act)
    ended = wait_until(lambda: router.receive() or os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG))
    assert ended.si_status == 0


@needs_root
def test_another_user_that_listens_is_told_nothing(context: Any, closing: Closing, router: Router) -> None:
    """It takes the name that it saw when a scheduler was there."""
    address, name = router.address, router.local_socket
    router.close()
    told, tell = os.pipe()

    def act() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen()
            os.write(tell, b"listening")
            signal.pause()

    child = as_nobody(act)
    try:
        os.read(told, 100)
        dealer = closing(DealerConnection(context, address, new_session()))
        assert dealer.stream is None
        assert wait_until(lambda: dealer.connection_events() == [] and dealer.stream is None)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
