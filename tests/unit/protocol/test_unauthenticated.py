"""Peers that have not authenticated: what they say, what they may cost, and whom they cannot become."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  a child that has become another user cannot import it any more
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq

from scaler_protocol.address import parse_address
from scaler_protocol.messages import HELLO_LIMIT_BYTES
from scaler_protocol.transport import unauthenticated, zmtp, zmtp_listener
from scaler_protocol.transport.local_socket import local_socket_name
from scaler_protocol.transport.router_socket import RouterSocket
from scaler_protocol.transport.time_share import TimeShare
from tests.support.served_router import ServedRouter
from tests.support.users import as_nobody, needs_root
from tests.support.waiting import wait_until
from tests.support.zmtp import greet, has_ended, send_some

pytestmark = [
    pytest.mark.usefixtures("token"),
    pytest.mark.skipif(sys.platform != "linux", reason="servers run on Linux"),
]

Closing = Callable[[Any], Any]
MORE_FRAMES = b"\x01\x00" * 50_000
"""Empty ones, of a message without an end."""

LARGE_COMMAND = b"\x06" + (4000).to_bytes(8, "big") + bytes(4000)


def frame(payload: bytes, flags: int = 0) -> bytes:
    if len(payload) < 256:
        return bytes((flags, len(payload))) + payload
    return bytes((flags | 2,)) + len(payload).to_bytes(8, "big") + payload


class Served(ServedRouter):
    """A served router, and peers that connect to it."""

    @property
    def count(self) -> int:
        assert self.router.listener is not None
        return len(self.router.listener.unauthenticated)

    def connect(self, identity: bytes = b"") -> socket.socket:
        """One that has shaken hands."""
        connection = greet(self.address, identity or None)
        connection.setblocking(False)
        return connection

    def admitted(self, identity: bytes) -> socket.socket:
        connection = self.connect(identity)
        connection.sendall(frame(b"hello"))
        self.until(lambda: any(peer == identity for peer, _, _ in self.first))
        self.router.admit(identity)
        return connection


@pytest.fixture(params=["tcp://127.0.0.1:0", "tcp://0.0.0.0:0"])
def served(context: Any, closing: Closing, request: pytest.FixtureRequest) -> Served:
    return Served(closing(RouterSocket(context)), request.param)


@pytest.fixture
def local(context: Any, closing: Closing) -> Served:
    return Served(closing(RouterSocket(context)))


@pytest.fixture
def stranger(served: Served) -> Iterator[socket.socket]:
    with served.connect() as connection:
        yield connection


def plain(served: Served) -> socket.socket:
    """One that has said nothing."""
    host, port = served.address.removeprefix("tcp://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.setblocking(False)
    return connection


def flood(served: Served, connection: socket.socket, data: bytes) -> None:
    """Until it is cut off, before it has sent much more than it may."""
    sent = 0
    while not has_ended(connection):
        sent += send_some(connection, data)
        assert sent < 10 * zmtp.SKIPPED_LIMIT_BYTES
        served.serve()


# ---- what they say ---------------------------------------------------------------------------------------------------


def test_a_small_message_is_given_to_the_owner(served: Served) -> None:
    with served.connect(b"peer") as peer:
        peer.sendall(frame(b"h" * HELLO_LIMIT_BYTES))
        assert served.until(lambda: served.first) == [(b"peer", [b"h" * HELLO_LIMIT_BYTES], b"")]
        assert served.messages == []
        assert served.router.send(b"peer", [b"x"]) == "gone", "it has not been admitted"
        assert served.router.answer(b"peer", [b"challenge"]) == "sent"
        received = b""
        peer.setblocking(True)
        while not received.endswith(frame(b"challenge")):
            received += peer.recv(100)


@pytest.mark.parametrize(
    "message",
    [
        frame(b"h" * (HELLO_LIMIT_BYTES + 1)),
        frame(b"a", 1) + frame(b"b"),
        frame(bytes(2_000_000)),
        MORE_FRAMES + b"\0\0",
    ],
    ids=["large", "two frames", "very large", "many frames"],
)
def test_whatever_else_is_dropped_and_told(served: Served, message: bytes) -> None:
    """What a peer had sent to a scheduler that has just gone: it is to be asked who it is, not to be cut off."""
    with served.connect(b"peer") as peer:
        rest = memoryview(message + frame(b"hello"))
        while rest:
            rest = rest[send_some(peer, bytes(rest[:100_000])) :]
            served.serve()
        served.until(lambda: len(served.first) == 2)
        assert served.first == [(b"peer", [], b""), (b"peer", [b"hello"], b"")]
        assert not has_ended(peer)


def test_several_messages(served: Served) -> None:
    with served.connect(b"peer") as peer:
        peer.sendall(frame(b"a" * 8000) * 20)
        served.until(lambda: len(served.first) == 20)


def test_whoever_is_admitted_sends_what_it_likes(served: Served) -> None:
    with served.admitted(b"peer") as peer:
        payload = bytes(1_000_000)
        peer.setblocking(True)
        for number in range(1, 2 * zmtp.SKIPPED_LIMIT_BYTES // len(payload) + 10):
            rest = memoryview(b"\x02" + len(payload).to_bytes(8, "big") + payload)
            while rest:
                rest = rest[peer.send(rest[:50_000]) :]
                served.serve()
            served.until(lambda number=number: len(served.messages) == number)


# ---- whom they cannot become -----------------------------------------------------------------------------------------


def test_nobody_takes_a_peers_place_before_it_has_authenticated(served: Served) -> None:
    with served.admitted(b"peer") as peer, served.connect(b"peer") as thief:
        thief.sendall(frame(b"forged"))
        served.until(lambda: (b"peer", [b"forged"], b"") in served.first)
        assert served.messages == []
        assert served.router.send(b"peer", [b"for the peer"]) == "sent"
        served.until(lambda: b"for the peer" in received(peer))
        assert b"for the peer" not in received(thief)
        peer.sendall(frame(b"still here"))
        served.until(lambda: served.messages == [(b"peer", [b"still here"])])
        served.router.admit(b"peer")
        served.until(lambda: has_ended(peer))
        thief.sendall(frame(b"now it is me"))
        served.until(lambda: served.messages[-1] == (b"peer", [b"now it is me"]))


def received(connection: socket.socket) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return connection.recv(65536, socket.MSG_PEEK)
    return b""


def test_who_comes_back_has_to_authenticate_again(served: Served) -> None:
    peer = served.admitted(b"peer")
    peer.close()
    served.until(lambda: not served.router.probe(b"peer"))
    with served.connect(b"peer") as again:
        again.sendall(frame(b"tasks"))
        served.until(lambda: (b"peer", [b"tasks"], b"") in served.first)
        assert served.messages == []


def test_a_peer_can_be_disconnected(served: Served) -> None:
    with served.admitted(b"peer") as peer, served.connect(b"other") as other:
        other.sendall(frame(b"hello"))
        served.until(lambda: len(served.first) == 2)
        for name, connection in ((b"peer", peer), (b"other", other), (b"nobody", None)):
            served.router.disconnect(name)
            if connection is not None:
                served.until(lambda connection=connection: has_ended(connection))


# ---- what they may cost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [MORE_FRAMES, frame(bytes(1_000_000)), b"\x06" + (4000).to_bytes(8, "big") + bytes(4000)]
)
def test_of_much_nothing_is_kept_and_the_end_comes(served: Served, stranger: socket.socket, data: bytes) -> None:
    before = psutil.Process().memory_info().rss
    if data == LARGE_COMMAND:  # commands are skipped, and cost time only
        for _ in range(200):
            send_some(stranger, data)
            served.serve()
    else:
        flood(served, stranger, data)
    assert psutil.Process().memory_info().rss - before < 20e6


def test_what_was_sent_before_the_end_is_not_kept(local: Served) -> None:
    before = psutil.Process().memory_info().rss
    for _ in range(50):
        with local.connect() as connection:
            for _ in range(20):
                send_some(connection, frame(bytes(1_000_000)))
                local.serve()
    local.until(lambda: local.count == 0)
    assert psutil.Process().memory_info().rss - before < 20e6


@pytest.mark.parametrize("word", [b"", b"\xff", b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0")])
def test_who_never_ends_its_greeting_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
    monkeypatch.setattr(unauthenticated, "HANDSHAKE_SECONDS_LIMIT", 0.2)
    with plain(served) as connection:
        connection.send(word)
        served.until(lambda: has_ended(connection))


def test_who_says_nothing_more_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else it does to seem alive."""
    monkeypatch.setattr(unauthenticated, "HANDSHAKE_SECONDS_LIMIT", 0.2)
    monkeypatch.setattr(unauthenticated, "SECONDS_LIMIT", 0.5)
    with served.connect() as stranger, served.admitted(b"peer") as peer:
        served.until(lambda: (send_some(stranger, b"\x04\x07\x04PING\x00\x00"), has_ended(stranger))[1])
        assert not has_ended(peer) and served.router.probe(b"peer")


def test_of_too_many_the_oldest_goes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "COUNT_LIMIT", 5)
    monkeypatch.setattr(unauthenticated, "GRACE_SECONDS", 0.0)
    with served.admitted(b"peer") as peer:
        several = [plain(served) for _ in range(8)]
        served.until(lambda: [has_ended(each) for each in several] == [True] * 3 + [False] * 5)
        assert not has_ended(peer)
        for each in several:
            each.close()


def test_of_too_many_at_once_the_last_have_to_come_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "COUNT_LIMIT", 5)
    several = [plain(served) for _ in range(8)]
    served.until(lambda: [has_ended(each) for each in several] == [False] * 5 + [True] * 3)
    for each in several:
        each.close()


def test_no_descriptor_is_left(served: Served) -> None:
    served.serve()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        with plain(served) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if number % 4 == 0:
                served.until(lambda connection=connection: has_ended(connection))
    served.until(lambda: len(os.listdir("/proc/self/fd")) == before)


def test_authenticated_peers_are_served_first(local: Served) -> None:
    """However many others have something to say."""
    with local.admitted(b"peer") as peer:
        several = [local.connect() for _ in range(200)]
        for each in several:
            each.sendall(frame(b"h" * 8000) * 5)
        peer.sendall(frame(b"mine"))
        wait_until(lambda: select.select([local.router.fd], [], [], 0)[0])
        messages = local.router.receive_many(100) or local.router.receive_many(100)
        assert messages == [(b"peer", [b"mine"], b"")]
        for each in several:
            each.close()


def test_a_paused_connection_is_not_read_from_until_it_is_resumed(local: Served) -> None:
    router = local.router
    with local.admitted(b"peer") as peer:
        router.pause(b"peer")
        peer.sendall(frame(b"question"))
        assert not (router.receive_many(10) or router.receive_many(10))
        router.resume(b"peer")
        assert wait_until(lambda: router.receive_many(10)) == [(b"peer", [b"question"], b"")]
    router.pause(b"nobody")
    router.resume(b"nobody")


def test_work_counts_until_a_while_after_its_end(
    context: Any, closing: Closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that waits for each of its tasks has none between two of them. Heartbeats alone are no work."""
    begun: list[bool] = []

    class Noted(TimeShare):
        def begin(self, now: float, is_busy: bool) -> float:
            begun.append(is_busy)
            return super().begin(now, is_busy)

    monkeypatch.setattr(zmtp_listener, "TimeShare", Noted)
    monkeypatch.setattr(zmtp_listener, "BUSY_SECONDS", 60.0)
    monkeypatch.setattr(zmtp_listener, "WORK_SECONDS", 60.0)
    served = Served(closing(RouterSocket(context)))
    with served.admitted(b"peer") as peer, served.connect(b"stranger") as stranger:

        def is_busy(has_work: bool) -> bool:
            peer.sendall(frame(b"said"))
            wait_until(served.router.receive)
            stranger.sendall(frame(b"hello"))
            wait_until(lambda: served.router.receive() or list(served.router.unauthenticated_messages(has_work)))
            return begun[-1]

        assert is_busy(True) and is_busy(False)
        monkeypatch.setattr(zmtp_listener, "WORK_SECONDS", 0.0)
        assert not is_busy(False)


def test_without_descriptors_whoever_comes_is_turned_away(local: Served) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = [plain(local) for _ in range(5)]
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    kept = [os.dup(0) for _ in range(highest)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(kept) + 1, limits[1]))
    try:
        while True:
            kept.append(os.dup(0))
    except OSError:
        pass
    try:
        wait_until(lambda: list(local.router.unauthenticated_messages()) or local.router.receive() or True)
        for _ in range(5):
            local.router.receive()
            list(local.router.unauthenticated_messages())
        assert all(has_ended(each) for each in waiting)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in kept:
            os.close(fd)
    with local.connect(b"later") as later:
        later.sendall(frame(b"hello"))
        local.until(lambda: (b"later", [b"hello"], b"") in local.first)


# ---- other users -----------------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("way", ["port", "local socket", "path"])
def test_other_users_are_turned_away_without_a_word(context: Any, closing: Closing, way: str) -> None:
    folder = Path("/tmp") / f"scaler-test-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    try:
        address = f"ipc://{folder}/socket" if way == "path" else "tcp://127.0.0.1:0"
        served = Served(closing(RouterSocket(context)), address)
        if way == "path":
            (folder / "socket").chmod(0o777)

        name = local_socket_name(parse_address(served.address)) if way == "local socket" else None

        def act() -> None:
            with reach(served, name) as theirs:
                theirs.settimeout(10)
                with contextlib.suppress(OSError):
                    theirs.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00")
                assert read(theirs) == b""

        child = as_nobody(act)
        status = served.until(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG), 20)
        assert status.si_status == 0 and served.count == 0
    finally:
        served.router.close()
        folder.rmdir()


def reach(served: Served, local_socket: str | None) -> socket.socket:
    address = parse_address(served.address)
    if address.scheme == "tcp" and local_socket is None:
        return socket.create_connection((address.host, address.port))
    theirs = socket.socket(socket.AF_UNIX)
    theirs.connect(address.path if local_socket is None else f"\0{local_socket}")
    return theirs


def read(theirs: socket.socket) -> bytes:
    try:
        return theirs.recv(64)
    except ConnectionResetError:
        return b""


@needs_root
def test_on_the_network_other_users_are_like_anybody_else(context: Any, closing: Closing) -> None:
    """There is nothing to tell them apart by."""
    served = Served(closing(RouterSocket(context)), "tcp://0.0.0.0:0")
    address = served.address.replace("0.0.0.0", "127.0.0.1")

    def act() -> None:
        with greet(address) as theirs:
            assert theirs.recv(1) == b"\xff"

    child = as_nobody(act)
    status = served.until(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG), 20)
    assert status.si_status == 0


# ---- binding ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_socket_is_left_alone(context: Any, closing: Closing, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    path.write_text("mine")
    with pytest.raises(OSError, match="a file with this name exists"):
        closing(RouterSocket(context)).bind(f"ipc://{path}")
    assert path.read_text() == "mine"


def test_a_path_without_its_folder(context: Any, closing: Closing, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Cannot listen on ipc://.*: No such file or directory"):
        closing(RouterSocket(context)).bind(f"ipc://{tmp_path}/no/socket")


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]", "lo", "localhost", "[::1]"])
def test_forms_of_hosts(context: Any, closing: Closing, host: str) -> None:
    bound = closing(RouterSocket(context)).bind(f"tcp://{host}:0")
    port = int(bound.rsplit(":", 1)[1])
    assert port and bound == f"tcp://{host}:{port}"
    with socket.create_connection(("::1" if host == "[::1]" else "127.0.0.1", port)):
        pass


def test_somebody_else_on_the_name_of_the_local_socket(context: Any, closing: Closing) -> None:
    """It keeps no scheduler from starting: peers use the port."""
    router = closing(RouterSocket(context))
    address = router.bind("tcp://127.0.0.1:0")
    local_socket = local_socket_name(parse_address(address))
    router.close()
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(f"\0{local_socket}")
        squatter.listen()
        served = Served(closing(RouterSocket(context)), address)
        with served.connect(b"peer") as peer:
            peer.sendall(frame(b"hello"))
            served.until(lambda: served.first == [(b"peer", [b"hello"], b"")])


# ---- signs of life ---------------------------------------------------------------------------------------------------


def test_a_silent_peer_is_asked_and_gone_when_it_does_not_answer(local: Served) -> None:
    """Its connection is open: a child that it forked may have it."""
    with local.admitted(b"peer") as peer:
        local.until(lambda: b"\x04\x07\x04PING" in received(peer))
        local.until(lambda: not local.router.probe(b"peer"), 5)
        assert has_ended(peer)


def test_a_silent_peer_that_answers_stays(local: Served) -> None:
    context = zmq.Context()
    try:
        with context.socket(zmq.DEALER) as dealer:  # libzmq answers in its own thread
            dealer.linger = 0
            dealer.routing_id = b"peer"
            dealer.connect(local.address)
            dealer.send(b"hello")
            local.until(lambda: local.first == [(b"peer", [b"hello"], b"")])
            local.router.admit(b"peer")
            with pytest.raises(AssertionError):
                local.until(lambda: not local.router.probe(b"peer"), 4)
    finally:
        context.term()


def test_a_peer_that_knows_no_such_question_is_not_asked(local: Served) -> None:
    with greet(local.address, b"peer", version=b"\x03\x00") as peer:
        peer.setblocking(False)
        peer.sendall(frame(b"hello"))
        local.until(lambda: local.first)
        local.router.admit(b"peer")
        with pytest.raises(AssertionError):
            local.until(lambda: not local.router.probe(b"peer"), 3)
        assert b"PING" not in received(peer)


def test_what_came_while_this_process_stood_still_counts(local: Served) -> None:
    """Nobody was silent meanwhile."""
    with local.admitted(b"peer") as peer:
        local.serve()
        local.until(lambda: b"PING" in received(peer))
        peer.sendall(frame(b"in time"))
        wait_until(lambda: select.select([local.router.fd], [], [], 0)[0])
        import time

        time.sleep(3)  # of this process, which serves nobody meanwhile
        local.until(lambda: (b"peer", [b"in time"]) in local.messages)
        assert local.router.probe(b"peer")
