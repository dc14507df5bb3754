"""Both ends of the handshake, for tests of what is below and beside the scheduler, and for foreign peers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import decode, encode
from scaler_protocol.handshake import (
    NONCE_SIZE_BYTES,
    PeerHandshake,
    ServerHandshake,
    make_hello,
    place_of,
    places_of,
)
from scaler_protocol.messages import Challenge, Envelope, Hello, Role, Welcome
from scaler_protocol.security import ensure_token
from scaler_protocol.transport.router_socket import RouterSocket


class OpenRouter(RouterSocket):
    """Admits all who shake hands, whatever they say."""

    def receive_many(self, limit: int) -> list[tuple[bytes, list[bytes], bytes]]:
        messages: list[tuple[bytes, list[bytes], bytes]] = super().receive_many(limit)
        if self.listener is not None:
            self._admit_all(self.listener.unauthenticated)
        return messages or super().receive_many(limit)

    def receive(self) -> tuple[bytes, list[bytes]] | None:
        kept = self.__dict__.setdefault("kept", [])
        if not kept:
            kept.extend(self.receive_many(1))
        return kept.pop(0)[:2] if kept else None

    def _admit_all(self, unauthenticated: Any) -> None:
        for fd, _ in unauthenticated._epoll.poll(0):
            arrived = unauthenticated._arrived.get(fd)
            if arrived is None:
                unauthenticated._serve(fd)
                continue
            connection = arrived.connection
            connection.look()
            if connection.is_ready:
                unauthenticated._name(connection)
                self.admit(connection.identity)
            elif connection.has_ended:
                unauthenticated._end(fd)


class Greeter:
    """The scheduler's part in the handshake."""

    def __init__(self, router: RouterSocket, address: str) -> None:
        self._router = router
        self._handshake = ServerHandshake(ensure_token(), os.urandom(NONCE_SIZE_BYTES), places_of(address))

    def greet(self, peer: bytes, hello: Hello, welcome: Welcome) -> bool:
        """Whether the peer was welcomed: it has proved who it is."""
        answer = self._handshake.answer(hello, 0.0)
        if answer is None:
            self._router.admit(peer)
        self._router.answer(peer, encode(Envelope(answer or self._handshake.prove(hello, welcome))))
        return answer is None


def introduce(
    send: Callable[[list[bytes]], Any],
    receive: Callable[[], list[bytes]],
    address: str,
    session: bytes,
    role: Role = Role.SUBMIT,
    token: bytes | None = None,
) -> Any:
    """Shake hands with the scheduler at this address as any peer does; its last answer."""
    handshake = PeerHandshake(
        place_of(address), os.urandom(NONCE_SIZE_BYTES), ensure_token() if token is None else token
    )
    send(encode(Envelope(handshake.begin(make_hello(role, session)))))
    challenge = decode(receive()).body
    assert isinstance(challenge, Challenge), challenge
    proved = handshake.answer(challenge)
    assert proved is not None
    send(encode(Envelope(proved)))
    answer = decode(receive()).body
    assert not isinstance(answer, Welcome) or handshake.judge(answer) == "genuine"
    return answer
