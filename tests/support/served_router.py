"""A listening router that admits only the peers that the test chooses."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from scaler_protocol.transport.router_socket import RouterSocket
from tests.support.waiting import wait_until


class ServedRouter:
    """A router and all that it has received. ``first``: peer, frames and user of each message of a peer that was not
    admitted. ``messages``: peer and frames of all other messages."""

    def __init__(self, router: RouterSocket, address: str = "tcp://127.0.0.1:0") -> None:
        self.router = router
        self.address = router.bind(address)
        self.first: list[tuple[bytes, list[bytes], bytes]] = []
        self.messages: list[tuple[bytes, list[bytes]]] = []

    def serve(self) -> None:
        """Receive what has arrived, or wait 10 ms for it."""
        select.select([self.router.fd, self.router.monitor_fd], [], [], 0.01)
        self.router.disconnected_events()
        while message := self.router.receive():
            self.messages.append(message)
        self.first.extend(self.router.unauthenticated_messages())

    def until(self, predicate: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Serve until the predicate holds, and return its value."""
        return wait_until(lambda: self.serve() or predicate(), seconds)
