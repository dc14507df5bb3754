"""Permission to connect with CURVE: libzmq asks a socket of its context about every handshake (ZAP, RFC 27)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq
from zmq.utils import z85

_ENDPOINT = "inproc://zeromq.zap.01"
_STOP = "inproc://scaler-curve-stop-{}"


def new_key_pair() -> tuple[bytes, bytes]:
    """A public and a secret key, each 40 characters."""
    public, secret = zmq.curve_keypair()
    return public, secret


class CurveAuthenticator:
    """Decides which public keys may connect: ``user_of`` returns the user of a key, or None if it is refused, or raises
    OSError if the peer may try again. Messages of the connection carry that user. A thread of its own answers, so a
    busy interpreter delays only new connections. There is one per context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], user_of: Callable[[bytes], bytes | None]) -> None:
        self._user_of = user_of
        self._questions = context.socket(zmq.REP)
        self._questions.setsockopt(zmq.LINGER, 0)
        self._questions.bind(_ENDPOINT)
        self._stop_reader = context.socket(zmq.PAIR)
        self._stop_writer = context.socket(zmq.PAIR)
        self._stop_reader.bind(_STOP.format(id(self)))
        self._stop_writer.connect(_STOP.format(id(self)))
        self._thread = threading.Thread(target=self._run, name="scaler-curve", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop_writer.send(b"stop")
        self._thread.join()
        for used in (self._questions, self._stop_reader, self._stop_writer):
            used.close(0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._questions, zmq.POLLIN)
        poller.register(self._stop_reader, zmq.POLLIN)
        while self._stop_reader not in dict(poller.poll()):
            self._questions.send_multipart(self._answer(self._questions.recv_multipart()))

    def _answer(self, question: list[bytes]) -> list[bytes]:
        """Version, request id, domain, address, identity, mechanism, then the key."""
        version, request = question[0], question[1]
        is_key = len(question) == 7 and question[5] == b"CURVE"
        try:
            user = self._user_of(z85.encode(question[6])) if is_key else None
        except OSError:  # the peer tries again after libzmq's 30 s for a handshake; after 400 it never would
            return [version, request, b"300", b"try again", b"", b""]
        if user is None:
            return [version, request, b"400", b"unknown key", b"", b""]
        return [version, request, b"200", b"OK", user, b""]
