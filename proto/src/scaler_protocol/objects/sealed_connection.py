"""A TCP connection whose bytes are encrypted with a key that both ends have: AES-256-GCM, frame by frame.

The key comes in a Welcome on a connection that CURVE encrypts, is used for one connection, and is never stored. Each
end begins with a salt of its own in clear, so the keys of two connections differ even if someone repeats the bytes of
the first one. Each direction has its own key, and a frame's nonce is its number in its direction: a frame that is
changed, repeated, left out or moved cannot be opened. A frame is its size (4 bytes, little-endian) and as many sealed
bytes.

A frame is opened where its bytes belong, so they are copied less often than inside TLS, with fewer system calls.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from scaler_protocol.objects.bulk_offers import SEALING_KEY_BYTES

SALT_BYTES = 16

FRAME_BYTES = 256 * 1024
"""Sealed at most in one frame: large enough for few system calls, small enough for the processor's cache."""

_TAG_BYTES = 16
_SIZE = struct.Struct("<I")
_FRAME_LIMIT_BYTES = FRAME_BYTES + _TAG_BYTES


class SealedConnection:
    """A connection with those methods of a socket that a bulk connection uses. They raise OSError, and BlockingIOError
    where the socket does; then a ``send`` must be repeated with the same bytes."""

    def __init__(self, connected: socket.socket, key: bytes, is_dialer: bool) -> None:
        self._socket = connected
        self._key = key
        self._is_dialer = is_dialer
        self._salt = os.urandom(SALT_BYTES)
        self._salt_unsent = memoryview(self._salt)
        self._peer_salt = b""
        self._opener: _Opener | None = None
        self._sealer: _Sealer | None = None
        self._unsent = memoryview(b"")
        self._plain = memoryview(b"")  # of the last frame that was opened

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def do_handshake(self) -> None:
        """Exchange the salts."""
        while self._salt_unsent:
            self._salt_unsent = self._salt_unsent[self._socket.send(self._salt_unsent) :]
        while len(self._peer_salt) < SALT_BYTES:
            self._peer_salt += _some(self._socket.recv(SALT_BYTES - len(self._peer_salt)))
        salts = (self._salt, self._peer_salt) if self._is_dialer else (self._peer_salt, self._salt)
        to_listener, to_dialer = (
            hashlib.blake2b(b"".join(salts), key=self._key, person=person, digest_size=SEALING_KEY_BYTES).digest()
            for person in (b"to the listener", b"to the dialer")
        )
        self._sealer = _Sealer(to_listener if self._is_dialer else to_dialer)
        self._opener = _Opener(to_dialer if self._is_dialer else to_listener)
        self._key = b""

    # ---- receiving -------------------------------------------------------------------------------------------------

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that have to come before there is something to receive."""
        return self._opener.missing_bytes if self._opener is not None else 1

    def recv(self, count: int) -> bytes:
        data = bytearray(count)
        return bytes(data[: self.recv_into(memoryview(data))])

    def recv_into(self, view: memoryview) -> int:
        """Receive at most one frame."""
        assert self._opener is not None
        if not self._plain:
            self._opener.read(self._socket)
            if self._opener.plain_bytes <= len(view):
                return self._opener.open_into(view)
            self._plain = memoryview(bytearray(self._opener.plain_bytes))
            self._opener.open_into(self._plain)
        count = min(len(view), len(self._plain))
        view[:count] = self._plain[:count]
        self._plain = self._plain[count:]
        return count

    # ---- sending ---------------------------------------------------------------------------------------------------

    def send(self, data: bytes | memoryview) -> int:
        """Send at most one frame, which the system takes as a whole before this returns."""
        assert self._sealer is not None
        count = min(len(data), FRAME_BYTES)
        if not self._unsent:
            self._unsent = self._sealer.seal(memoryview(data)[:count])
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        return count

    def sendall(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[self.send(view) :]


class _Direction:
    """The key of one direction, and the number of its last frame."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._number = 0

    def _nonce(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(12, "little")


class _Sealer(_Direction):
    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._frame = bytearray(_SIZE.size + _FRAME_LIMIT_BYTES)

    def seal(self, data: memoryview) -> memoryview:
        """Return the frame, which is valid until the next one is sealed."""
        sealed_bytes = len(data) + _TAG_BYTES
        _SIZE.pack_into(self._frame, 0, sealed_bytes)
        frame = memoryview(self._frame)[: _SIZE.size + sealed_bytes]
        _encrypt(self._cipher, self._nonce(), data, frame[_SIZE.size :])
        return frame


class _Opener(_Direction):
    """The receiving direction. It reads a frame together with the size of the next one, and nothing beyond: what else
    has come stays in the socket, whose descriptor is readable."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._buffer = memoryview(bytearray(_SIZE.size + _FRAME_LIMIT_BYTES + _SIZE.size))
        self._filled = 0

    @property
    def plain_bytes(self) -> int:
        return self._end - _SIZE.size - _TAG_BYTES

    @property
    def missing_bytes(self) -> int:
        end = self._end if self._filled >= _SIZE.size else _SIZE.size
        return max(1, end - self._filled)

    @property
    def _end(self) -> int:
        """The place where the frame ends. Raises OSError when no frame has such a size."""
        size: int = _SIZE.unpack_from(self._buffer)[0]
        if not _TAG_BYTES < size <= _FRAME_LIMIT_BYTES:
            raise ConnectionError("The peer sent a frame of an impossible size.")
        return _SIZE.size + size

    def read(self, connected: socket.socket) -> None:
        """Read until there is a frame."""
        while self._filled < _SIZE.size:
            self._filled += _at_least_one(connected.recv_into(self._buffer[self._filled : _SIZE.size]))
        end = self._end
        while self._filled < end:
            self._filled += _at_least_one(connected.recv_into(self._buffer[self._filled : end + _SIZE.size]))

    def open_into(self, target: memoryview) -> int:
        """Open the frame. Raises OSError when the peer has not sealed it, or not as the next one."""
        end, count = self._end, self.plain_bytes
        try:
            _decrypt(self._cipher, self._nonce(), self._buffer[_SIZE.size : end], target[:count])
        except InvalidTag:
            raise ConnectionError("The peer sent a frame that cannot be decrypted.") from None
        rest = self._filled - end
        self._buffer[:rest] = bytes(self._buffer[end : self._filled])
        self._filled = rest
        return count


def _some(data: bytes) -> bytes:
    if not data:
        raise ConnectionError("The connection was closed.")
    return data


def _at_least_one(count: int) -> int:
    if not count:
        raise ConnectionError("The connection was closed.")
    return count


def _encrypt(cipher: AESGCM, nonce: bytes, data: memoryview, target: memoryview) -> None:
    if hasattr(cipher, "encrypt_into"):
        cipher.encrypt_into(nonce, data, None, target)
    else:  # cryptography before 47
        target[:] = cipher.encrypt(nonce, data, None)


def _decrypt(cipher: AESGCM, nonce: bytes, data: memoryview, target: memoryview) -> None:
    if hasattr(cipher, "decrypt_into"):
        cipher.decrypt_into(nonce, data, None, target)
    else:  # cryptography before 47
        target[:] = cipher.decrypt(nonce, data, None)
