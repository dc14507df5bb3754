"""The connection of clients that are not inside tasks. Those inside do without ZeroMQ."""

from __future__ import annotations

from scaler_protocol.address import parse_address
from scaler_protocol.keys import client_keys
from scaler_protocol.transport.context import new_context, shared_context
from scaler_protocol.transport.dealer_connection import DealerConnection

_GOODBYE_LINGER_MILLISECONDS = 200


class DirectConnection:
    """ZeroMQ to the scheduler."""

    nested = False
    wants_write = False

    def __init__(self, address: str, session: bytes) -> None:
        shared = parse_address(address).scheme == "inproc"
        self._context = shared_context() if shared else new_context()
        self._owns_context = not shared
        try:
            self._dealer = DealerConnection(self._context, address, session, client_keys)
        except BaseException:
            self._close_context()
            raise
        self.fd = self._dealer.fd
        self.monitor_fd: int | None = self._dealer.monitor_fd
        self.place = self._dealer.place
        self.send = self._dealer.send
        self.receive = self._dealer.receive
        self.reconnect = self._dealer.reconnect

    @property
    def token(self) -> bytes:
        return self._dealer.token

    @property
    def obstacle(self) -> str:
        return self._dealer.obstacle

    def events(self) -> list[str]:
        return list(self._dealer.connection_events())

    def tell_wait(self, word: bytes) -> None:
        """No worker waits for this client."""

    def close(self, linger: bool) -> None:
        self._dealer.close(_GOODBYE_LINGER_MILLISECONDS if linger else 0)
        self._close_context()

    def _close_context(self) -> None:
        if self._owns_context:
            self._context.term()
