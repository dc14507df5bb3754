"""The bytes of objects on a bulk connection: pieces, each behind a header.

A header names the object, its size, where the piece begins and how long it is. Pieces of several objects may follow one
another in any order, those of one object come in order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from scaler_protocol.messages import ObjectKey

PIECE_BYTES = 1024 * 1024
"""The longest piece: what an object waits at most for another one."""

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


def label_of(peer: int) -> str:
    """The name of the bulk connection of the peer with this number; dialed ones have the name of their endpoint."""
    return f"{_LABEL}{peer}"


def peer_of(label: str) -> int:
    """0: it was dialed from here."""
    return int(label.removeprefix(_LABEL)) if label.startswith(_LABEL) else 0


def pack_header(piece: Piece) -> bytes:
    return _HEADER.pack(piece.key.owner, piece.key.number, piece.size, piece.offset, piece.length)


def parse_header(data: bytes | bytearray | memoryview) -> Piece:
    """Raises ValueError when no piece can be like that."""
    owner, number, size, offset, length = _HEADER.unpack(data)
    if not 0 < length <= PIECE_BYTES or size > _SIZE_LIMIT or offset + length > size:
        raise ValueError("Cannot read a bulk connection: the header of a piece is malformed.")
    return Piece(ObjectKey(owner, number), size, offset, length)
