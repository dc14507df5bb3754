"""CURVE's handshake and sealed frames, against themselves and against libzmq."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from nacl import bindings
from zmq.utils import z85

from scaler_protocol.keys import PeerKeys
from scaler_protocol.transport.curve import CurveClient, CurveServer, CurveStep
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_protocol.transport.frame_cipher import CurveError
from scaler_protocol.transport.zmtp import ZmtpConnection
from tests.support.waiting import wait_until

Closing = Callable[[Any], Any]

SERVER_PUBLIC, SERVER_SECRET = new_key_pair()
CLIENT_PUBLIC, CLIENT_SECRET = new_key_pair()
KEYS = PeerKeys(CLIENT_SECRET, SERVER_PUBLIC)
GREETING_SIZE = 64


def user_of(public: bytes) -> bytes | None:
    return b"submit::" + public if public == CLIENT_PUBLIC else None


def server() -> CurveServer:
    made = CurveServer(SERVER_SECRET, user_of)
    assert made.begin(b"of the server") == b""
    return made


def client(keys: PeerKeys = KEYS) -> tuple[CurveClient, bytes]:
    """One with its first command."""
    made = CurveClient(keys)
    return made, made.begin(b"of the client")


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


# ---- the handshake ---------------------------------------------------------------------------------------------------


def test_both_ends_learn_the_properties_of_the_other_and_the_server_the_user() -> None:
    ours, (theirs, hello) = server(), client()
    welcome = ours.on_command(hello)
    initiate = theirs.on_command(welcome.answer)
    ready = ours.on_command(initiate.answer)
    end = theirs.on_command(ready.answer)
    assert [len(each) for each in (hello, welcome.answer)] == [200, 168]  # as the standard says
    assert welcome == CurveStep(welcome.answer) and initiate == CurveStep(initiate.answer)
    assert (ready.properties, end.properties) == (b"of the client", b"of the server")
    assert ready.cipher is not None and end.cipher is not None and end.answer == b""
    assert ours.user == b"submit::" + CLIENT_PUBLIC


def test_a_key_that_is_not_known_is_refused() -> None:
    ours, (theirs, hello) = server(), client(PeerKeys(new_key_pair()[1], SERVER_PUBLIC))
    initiate = theirs.on_command(ours.on_command(hello).answer).answer
    refusal = ours.on_command(initiate)
    assert refusal == CurveStep(b"\x05ERROR\x03400", is_refused=True) and ours.user == b""
    assert theirs.on_command(refusal.answer) == CurveStep(is_refused=True)


def test_while_the_keys_cannot_be_read_a_client_is_told_nothing() -> None:
    def unreadable(public: bytes) -> bytes | None:
        raise OSError("The directory is not there now.")

    ours, (theirs, hello) = CurveServer(SERVER_SECRET, unreadable), client()
    initiate = theirs.on_command(ours.on_command(hello).answer).answer
    with pytest.raises(CurveError, match="cannot be read"):
        ours.on_command(initiate)


def test_an_error_of_another_kind_is_no_refusal() -> None:
    ours, (theirs, hello) = server(), client()
    theirs.on_command(ours.on_command(hello).answer)
    assert theirs.on_command(b"\x05ERROR\x03500") == CurveStep()
    with pytest.raises(CurveError):
        theirs.on_command(b"\x05ERROR\x03400")


def test_whoever_has_not_proved_that_it_is_the_server_cannot_refuse() -> None:
    """Another process may listen on the port of a scheduler that restarts. A refused client gives up its tasks."""
    theirs, _ = client()
    with pytest.raises(CurveError):
        theirs.on_command(b"\x05ERROR\x03400")


def test_a_server_with_another_key_cannot_open_a_hello() -> None:
    _, hello = client(PeerKeys(CLIENT_SECRET, new_key_pair()[0]))
    with pytest.raises(CurveError):
        server().on_command(hello)


@pytest.mark.parametrize("at", range(8, 200, 7))
def test_a_changed_hello_is_not_accepted(at: int) -> None:
    _, hello = client()
    if 8 <= at < 80:  # the padding says nothing
        return
    with pytest.raises(CurveError):
        server().on_command(flipped(hello, at))


@pytest.mark.parametrize("at", range(8, 168, 7))
def test_a_changed_welcome_is_not_accepted(at: int) -> None:
    theirs, hello = client()
    with pytest.raises(CurveError):
        theirs.on_command(flipped(server().on_command(hello).answer, at))


@pytest.mark.parametrize("at", range(9, 260, 11))
def test_a_changed_initiate_is_not_accepted(at: int) -> None:
    ours, (theirs, hello) = server(), client()
    initiate = theirs.on_command(ours.on_command(hello).answer).answer
    with pytest.raises(CurveError):
        ours.on_command(flipped(initiate, at))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 30, 100, 167, 199, 250])
def test_a_command_that_is_cut_off_is_not_accepted(size: int) -> None:
    ours, (theirs, hello) = server(), client()
    welcome = ours.on_command(hello).answer
    initiate = theirs.on_command(welcome).answer
    for end, command in ((server(), hello), (client()[0], welcome), (ours, initiate)):
        with pytest.raises(CurveError):
            end.on_command(command[: min(size, len(command) - 1)])


def test_a_voucher_is_good_for_one_connection() -> None:
    """A client that was made to connect to an impostor's key cannot be impersonated with what it has said."""
    ours, (theirs, hello) = server(), client()
    initiate = theirs.on_command(ours.on_command(hello).answer).answer
    again = server()
    again.on_command(hello)
    with pytest.raises(CurveError):
        again.on_command(initiate)


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31)])
def test_a_public_key_that_gives_the_secret_away_is_not_accepted(public: bytes) -> None:
    _, hello = client()
    with pytest.raises(CurveError):
        server().on_command(hello[:80] + public + hello[112:])


@pytest.mark.parametrize("name", [b"READY", b"INITIATE", b"WELCOME", b"PING", b"MESSAGE", b""])
def test_a_server_expects_a_hello_first(name: bytes) -> None:
    with pytest.raises(CurveError, match="instead of b'HELLO'"):
        server().on_command(bytes((len(name),)) + name + bytes(192))


def test_nothing_follows_the_end_of_the_handshake() -> None:
    ours, (theirs, hello) = server(), client()
    initiate = theirs.on_command(ours.on_command(hello).answer).answer
    ready = ours.on_command(initiate).answer
    theirs.on_command(ready)
    for end, command in ((ours, initiate), (ours, hello), (theirs, ready)):
        with pytest.raises(CurveError):
            end.on_command(command)


# ---- connections -----------------------------------------------------------------------------------------------------


class Wire:
    """Two connections, and what one sends the other in between."""

    def __init__(self, keys: PeerKeys = KEYS) -> None:
        ours, self.from_client = socket.socketpair()
        theirs, self.from_server = socket.socketpair()
        self.client = ZmtpConnection(ours, "DEALER", b"a client", curve=CurveClient(keys))
        self.server = ZmtpConnection(theirs, "ROUTER", curve=CurveServer(SERVER_SECRET, user_of))
        for each in (self.from_client, self.from_server):
            each.setblocking(False)

    def carry(self) -> None:
        while self.carry_once(self.from_client, self.from_server) + self.carry_once(self.from_server, self.from_client):
            self.client.look()
            self.server.look()

    def carry_once(self, source: socket.socket, target: socket.socket) -> int:
        data = self.taken(source)
        try:
            target.sendall(data)
        except BrokenPipeError:
            return 0
        return len(data)

    def taken(self, source: socket.socket) -> bytes:
        try:
            return source.recv(1_000_000)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        for each in (self.client, self.server, self.from_client, self.from_server):
            each.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    made.carry()
    assert made.client.is_ready and made.server.is_ready
    yield made
    made.close()


def received(connection: ZmtpConnection) -> list[bytes] | None:
    return connection.receive() or connection.receive()


def test_messages_are_sealed_on_the_wire(wire: Wire) -> None:
    assert wire.server.identity == b"a client" and wire.server.user == b"submit::" + CLIENT_PUBLIC
    assert wire.client.send([b"a secret word", bytes(100_000), bytearray(b"of a client"), b""])
    data = wire.taken(wire.from_client)
    assert b"secret" not in data and bytes(100) not in data
    wire.from_server.sendall(data)
    assert received(wire.server) == [b"a secret word", bytes(100_000), b"of a client", b""]
    assert wire.server.send_together([b"one", b"two"])
    wire.carry()
    assert [received(wire.client), received(wire.client)] == [[b"one"], [b"two"]]


@pytest.mark.parametrize("change", ["flip", "repeat", "leave out", "swap"])
def test_whoever_changes_the_stream_ends_the_connection(wire: Wire, change: str) -> None:
    frames = []
    for word in (b"first", b"second"):
        assert wire.client.send([word])
        frames.append(wire.taken(wire.from_client))
    first, second = frames
    changed = {
        "flip": flipped(first, 30) + second,
        "repeat": first + first,
        "leave out": second,  # numbers may have gaps, the words still come in order
        "swap": second + first,
    }[change]
    wire.from_server.sendall(changed)
    words = [received(wire.server), received(wire.server)]
    expected = {"flip": [None, None], "repeat": [[b"first"], None], "leave out": [[b"second"], None]}
    assert words == expected.get(change, [[b"second"], None])
    assert wire.server.has_ended == (change != "leave out")


@pytest.mark.parametrize(
    "frame", [b"\x00\x05plain", b"\x04\x07\x04PING\0\0", b"\x01\x05plain", b"\x00\x30" + b"\x07MESSAGE" + bytes(40)]
)
def test_nothing_is_said_outside_sealed_frames(wire: Wire, frame: bytes) -> None:
    wire.from_server.sendall(frame)
    assert received(wire.server) is None and wire.server.has_ended


def test_questions_for_a_sign_of_life_are_sealed_too(wire: Wire) -> None:
    assert wire.server.ping()
    data = wire.taken(wire.from_server)
    assert b"PING" not in data
    wire.from_client.sendall(data)
    assert received(wire.client) is None
    wire.carry()
    assert received(wire.server) is None and wire.server.take_sign_of_life()


def test_an_interruption_while_a_frame_is_opened_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames that were read with it are lost, so none may follow."""
    interruptions: list[BaseException] = []
    opens = bindings.crypto_box_open_afternm

    def interrupted(*arguments: bytes) -> bytes:
        if interruptions:
            raise interruptions.pop()
        return opens(*arguments)

    monkeypatch.setattr(bindings, "crypto_box_open_afternm", interrupted)
    wire = Wire()
    wire.carry()
    interruptions.append(KeyboardInterrupt())
    assert wire.client.send([b"first"]) and wire.client.send([b"second"])
    wire.from_server.sendall(wire.taken(wire.from_client))
    with pytest.raises(KeyboardInterrupt):
        received(wire.server)
    assert wire.server.has_ended and received(wire.server) is None
    wire.close()


def test_a_refused_client_knows_that_it_was_refused() -> None:
    wire = Wire(PeerKeys(new_key_pair()[1], SERVER_PUBLIC))
    wire.carry()
    assert wire.client.was_refused and wire.client.has_ended and not wire.client.is_ready
    assert wire.server.was_refused and wire.server.has_ended and wire.server.user == b""
    wire.close()


# ---- libzmq ----------------------------------------------------------------------------------------------------------


def talk(connection: ZmtpConnection, condition: Callable[[], Any]) -> Any:
    return wait_until(lambda: connection.look() or condition())


def test_a_client_of_libzmq_is_understood(context: Any, closing: Closing) -> None:
    listening = closing(socket.create_server(("127.0.0.1", 0)))
    theirs = closing(context.socket(zmq.DEALER))
    theirs.curve_serverkey, theirs.curve_secretkey, theirs.curve_publickey = SERVER_PUBLIC, CLIENT_SECRET, CLIENT_PUBLIC
    theirs.routing_id = b"of libzmq"
    theirs.heartbeat_ivl = 100
    theirs.connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
    ours = closing(ZmtpConnection(listening.accept()[0], "ROUTER", curve=CurveServer(SERVER_SECRET, user_of)))
    talk(ours, lambda: ours.is_ready)
    assert (ours.identity, ours.user) == (b"of libzmq", b"submit::" + CLIENT_PUBLIC)
    theirs.send_multipart([b"question", bytes(100_000)])
    assert talk(ours, ours.receive) == [b"question", bytes(100_000)]
    assert talk(ours, lambda: ours.receive() is None and ours.take_sign_of_life())  # a heartbeat
    assert ours.send([b"answer", b"x" * 100_000])
    assert theirs.recv_multipart() == [b"answer", b"x" * 100_000]


def test_a_server_of_libzmq_is_understood(context: Any, closing: Closing) -> None:
    theirs = closing(context.socket(zmq.ROUTER))
    theirs.curve_server, theirs.curve_secretkey, theirs.heartbeat_ivl = True, SERVER_SECRET, 100
    port = theirs.bind_to_random_port("tcp://127.0.0.1")
    connected = socket.create_connection(("127.0.0.1", port))
    ours = closing(ZmtpConnection(connected, "DEALER", b"not of libzmq", curve=CurveClient(KEYS)))
    talk(ours, lambda: ours.is_ready)
    assert ours.send([b"question", bytes(100_000)])
    assert theirs.recv_multipart() == [b"not of libzmq", b"question", bytes(100_000)]
    assert talk(ours, lambda: ours.receive() is None and ours.take_sign_of_life())
    theirs.send_multipart([b"not of libzmq", b"answer", b"x" * 100_000])
    assert talk(ours, ours.receive) == [b"answer", b"x" * 100_000]


def test_keys_are_those_of_libzmq() -> None:
    assert zmq.curve_public(CLIENT_SECRET) == CLIENT_PUBLIC and len(z85.decode(CLIENT_PUBLIC)) == 32
