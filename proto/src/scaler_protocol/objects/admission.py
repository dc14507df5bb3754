"""Admission to the store of a host: only processes of its user that prove that they know the user's token are admitted.
The store proves the same to them."""

from __future__ import annotations

import os
from typing import Any

from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, ServerHandshake, refusal_for
from scaler_protocol.messages import Challenge, Hello, RefusalReason, Refused, Welcome
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.names import socket_name
from scaler_protocol.security import ensure_token, read_token

DIRECTORY_FEATURE = "directory"
"""The feature of Hello of a peer that takes the descriptor of the directory. In Welcome: that descriptor came with it.
Of Welcome: that descriptor came with it."""


class Entrance:
    """The store's end. ``place``: the name of its socket."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._seed = os.urandom(NONCE_SIZE_BYTES)

    def answer(self, hello: Any, welcome: Welcome, now: float) -> Challenge | Refused | Welcome:
        """``welcome``, with a proof, for who has proved what it must. ``hello`` is None for any other message."""
        if not isinstance(hello, Hello):
            return Refused(RefusalReason.MALFORMED, "The first message must be Hello.")
        refused = refusal_for(hello)
        if refused is not None:
            return refused
        try:
            handshake = ServerHandshake(read_token(), self._seed, (self._place,))
        except (OSError, ValueError) as error:
            return Refused(RefusalReason.TOKEN, str(error))
        return handshake.answer(hello, now) or handshake.prove(hello, welcome)


def handshake_with(cluster: bytes) -> PeerHandshake:
    """A peer's end. Raises StoreUnavailable."""
    try:
        return PeerHandshake(socket_name(cluster), os.urandom(NONCE_SIZE_BYTES), ensure_token())
    except (OSError, ValueError) as error:
        raise StoreUnavailable(str(error)) from None
