"""An encrypted connection: a peer without a key, a peer with one, and a server that lies.

Nothing of a peer without a key is received. Of a peer with one, only frames that it has sealed are received, in their
order, and none after a frame that was changed or repeated.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from nacl import bindings
from zmq.utils import z85

from fuzz import zmtp
from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left, send
from scaler_protocol.keys import PeerKeys
from scaler_protocol.transport.curve import CurveClient, CurveServer
from scaler_protocol.transport.zmtp import ZmtpConnection

GREETING = zmtp.GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32)
PROPERTIES = zmtp.ready(b"DEALER", b"me")[8:]
SERVER_PUBLIC, SERVER_SECRET = bindings.crypto_box_seed_keypair(b"s" * 32)
_, CLIENT_SECRET = bindings.crypto_box_seed_keypair(b"c" * 32)
STEPS_LIMIT = 64


def one_input(data: bytes) -> None:
    choices = Choices(data)
    attack = choices.pick((without_key, lying_server, with_key))
    with no_descriptor_left():
        attack(choices)


def without_key(choices: Choices) -> None:
    """Any bytes, after none, one or two right commands."""
    connection, theirs, client, answers = server(choices.flag())
    with theirs:
        for _ in range(choices.below(2)):
            answers = client.on_command(command_of(theirs)).answer
            tell(connection, theirs, answers)
        tell(connection, theirs, choices.rest(), raw=True)
        assert connection.receive() is None
    connection.close()


def lying_server(choices: Choices) -> None:
    ours, theirs = socket.socketpair()
    connection = ZmtpConnection(ours, "DEALER", b"us", curve=CurveClient(keys()))
    with theirs:
        send(theirs, GREETING)
        liar = CurveServer(z85.encode(SERVER_SECRET), lambda public: b"user" if choices.flag() else None)
        liar.begin(choices.take(choices.below(40)))
        if choices.flag():
            tell(connection, theirs, liar.on_command(command_of(theirs, GREETING)).answer)
        tell(connection, theirs, choices.rest(), raw=True)
        assert connection.receive() is None
    connection.close()


def with_key(choices: Choices) -> None:
    """Its properties and frames are the input's; some are changed after they were sealed, or repeated."""
    is_limited = choices.flag()
    properties = choices.take(choices.below(40)) if choices.flag() else PROPERTIES
    connection, theirs, client, _ = server(is_limited, properties)
    with theirs:
        tell(connection, theirs, client.on_command(command_of(theirs)).answer)
        if connection.is_ready:
            said, is_harmed = speak(choices, theirs, Sealer(client, command_of(theirs)))
            heard = [frame for message in take(connection) for frame in message]
            remaining = iter(said)
            assert all(frame in remaining for frame in heard), "A frame was received that was not sent, or too late."
            assert is_limited or not is_harmed or connection.has_ended, "A frame that was changed was taken in."
    connection.close()


def speak(choices: Choices, theirs: socket.socket, sealer: Sealer) -> tuple[list[bytes], bool]:
    """Return the frames that were sent, and whether the last one was changed or repeated."""
    said: list[bytes] = []
    while choices.more and len(said) < STEPS_LIMIT:
        flags, payload, harm = choices.byte(), choices.take(choices.below(300)), choices.below(8)
        sealed = sealer.seal(bytes((flags,)) + payload)
        said.append(payload)
        send(theirs, zmtp.frame(sealed[:-1] + bytes((sealed[-1] ^ 1,)) if harm == 7 else sealed))
        if harm in (6, 7):
            send(theirs, zmtp.frame(sealed))
            return said, True
    return said, False


def server(
    is_limited: bool, properties: bytes = PROPERTIES
) -> tuple[ZmtpConnection, socket.socket, CurveClient, bytes]:
    """A server's connection to which a client has said HELLO."""
    ours, theirs = socket.socketpair()
    curve = CurveServer(z85.encode(SERVER_SECRET), lambda public: b"user")
    connection = ZmtpConnection(ours, "ROUTER", is_limited=is_limited, curve=curve)
    client = CurveClient(keys())
    send(theirs, GREETING)
    theirs.recv(len(GREETING))
    tell(connection, theirs, hello := client.begin(properties))
    return connection, theirs, client, hello


def keys() -> PeerKeys:
    return PeerKeys(z85.encode(CLIENT_SECRET), z85.encode(SERVER_PUBLIC))


def tell(connection: ZmtpConnection, theirs: socket.socket, data: bytes, raw: bool = False) -> None:
    send(theirs, data if raw else zmtp.frame(data, zmtp.COMMAND))
    connection.look()


def command_of(theirs: socket.socket, greeting: bytes = b"") -> bytes:
    """Return the command that the other end has just sent."""
    data = theirs.recv(65536)[len(greeting) :]
    return data[9:] if data[0] & zmtp.LONG else data[2:]


def take(connection: ZmtpConnection) -> Iterator[list[bytes]]:
    nothing = 0
    while nothing < 2:
        frames = connection.receive()
        nothing = nothing + 1 if frames is None else 0
        if frames:
            yield frames


class Sealer:
    """Seals frames as the client does, whatever they contain."""

    def __init__(self, client: CurveClient, ready: bytes) -> None:
        client.on_command(ready)
        self._key = client._shared
        self._number = 2

    def seal(self, content: bytes) -> bytes:
        self._number += 1
        number = self._number.to_bytes(8, "big")
        return b"\x07MESSAGE" + number + bindings.crypto_box_afternm(content, b"CurveZMQMESSAGEC" + number, self._key)


def seeds() -> Iterator[bytes]:
    yield b"\0\0\0" + zmtp.command(b"HELLO", bytes(194))
    yield b"\0\1\1" + zmtp.command(b"INITIATE", bytes(250))
    yield b"\1\0\0\1" + zmtp.command(b"READY", bytes(60))
    yield b"\2\0\0" + b"".join(bytes((flags, 5)) + b"frame" + b"\0" for flags in (0, 1, 0, 2, 3, 255))
    yield b"\2\1\0" + b"".join(bytes((flags, 5)) + b"frame" + b"\0" for flags in (1, 1, 0, 0))
    yield b"\2\0\1\x20" + PROPERTIES[:32] + b"\0\3abc\6"
