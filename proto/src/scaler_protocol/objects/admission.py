"""Admission to the store of a host: only processes of its user that prove that they know the user's token are admitted.
The store proves the same to them."""

from __future__ import annotations

import os
from typing import Any

from scaler_protocol.handshake import (
    NONCE_SIZE_BYTES,
    AnsweredChallenges,
    PeerHandshake,
    ServerHandshake,
    refusal_for,
)
from scaler_protocol.messages import Challenge, Hello, RefusalReason, Refused, Welcome
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.names import socket_name
from scaler_protocol.security import ensure_token, read_token

DIRECTORY_FEATURE = "directory"
"""In Hello, this feature means that the peer accepts the descriptor of the directory; in Welcome, that the message came
with this descriptor."""


PLACE_MANY_FEATURE = "placeMany"
"""The store knows StorePlaceMany."""


class StoreAdmission:
    """The store's side of the handshake. ``place`` is the name of its socket."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._seed = os.urandom(NONCE_SIZE_BYTES)
        self._answered = AnsweredChallenges()

    def answer(self, hello: Any, welcome: Welcome, now: float) -> Challenge | Refused | Welcome:
        """Return ``welcome`` with the store's proof if the peer has proved that it knows the token; otherwise a
        challenge or a refusal. ``hello`` is the first message of the peer, of any type."""
        if not isinstance(hello, Hello):
            return Refused(RefusalReason.MALFORMED, "The first message must be Hello.")
        refused = refusal_for(hello)
        if refused is not None:
            return refused
        try:
            handshake = ServerHandshake(read_token(), self._seed, (self._place,), answered=self._answered)
        except (OSError, ValueError) as error:
            return Refused(RefusalReason.TOKEN, str(error))
        return handshake.answer(hello, now) or handshake.prove(hello, welcome)


def handshake_with(cluster: bytes) -> PeerHandshake:
    """Return the peer's side of the handshake. Raises StoreUnavailable if the token cannot be read or created."""
    try:
        return PeerHandshake(socket_name(cluster), os.urandom(NONCE_SIZE_BYTES), ensure_token())
    except (OSError, ValueError) as error:
        raise StoreUnavailable(str(error)) from None
