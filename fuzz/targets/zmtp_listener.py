"""A scheduler's listener: authenticated and unauthenticated peers connect, send anything and disconnect, in parallel.

All messages of an honest peer arrive, in order and with its identity; an unauthenticated peer reaches no one as a
peer; and no descriptor is left open.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Iterator

from fuzz import zmtp as protocol
from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left, send
from scaler_protocol.transport.unauthenticated import Listening
from scaler_protocol.transport.zeromq import RouterFrames
from scaler_protocol.transport.zmtp_listener import ZmtpListener

NAME = f"scaler-fuzz-{os.getpid()}"
IDENTITIES = (b"", b"one", b"two", b"i" * 255, b"i" * 256, b"honest")
HONEST = b"the honest peer"
HELLO = b"hello"
"""Any peer that asks is admitted."""

CONNECTIONS_LIMIT = 8
CALLS_LIMIT = 5000
"""Maximum number of calls of the listener until it has heard all: a share of the time is spent on unauthenticated
peers, so time may have to pass."""


def listening_socket() -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind("\0" + NAME)
    return bound


class ListenerConversation:
    """Connections to one listener. ``honest`` is never taken over and says one message a step."""

    def __init__(self) -> None:
        self.listener = ZmtpListener(lambda: None)
        self.listener.listen(Listening(listening_socket()))
        self.router = RouterFrames()
        self.router.serve(self.listener)
        self.admitted: set[bytes] = set()
        self.connections: list[socket.socket] = []
        self.honest = self.connect()
        send(self.honest, protocol.GREETING + protocol.ready(b"DEALER", HONEST) + protocol.message([HELLO]))
        self.said = 0
        self.heard = 0
        self.serve_until(lambda: HONEST in self.admitted)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        connection.connect("\0" + NAME)
        return connection

    def step(self, choices: Choices) -> None:
        operation = choices.below(9)
        if operation == 0 and len(self.connections) < CONNECTIONS_LIMIT:
            self.connections.append(self.connect())
        elif operation == 1:
            self.say(choices, protocol.GREETING + protocol.ready(b"DEALER", choices.pick(IDENTITIES)))
        elif operation == 2:
            self.say(choices, protocol.message([choices.take(choices.below(8)) for _ in range(1 + choices.below(3))]))
        elif operation == 3:
            self.say(choices, protocol.command(b"PING", b"\0\1" + choices.take(choices.below(20))))
        elif operation == 4:
            self.say(choices, choices.take(1 + choices.below(64)))
        elif operation == 5 and self.connections:
            self.connections.pop(choices.below(len(self.connections))).close()
        elif operation == 6:
            self.answer(choices)
        elif operation == 7:
            self.say(choices, protocol.message([HELLO]))
        else:
            self.serve()

    def say(self, choices: Choices, data: bytes) -> None:
        if self.connections:
            with contextlib.suppress(BlockingIOError):
                send(choices.pick(self.connections), data)

    def answer(self, choices: Choices) -> None:
        """Answer a peer, or an unauthenticated one; or cut one of them off."""
        peer, frames = choices.pick(IDENTITIES[1:5]), [b"answer", choices.take(4)]
        how = choices.below(3)
        if how == 0:
            assert self.router.send(peer, frames) == "gone" or peer in self.admitted
        elif how == 1:
            self.listener.answer(peer, frames)
        else:
            self.listener.disconnect(peer)

    def serve(self) -> None:
        for peer, frames, _ in self.router.receive_many(64):
            assert peer in self.admitted, "Someone speaks as a peer who has not been admitted."
            assert frames and frames != [b""]
            if peer == HONEST:
                assert frames == [b"%d" % self.heard]
                self.heard += 1
        for peer, frames, _ in self.listener.unauthenticated_messages():
            assert len(frames) < 2
            if frames == [HELLO]:
                self.listener.admit(peer)
                self.admitted.add(peer)

    def serve_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(CALLS_LIMIT):
            self.serve()
            if condition():
                return
            select.select([self.listener.fd], [], [], 0.01)
        raise AssertionError("An honest peer was not served.")

    def speak(self) -> None:
        send(self.honest, protocol.message([b"%d" % self.said]))
        self.said += 1

    def end(self) -> None:
        for connection in self.connections:
            connection.close()
        self.serve_until(lambda: self.heard == self.said)
        self.honest.close()
        self.listener.close()


def one_input(data: bytes) -> None:
    choices = Choices(data)
    with no_descriptor_left():
        conversation = ListenerConversation()
        while choices.more:
            conversation.step(choices)
            if choices.flag(4):
                conversation.speak()
        conversation.end()


def seeds() -> Iterator[bytes]:
    hello, served, message = [1, 0, 1, 3, 7, 0, 3], [8, 3], [2, 1, 3, 97, 98, 0, 3]
    yield bytes([0, 0, 1, 0, 1, 0, 8, 0, 2, 0, 2, 1, 97, 0, 8, 0])
    yield bytes([0, 3, *hello, *served, *message, *served, 6, 1, 0, *served, 6, 1, 2, *served, 5, 0, *served])
    yield bytes([0, 3, 0, 3, *hello, *hello, *served, 7, 1, 3, *served, *message, *served, 3, 2, 9, 9, 0, *served])
