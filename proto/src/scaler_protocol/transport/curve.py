"""CURVE, ZeroMQ's encryption, as two state machines without sockets (https://rfc.zeromq.org/spec/26).

Each end has a long-term key pair: the client's is its key file, the server's is scheduler.key or work.key. For each
connection both make another pair, so that a key file that is stolen later decrypts nothing. The commands after the
greeting:

    client                                                   server
    HELLO     its new public key, sealed zeros            →
                                                          ←  WELCOME   its new public key and a cookie, sealed
    INITIATE  the cookie; sealed: its long-term key, a    →
              voucher for its new key, its properties
                                                          ←  READY     its properties, sealed
                                                          or ERROR     400: it does not know this key

A state is the command that is expected next:

    client    WELCOME   → INITIATE is the answer    expects READY
              READY     → complete                  expects nothing more
              or ERROR  → refused, if it says 400   expects nothing more
    server    HELLO     → WELCOME is the answer     expects INITIATE
              INITIATE  → READY or ERROR            expects nothing more

Any other command raises ``CurveError``, and so does one that was not sealed with the right keys. ERROR is not sealed,
so it counts only from a server that has proved with its WELCOME who it is, and even then anyone on the path may have
sent it: a session that was welcomed before waits for more of them. The other end may be libzmq.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from zmq.utils import z85

from scaler_protocol.transport.frame_cipher import CurveError, FrameCipher

if TYPE_CHECKING:
    from scaler_protocol.keys import PeerKeys

_KEY_SIZE = 32
_NUMBER_SIZE = 8
_NONCE_SIZE = 16
_TAG_SIZE = 16
_COOKIE_SIZE = 96
_VOUCHER_SIZE = _NONCE_SIZE + _TAG_SIZE + 2 * _KEY_SIZE
_VERSION = b"\x01\x00"
_HELLO_PADDING = bytes(72)
_ZEROS = bytes(64)
_UNKNOWN_KEY = b"400"
_FROM_CLIENT, _FROM_SERVER = b"CurveZMQMESSAGEC", b"CurveZMQMESSAGES"


class CurveStep(NamedTuple):
    """The consequence of a command: the command that answers it (empty: none), and, at the end of the handshake, the
    properties of the other end and the cipher of all later frames. ``is_refused``: the client's key is not known."""

    answer: bytes = b""
    properties: bytes = b""
    cipher: FrameCipher | None = None
    is_refused: bool = False


class CurveClient:
    """The end that connects."""

    is_server = False
    user = b""

    def __init__(self, keys: PeerKeys) -> None:
        self._box = _Box()
        self._secret, self._server_public = z85.decode(keys.secret), z85.decode(keys.server_public)
        self._new_public, self._new_secret = self._box.new_pair()
        self._greeted = self._box.shared(self._server_public, self._new_secret)  # for HELLO and WELCOME
        self._shared = b""  # for all that follows
        self._properties = b""
        self._expected = b"WELCOME"

    def begin(self, properties: bytes) -> bytes:
        """Return the first command. ``properties``: what this end says of itself."""
        self._properties = properties
        number = _number(1)
        proof = self._box.seal(_ZEROS, b"CurveZMQHELLO---" + number, self._greeted)
        return _command(b"HELLO", _VERSION + _HELLO_PADDING + self._new_public + number + proof)

    def on_command(self, command: bytes) -> CurveStep:
        name, body = _split(command)
        if name == b"ERROR" and self._expected == b"READY":
            self._expected = b""
            return CurveStep(is_refused=body[1:] == _UNKNOWN_KEY)
        if name != self._expected:
            raise CurveError(f"A server sent {name!r} instead of {self._expected!r}.")
        return self._on_welcome(body) if name == b"WELCOME" else self._on_ready(body)

    def _on_welcome(self, body: bytes) -> CurveStep:
        opened = self._box.open(body[_NONCE_SIZE:], b"WELCOME-" + body[:_NONCE_SIZE], self._greeted)
        if len(opened) != _KEY_SIZE + _COOKIE_SIZE:
            raise CurveError("A WELCOME has the wrong size.")
        server_new_public, cookie = opened[:_KEY_SIZE], opened[_KEY_SIZE:]
        self._shared = self._box.shared(server_new_public, self._new_secret)
        self._expected = b"READY"
        return CurveStep(_command(b"INITIATE", cookie + self._introduction(server_new_public)))

    def _introduction(self, server_new_public: bytes) -> bytes:
        nonce, number = os.urandom(_NONCE_SIZE), _number(2)
        vouched = self._box.shared(server_new_public, self._secret)
        voucher = self._box.seal(self._new_public + self._server_public, b"VOUCH---" + nonce, vouched)
        told = self._box.public_of(self._secret) + nonce + voucher + self._properties
        return number + self._box.seal(told, b"CurveZMQINITIATE" + number, self._shared)

    def _on_ready(self, body: bytes) -> CurveStep:
        number = body[:_NUMBER_SIZE]
        properties = self._box.open(body[_NUMBER_SIZE:], b"CurveZMQREADY---" + number, self._shared)
        self._expected = b""
        cipher = FrameCipher(self._shared, _FROM_CLIENT, _FROM_SERVER, 2, int.from_bytes(number, "big"))
        return CurveStep(properties=properties, cipher=cipher)


class CurveServer:
    """The end that listens. ``user_of`` names the user of a public key; None: it is not admitted; OSError: the keys
    cannot be read now. ``user`` is that name once the handshake is complete."""

    is_server = True

    def __init__(self, secret: bytes, user_of: Callable[[bytes], bytes | None]) -> None:
        self.user = b""
        self._box = _Box()
        self._secret, self._public = _server_pair(secret)
        self._user_of = user_of
        self._new_public, self._new_secret = b"", b""
        self._client_new_public = b""
        self._cookie = b""
        self._properties = b""
        self._expected = b"HELLO"

    def begin(self, properties: bytes) -> bytes:
        """Return nothing: the client begins. ``properties``: what this end says of itself."""
        self._properties = properties
        return b""

    def on_command(self, command: bytes) -> CurveStep:
        name, body = _split(command)
        if name != self._expected:
            raise CurveError(f"A client sent {name!r} instead of {self._expected!r}.")
        return self._on_hello(body) if name == b"HELLO" else self._on_initiate(body)

    def _on_hello(self, body: bytes) -> CurveStep:
        start = len(_VERSION) + len(_HELLO_PADDING)
        new_public, number = body[start : start + _KEY_SIZE], body[start + _KEY_SIZE :][:_NUMBER_SIZE]
        proof = body[start + _KEY_SIZE + _NUMBER_SIZE :]
        shared = self._box.shared(new_public, self._secret)
        if body[:2] != _VERSION or self._box.open(proof, b"CurveZMQHELLO---" + number, shared) != _ZEROS:
            raise CurveError("A HELLO is malformed.")
        self._client_new_public = new_public
        self._new_public, self._new_secret = self._box.new_pair()
        self._cookie = os.urandom(_COOKIE_SIZE)  # this end keeps its state, so the cookie need not contain it
        self._expected = b"INITIATE"
        nonce = os.urandom(_NONCE_SIZE)
        return CurveStep(
            _command(b"WELCOME", nonce + self._box.seal(self._new_public + self._cookie, b"WELCOME-" + nonce, shared))
        )

    def _on_initiate(self, body: bytes) -> CurveStep:
        cookie, number = body[:_COOKIE_SIZE], body[_COOKIE_SIZE:][:_NUMBER_SIZE]
        shared = self._box.shared(self._client_new_public, self._new_secret)
        told = self._box.open(body[_COOKIE_SIZE + _NUMBER_SIZE :], b"CurveZMQINITIATE" + number, shared)
        if cookie != self._cookie or len(told) < _KEY_SIZE + _VOUCHER_SIZE:
            raise CurveError("An INITIATE is malformed.")
        public = told[:_KEY_SIZE]
        self._check_voucher(public, told[_KEY_SIZE:][:_VOUCHER_SIZE])
        self._expected = b""
        user = self._user(public)
        if user is None:
            return CurveStep(_command(b"ERROR", bytes((len(_UNKNOWN_KEY),)) + _UNKNOWN_KEY), is_refused=True)
        self.user = user
        cipher = FrameCipher(shared, _FROM_SERVER, _FROM_CLIENT, 1, int.from_bytes(number, "big"))
        return CurveStep(self._ready(shared), told[_KEY_SIZE + _VOUCHER_SIZE :], cipher)

    def _check_voucher(self, public: bytes, voucher: bytes) -> None:
        """The holder of the long-term key has made the new key, and for this server."""
        shared = self._box.shared(public, self._new_secret)
        vouched = self._box.open(voucher[_NONCE_SIZE:], b"VOUCH---" + voucher[:_NONCE_SIZE], shared)
        if vouched != self._client_new_public + self._public:
            raise CurveError("A voucher is for another connection.")

    def _user(self, public: bytes) -> bytes | None:
        """Raises CurveError while the keys cannot be read: a client that gets no answer tries again, a refused one may
        not."""
        try:
            return self._user_of(z85.encode(public))
        except OSError as error:
            raise CurveError("The keys cannot be read now.") from error

    def _ready(self, shared: bytes) -> bytes:
        number = _number(1)
        return _command(b"READY", number + self._box.seal(self._properties, b"CurveZMQREADY---" + number, shared))


class _Box:
    """The functions of NaCl. It is loaded where a connection is encrypted, and only there."""

    def __init__(self) -> None:
        from nacl import bindings, exceptions

        self._bindings = bindings
        self._error = exceptions.CryptoError

    def new_pair(self) -> tuple[bytes, bytes]:
        """A public and a secret key."""
        return self._bindings.crypto_box_keypair()

    def public_of(self, secret: bytes) -> bytes:
        return self._bindings.crypto_scalarmult_base(secret)

    def shared(self, public: bytes, secret: bytes) -> bytes:
        """The key that both holders can compute."""
        try:
            return self._bindings.crypto_box_beforenm(public, secret)
        except self._error as error:
            raise CurveError(
                "Cannot use a public key that gives its secret away. Make keys with scaler_keygen."
            ) from error

    def seal(self, content: bytes, nonce: bytes, shared: bytes) -> bytes:
        return self._bindings.crypto_box_afternm(content, nonce, shared)

    def open(self, sealed: bytes, nonce: bytes, shared: bytes) -> bytes:
        try:
            return self._bindings.crypto_box_open_afternm(sealed, nonce, shared)
        except self._error as error:
            raise CurveError("A box cannot be opened.") from error


@cache
def _server_pair(secret: bytes) -> tuple[bytes, bytes]:
    """The secret key of a server, and the public one that belongs to it. A process serves with one or two keys."""
    decoded = z85.decode(secret)
    return decoded, _Box().public_of(decoded)


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_SIZE, "big")


def _command(name: bytes, body: bytes) -> bytes:
    return bytes((len(name),)) + name + body


def _split(command: bytes) -> tuple[bytes, bytes]:
    """The name of a command, and the rest."""
    start = 1 + (command[0] if command else 0)
    return command[1:start], command[start:]
