"""``python -m benchmarks.attacker KIND ADDRESS SECONDS [FOLDER]``: a peer that never authenticates and floods a
scheduler.

Speaks ZeroMQ's protocol by hand, so that it may break it. Prints how often it did what it does. FOLDER: where the
``scheduler.pub`` of a scheduler with keys is, the one thing that the attacker knows.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scaler_protocol.codec import encode
from scaler_protocol.handshake import NONCE_SIZE_BYTES, make_hello
from scaler_protocol.keys import PeerKeys
from scaler_protocol.messages import Envelope, Role
from scaler_protocol.transport.curve import CurveClient
from scaler_protocol.transport.curve_authentication import new_key_pair

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
CURVE_GREETING = GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32)
WELCOME_SIZE = 2 + 168
COMMAND = 4
LARGE = bytes(4 * 1024 * 1024 - 1024)
TINY = b"\0\x01x" * 20_000
OPEN_LIMIT = 4000


def frame(payload: bytes, flags: int = 0) -> bytes:
    if len(payload) < 256:
        return bytes((flags, len(payload))) + payload
    return bytes((flags | 2,)) + len(payload).to_bytes(8, "big") + payload


def ready(identity: bytes) -> bytes:
    body = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x10" + identity
    return bytes((4, len(body))) + body


def zero_size_structs() -> bytes:
    """A small message of 4 MiB: its one list names half a billion structs without fields."""
    words = len(LARGE) // 8
    root = struct.pack("<QQQ", 1 << 48, 1 | 7 << 32, ((1 << 29) - 1) << 2)
    return struct.pack("<II", 0, words) + root.ljust(8 * words, b"\0")


def where_is(address: str) -> tuple[str | tuple[str, int], int]:
    if address.startswith("ipc://"):
        return address.removeprefix("ipc://"), socket.AF_UNIX
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return (host, int(port)), socket.AF_INET


class Attacker:
    def __init__(self, address: str) -> None:
        self._where, self._family = where_is(address)
        self._held: list[socket.socket] = []
        self._identity = b"\x01" + os.urandom(15)
        hello = dataclasses.replace(make_hello(Role.SUBMIT, self._identity), nonce=os.urandom(NONCE_SIZE_BYTES))
        self._hello = frame(encode(Envelope(hello))[0])

    def connect(self) -> socket.socket:
        connection = socket.socket(self._family)
        connection.settimeout(2.0)
        connection.connect(self._where)
        return connection

    def greet(self, identity: bytes = b"") -> socket.socket:
        connection = self.connect()
        connection.sendall(GREETING + ready(identity or b"\x01" + os.urandom(15)))
        theirs = b""
        while len(theirs) < 66 or len(theirs) < 66 + theirs[65]:
            piece = connection.recv(4096)
            if not piece:
                raise ConnectionError
            theirs += piece
        return connection

    def churn(self) -> None:
        self.connect().close()

    def hello(self) -> None:
        """All that a peer says before it must prove something."""
        with self.greet(self._identity) as connection:
            connection.sendall(self._hello)
            connection.recv(4096)

    def large(self) -> None:
        with self.greet() as connection:
            connection.sendall(frame(LARGE))

    def structs(self) -> None:
        with self.greet() as connection:
            connection.sendall(frame(zero_size_structs()))

    def tiny(self) -> None:
        with self.greet() as connection:
            for _ in range(50):
                connection.sendall(TINY)

    def parts(self) -> None:
        """A message without an end."""
        with self.greet() as connection:
            for _ in range(50):
                connection.sendall(b"\x01\0" * 30_000)

    def half(self) -> None:
        """Connections that never end their handshake, as many as it may have."""
        connection = self.connect()
        connection.sendall(GREETING[:40])
        self._held.append(connection)
        if len(self._held) > OPEN_LIMIT:
            self._held.pop(0).close()

    def idle(self) -> None:
        """Connections that have said who they are, and then say half of a message."""
        connection = self.greet()
        connection.sendall(b"\x02" + (8000).to_bytes(8, "big") + bytes(7000))
        self._held.append(connection)
        if len(self._held) > OPEN_LIMIT:
            self._held.pop(0).close()


class CurveAttacker(Attacker):
    """Knows the public key of the scheduler."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(address)
        secret = new_key_pair()[1]
        self._keys = PeerKeys(secret, (folder / "scheduler.pub").read_bytes().split()[0])

    def curve(self) -> None:
        """A whole handshake with an unknown key."""
        client = CurveClient(self._keys)
        with self.connect() as connection:
            connection.sendall(CURVE_GREETING + frame(client.begin(b""), COMMAND))
            welcome = _exactly(connection, len(GREETING) + WELCOME_SIZE)[-WELCOME_SIZE:]
            connection.sendall(frame(client.on_command(welcome[2:]).answer, COMMAND))
            connection.recv(64)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError
        received += piece
    return received


class CurveHalfAttacker(Attacker):
    def curve_half(self) -> None:
        """A CURVE greeting and nothing more, as many as it may have."""
        connection = self.connect()
        connection.sendall(CURVE_GREETING)
        self._held.append(connection)
        if len(self._held) > OPEN_LIMIT:
            self._held.pop(0).close()

    def curve_churn(self) -> None:
        """A greeting, a HELLO that the scheduler must try to open, and the end."""
        with self.connect() as connection:
            connection.sendall(CURVE_GREETING)
            hello = b"\x05HELLO\x01\x00" + bytes(72) + os.urandom(32) + os.urandom(8) + os.urandom(80)
            connection.sendall(bytes((4, len(hello))) + hello)
            connection.recv(64)


def act_of(kind: str, address: str, folder: str) -> Callable[[], None]:
    if kind == "curve":
        return CurveAttacker(address, Path(folder)).curve
    attacker = CurveHalfAttacker(address) if kind.startswith("curve") else Attacker(address)
    act: Callable[[], None] = getattr(attacker, kind)
    return act


def main(kind: str, address: str, seconds: str, folder: str = "") -> None:
    act = act_of(kind, address, folder)
    print("begins", flush=True)
    end, done, refused = time.monotonic() + float(seconds), 0, 0
    while time.monotonic() < end:
        try:
            act()
            done += 1
        except OSError:
            refused += 1
    spent = time.process_time()
    print(f"{kind}: {done} done, {refused} broken off, {spent:.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
