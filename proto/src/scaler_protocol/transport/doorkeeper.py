"""Who may connect with CURVE: libzmq asks a socket of its context about every handshake (ZAP, RFC 27)."""

from __future__ import annotations

import threading

import zmq
from zmq.utils import z85

_ENDPOINT = "inproc://zeromq.zap.01"
_STOP = "inproc://scaler-doorkeeper-stop-{}"


def new_key_pair() -> tuple[bytes, bytes]:
    """A public and a secret key, each 40 characters."""
    public, secret = zmq.curve_keypair()
    return public, secret


class Doorkeeper:
    """Lets in who has the secret key of ``public``. Answers in a thread of its own, so a busy interpreter delays only
    new connections. There is one per context."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], public: bytes) -> None:
        self._public = z85.decode(public)
        self._questions = context.socket(zmq.REP)
        self._questions.setsockopt(zmq.LINGER, 0)
        self._questions.bind(_ENDPOINT)
        self._stop_reader = context.socket(zmq.PAIR)
        self._stop_writer = context.socket(zmq.PAIR)
        self._stop_reader.bind(_STOP.format(id(self)))
        self._stop_writer.connect(_STOP.format(id(self)))
        self._thread = threading.Thread(target=self._run, name="scaler-doorkeeper", daemon=True)
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
        if len(question) == 7 and question[5] == b"CURVE" and question[6] == self._public:
            return [version, request, b"200", b"OK", b"", b""]
        return [version, request, b"400", b"unknown key", b"", b""]
