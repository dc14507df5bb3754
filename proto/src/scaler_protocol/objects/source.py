"""Another store, from which this one fetches."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

from scaler_protocol.address import parse_address
from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, make_hello, place_of
from scaler_protocol.ids import new_session
from scaler_protocol.keys import store_peer_keys
from scaler_protocol.messages import Challenge, Envelope, Role, Welcome
from scaler_protocol.objects.arrival import CUT, GONE
from scaler_protocol.transport.context import Context
from scaler_protocol.transport.dealer_connection import DealerConnection


class RemoteStore:
    """``endpoint`` is ``tcp://host:port#ticket``; both ends prove that they know the ticket, which is not sent. Raises
    OSError and ValueError."""

    def __init__(self, context: Context, endpoint: str) -> None:
        self._address, _, ticket = endpoint.partition("#")
        parsed = parse_address(self._address)
        self.host = parsed.host
        if parsed.scheme != "tcp":
            raise ValueError(f"{self._address} is not the endpoint of an object store.")
        self._session = new_session()
        self._handshake = PeerHandshake(place_of(self._address), os.urandom(NONCE_SIZE_BYTES), ticket.encode())
        self._is_welcome = False
        self._dealer = DealerConnection(context, self._address, self._session, store_peer_keys)

    def fds(self) -> tuple[int, int]:
        return self._dealer.fd, self._dealer.monitor_fd

    def send(self, body: Any) -> None:
        self._dealer.send(encode(Envelope(body)))

    def close(self) -> None:
        self._dealer.close()

    def bodies(self) -> Iterator[Any]:
        """Bodies that arrived from it, CUT for each connection that ended, GONE when no more are to be expected."""
        for event in self._dealer.connection_events():
            self._is_welcome = False
            if event == "connected":
                self.send(self._handshake.begin(make_hello(Role.WORK, self._session)))
            else:
                yield CUT if event == "disconnected" else GONE
        while (frames := self._dealer.receive()) is not None:
            try:
                body = decode(frames).body
            except MalformedMessage as error:
                logging.warning(f"The object store at {self._address} sent an invalid message: {error}")
                body = GONE
            yield from self._take(body)

    def _take(self, body: Any) -> Iterator[Any]:
        """Nothing counts before a Welcome that proves who sent it."""
        if isinstance(body, Challenge):
            proved = self._handshake.answer(body)
            if proved is not None:
                self.send(proved)
        elif isinstance(body, Welcome):
            verdict = self._handshake.judge(body)
            self._is_welcome = self._is_welcome or verdict == "genuine"
            if verdict != "late":
                yield body if verdict == "genuine" else GONE
        elif self._is_welcome or body == GONE:
            yield body
        else:
            yield GONE  # it refuses, for one
