"""Unauthenticated connections to a scheduler: Hellos in pieces, floods, connections that come and go.

Nothing but single frames of at most a Hello's size is given to the owner, and not more than they have sent. There are
no more of them than the limit, none is taken for a peer, and an honest peer is served.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Iterator

from fuzz import zmtp as protocol
from fuzz.choices import Choices
from fuzz.sockets import no_descriptor_left
from scaler_protocol.messages import HELLO_LIMIT_BYTES
from scaler_protocol.transport import unauthenticated
from scaler_protocol.transport.unauthenticated import Listening
from scaler_protocol.transport.zeromq import RouterFrames
from scaler_protocol.transport.zmtp_listener import ZmtpListener

NAME = f"scaler-fuzz-unauthenticated-{os.getpid()}"
IDENTITIES = (b"", b"one", b"two", b"i" * 255)
HONEST, HELLO = b"the honest peer", b"hello of the honest peer"
COUNT_LIMIT = 6
"""A limit in place of the real one, so that it is reached. The honest peer has been admitted and does not count."""

CONNECTIONS_LIMIT = 10
CALLS_LIMIT = 5000
SIZES = (0, 1, 250, 300, HELLO_LIMIT_BYTES - 1, HELLO_LIMIT_BYTES, HELLO_LIMIT_BYTES + 1, 20_000)
CHUNKS = (1, 2, 3, 9, 64, 1000, 100_000)


class UnauthenticatedPeer:
    """``waiting``: what it has yet to send."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.socket.connect("\0" + NAME)
        self.waiting = b""

    def send(self, size: int) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sent = self.socket.send(self.waiting[:size])
            self.waiting = self.waiting[sent:]


class Siege:
    def __init__(self) -> None:
        bound = socket.socket(socket.AF_UNIX)
        bound.bind("\0" + NAME)
        self.listener = ZmtpListener(lambda: None)
        self.listener.listen(Listening(bound))
        self.router = RouterFrames()
        self.router.serve(self.listener)
        self.peers: list[UnauthenticatedPeer] = []
        self.has_come = False
        self.heard = 0
        self.given_bytes = 0
        self.said_bytes = 0
        self.honest = UnauthenticatedPeer()
        self.honest.waiting = protocol.GREETING + protocol.ready(b"DEALER", HONEST) + protocol.message([HELLO])
        self.honest.send(1000)
        self.serve_until(lambda: self.has_come)

    def step(self, choices: Choices) -> None:
        operation = choices.below(8)
        if operation == 0 and len(self.peers) < CONNECTIONS_LIMIT:
            self.peers.append(UnauthenticatedPeer())
        elif operation == 1:
            self.say(choices, protocol.GREETING + protocol.ready(b"DEALER", choices.pick(IDENTITIES)))
        elif operation == 2:
            self.say(choices, protocol.frame(bytes(choices.pick(SIZES)), choices.pick((0, 0, protocol.MORE))))
        elif operation == 3:
            self.say(choices, choices.take(1 + choices.below(64)))
        elif operation == 4 and self.peers:
            self.peers.pop(choices.below(len(self.peers))).socket.close()
        elif operation == 5:
            peer = choices.pick(IDENTITIES)
            assert self.router.send(peer, [b"a task"]) == "gone", "An unauthenticated peer is sent what is for peers."
            self.listener.answer(peer, [b"challenge"])
        elif operation == 6:
            self.say(choices, protocol.command(b"PING", b"\0\1" + choices.take(choices.below(20))))
        else:
            self.serve()
        for peer in self.peers:
            peer.send(choices.pick(CHUNKS))

    def say(self, choices: Choices, data: bytes) -> None:
        if self.peers:
            self.said_bytes += len(data)
            choices.pick(self.peers).waiting += data

    def serve(self) -> None:
        for peer, frames, _ in self.router.receive_many(64):
            assert peer == HONEST and frames == [b"%d" % self.heard], "An unauthenticated peer speaks as a peer."
            self.heard += 1
        for peer, frames, _ in self.listener.unauthenticated_messages():
            self.examine(frames)
            if frames == [HELLO] and peer == HONEST and not self.has_come:
                self.has_come = True
                self.listener.admit(peer)
        assert len(self.listener.unauthenticated) <= COUNT_LIMIT
        assert len(self.listener.unauthenticated.identities) <= len(self.listener.unauthenticated)

    def examine(self, frames: list[bytes]) -> None:
        assert len(frames) < 2
        for frame in frames:
            assert len(frame) <= HELLO_LIMIT_BYTES
            self.given_bytes += len(frame)
        assert self.given_bytes <= self.said_bytes + len(HELLO)

    def serve_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(CALLS_LIMIT):
            self.serve()
            if condition():
                return
            select.select([self.listener.fd], [], [], 0.01)
        raise AssertionError("An honest peer was not served.")

    def end(self) -> None:
        """End while unauthenticated connections are still open: a peer sends a message and another one connects."""
        self.honest.waiting = protocol.message([b"0"]) + protocol.message([b"1"])
        self.honest.send(1000)
        self.serve_until(lambda: self.heard == 2)
        for peer in (*self.peers, self.honest):
            peer.socket.close()
        self.serve_until(lambda: not len(self.listener.unauthenticated))
        self.listener.close()


def one_input(data: bytes) -> None:
    choices = Choices(data)
    limits = unauthenticated.COUNT_LIMIT, unauthenticated.GRACE_SECONDS
    unauthenticated.COUNT_LIMIT = COUNT_LIMIT
    unauthenticated.GRACE_SECONDS = choices.pick((0.0, 1000.0))
    try:
        with no_descriptor_left():
            siege = Siege()
            while choices.more:
                siege.step(choices)
            siege.end()
    finally:
        unauthenticated.COUNT_LIMIT, unauthenticated.GRACE_SECONDS = limits


def seeds() -> Iterator[bytes]:
    greeted, served = [0, 6, 1, 1, 0, 6], [7, 6]
    yield bytes([0, *greeted, *served, 2, 1, 0, 0, 6, *served, *served])
    yield bytes([0, *greeted, 2, 5, 0, 0, 6, 2, 6, 0, 0, 6, *served, *served, 2, 7, 2, 0, 6, *served, 4, 0, *served])
    yield bytes([1, *([0] * 24), *served * 4, 4, 0, 4, 0, *served])
    yield bytes([0, *([0, 6] * 10), *served * 4, 3, 40, *range(41), 0, 0, *served])
    yield bytes([0, *greeted, *([2, 7, 2, 0, 6] * 20), *served * 9, 5, 1, 6, *served, 6, 3, 1, 2, 3, 0, 6, *served])
