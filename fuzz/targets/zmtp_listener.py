"""A scheduler's listener beside its port: connections that come, say anything, and go, several at a time.

All messages of an honest peer arrive, in order and with its identity, and no descriptor is left open.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import zmq

from fuzz import zmtp as protocol
from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left, send
from scaler_protocol.transport.zeromq import RouterFrames
from scaler_protocol.transport.zmtp_listener import ZmtpListener

NAME = f"scaler-fuzz-{os.getpid()}"
IDENTITIES = (b"", b"one", b"two", b"i" * 255, b"i" * 256, b"honest")
HONEST = b"the honest peer"
SOCKET = zmq.Context.instance().socket(zmq.ROUTER)
"""libzmq's, which nobody reaches."""

SOCKET.setsockopt(zmq.ROUTER_MANDATORY, 1)


class Conversation:
    """Connections to one listener. ``honest`` is never taken over and says one message a step."""

    def __init__(self) -> None:
        self.listener = ZmtpListener(SOCKET.getsockopt(zmq.FD), lambda: None)
        self.listener.listen(NAME)
        self.router = RouterFrames()
        self.router.attach(SOCKET)
        self.router.serve_beside(self.listener)
        self.connections: list[socket.socket] = []
        self.honest = self.connect()
        send(self.honest, protocol.GREETING + protocol.ready(b"DEALER", HONEST))
        self.said = 0
        self.heard = 0

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        connection.connect("\0" + NAME)
        return connection

    def step(self, choices: Choices) -> None:
        operation = choices.below(8)
        if operation == 0 and len(self.connections) < 8:
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
        else:
            self.serve()

    def say(self, choices: Choices, data: bytes) -> None:
        if self.connections:
            with contextlib.suppress(BlockingIOError):
                send(choices.pick(self.connections), data)

    def answer(self, choices: Choices) -> None:
        self.router.send(choices.pick(IDENTITIES[1:4]), [b"answer", choices.take(4)])

    def serve(self) -> None:
        for peer, frames, _ in self.router.receive_many(64):
            assert frames and frames != [b""]
            if peer == HONEST:
                assert frames == [b"%d" % self.heard]
                self.heard += 1

    def speak(self) -> None:
        send(self.honest, protocol.message([b"%d" % self.said]))
        self.said += 1

    def end(self) -> None:
        for connection in self.connections:
            connection.close()
        for _ in range(8):
            self.serve()
        assert self.heard == self.said, "Messages of an honest peer were lost."
        self.honest.close()
        self.listener.close()


def one_input(data: bytes) -> None:
    choices = Choices(data)
    with no_descriptor_left():
        conversation = Conversation()
        while choices.more:
            conversation.step(choices)
            if choices.flag(4):
                conversation.speak()
        conversation.end()


def seeds() -> Iterator[bytes]:
    yield bytes([0, 0, 1, 0, 1, 0, 7, 0, 2, 0, 2, 1, 97, 0, 7, 0])
    yield bytes([0, 3, 1, 0, 1, 3, 0, 3, 1, 1, 1, 3, 7, 3, 7, 3, 2, 1, 1, 3, 97, 98, 99, 3, 7, 3, 5, 0, 3, 7, 3])
