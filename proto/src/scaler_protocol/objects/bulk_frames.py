"""The bytes of objects on a bulk connection: pieces, each behind a header. And how a bulk connection is offered.

A header names the object, its size, where the piece begins and how long it is. Pieces of several objects may follow one
another in any order, those of one object come in order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from scaler_protocol.messages import ObjectKey

PIECE_BYTES = 1024 * 1024
"""The longest piece: what an object waits at most for another one."""

NAME_BYTES = 16
TOKEN_BYTES = 32
FINGERPRINT_BYTES = 32
SEALING_KEY_BYTES = 32
FEATURE = "bulk"
SEALED_FEATURE = "sealed"
ACCEPTED = b"\x01"
"""The listener's answer to a peer that has shown its token."""

_HEADER = struct.Struct("<16sQQQQ")
HEADER_BYTES = _HEADER.size
_SIZE_LIMIT = 2**62
_LABEL = "peer:"


@dataclass(frozen=True, slots=True)
class Piece:
    """``length`` bytes from ``offset`` of an object of ``size`` bytes."""

    key: ObjectKey
    size: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Bytes:
    """The bytes of a piece: in a file from ``place`` on, and in memory."""

    fd: int
    place: int
    view: memoryview


@dataclass(frozen=True, slots=True)
class Offer:
    """A peer may open one bulk connection to ``port``: there it shows ``name``, which is not secret, and then
    ``token``. With a ``fingerprint``, TLS begins in between, with the certificate that has it; with a ``key``, what
    follows the name is sealed with it (see ``sealed_connection``)."""

    port: int
    name: bytes
    token: bytes
    fingerprint: bytes = b""
    key: bytes = b""

    def to_feature(self) -> str:
        """As a feature of Welcome."""
        label, last = (SEALED_FEATURE, self.key) if self.key else (FEATURE, self.fingerprint)
        return ":".join((label, str(self.port), self.name.hex(), self.token.hex(), last.hex()))


@lru_cache(1)
def can_seal() -> bool:
    """Whether the library that seals is installed. It takes a moment to load, so this is asked only with keys."""
    try:
        import scaler_protocol.objects.sealed_connection  # noqa: F401
    except ImportError:
        return False
    return True


def label_of(peer: int) -> str:
    """The name of the bulk connection of the peer with this number; dialed ones have the name of their endpoint."""
    return f"{_LABEL}{peer}"


def peer_of(label: str) -> int:
    """0: it was dialed from here."""
    return int(label.removeprefix(_LABEL)) if label.startswith(_LABEL) else 0


def offer_in(features: tuple[str, ...]) -> Offer | None:
    """The offer in the Welcome of a store, a sealed one if this process can seal; None: it has no readable one."""
    offers = {feature.partition(":")[0]: feature for feature in reversed(features)}
    if SEALED_FEATURE in offers and can_seal():
        return _parse_offer(SEALED_FEATURE, offers[SEALED_FEATURE])
    return _parse_offer(FEATURE, offers[FEATURE]) if FEATURE in offers else None


def _parse_offer(label: str, feature: str) -> Offer | None:
    try:
        _, number, *fields = feature.split(":")
        port, (name, token, last) = int(number), map(bytes.fromhex, fields)
    except ValueError:
        return None
    is_valid = 0 < port < 2**16 and len(name) == NAME_BYTES and len(token) == TOKEN_BYTES
    if label == SEALED_FEATURE:
        return Offer(port, name, token, key=last) if is_valid and len(last) == SEALING_KEY_BYTES else None
    return Offer(port, name, token, last) if is_valid and len(last) in (0, FINGERPRINT_BYTES) else None


def pack_header(piece: Piece) -> bytes:
    return _HEADER.pack(piece.key.owner, piece.key.number, piece.size, piece.offset, piece.length)


def parse_header(data: bytes | bytearray | memoryview) -> Piece:
    """Raises ValueError when no piece can be like that."""
    owner, number, size, offset, length = _HEADER.unpack(data)
    if not 0 < length <= PIECE_BYTES or size > _SIZE_LIMIT or offset + length > size:
        raise ValueError("Cannot read a bulk connection: the header of a piece is malformed.")
    return Piece(ObjectKey(owner, number), size, offset, length)
