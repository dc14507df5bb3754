"""The beginning of a bulk connection and the headers between its bytes: any offer and any header, cut or forged, gives
a piece within its object or ValueError, and what was written is read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.bulk_frames import HEADER_BYTES, PIECE_BYTES, Piece, pack_header, parse_header
from scaler_protocol.objects.bulk_offers import NAME_BYTES, TOKEN_BYTES, Offer, offer_in


def one_input(data: bytes) -> None:
    """The first byte says how the rest is used."""
    if data[:1] and data[0] & 1:
        read_offer(data[1:].decode("utf-8", "replace"))
    else:
        read_header(data[1 : 1 + HEADER_BYTES].ljust(HEADER_BYTES, b"\0"))


def read_offer(feature: str) -> None:
    offer = offer_in((feature,))
    if offer is not None:
        assert 0 < offer.port < 2**16 and len(offer.name) == NAME_BYTES and len(offer.token) == TOKEN_BYTES
        assert offer_in((offer.to_feature(),)) == offer


def read_header(data: bytes) -> None:
    try:
        piece = parse_header(data)
    except ValueError:
        return
    assert 0 < piece.length <= PIECE_BYTES and piece.offset + piece.length <= piece.size
    assert pack_header(piece) == data


def seeds() -> Iterator[bytes]:
    yield b"\0" + pack_header(Piece(ObjectKey(b"owner of objects", 1), PIECE_BYTES, 0, PIECE_BYTES))
    yield b"\1" + Offer(1, bytes(NAME_BYTES), bytes(TOKEN_BYTES), bytes(32)).to_feature().encode()
    yield b"\1" + Offer(65535, bytes(NAME_BYTES), bytes(TOKEN_BYTES)).to_feature().encode()
    yield b"\1" + Offer(7, bytes(NAME_BYTES), bytes(TOKEN_BYTES), key=bytes(32)).to_feature().encode()
