"""Sealed frames of a connection with CURVE: each is a frame of its own, ``MESSAGE``, whose nonce is its number in its
direction. A frame that was changed, repeated or moved cannot be opened.

Used by compiled code only: ``zmtp`` seals and opens.
"""

class CurveError(ValueError):
    """The other end has sent what no holder of the right keys sends."""

class FrameCipher:
    def __init__(self, key: bytes, sent_prefix: bytes, received_prefix: bytes, sent: int, received: int) -> None:
        """``key``: what both ends have computed. The prefixes begin the nonces of the two directions; ``sent`` and
        ``received`` are the last numbers used in the handshake."""
