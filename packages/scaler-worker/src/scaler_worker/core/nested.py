"""Clients that live inside tasks of this host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NestedClient:
    """``number``: the processor that its task runs on, or None when that has ended."""

    session: bytes
    number: int | None
    waits: int = 0


class NestedClients:
    """Counts, per processor, which clients wait for results."""

    def __init__(self) -> None:
        self._clients: dict[bytes, NestedClient] = {}

    def open(self, session: bytes, number: int | None) -> None:
        self._clients[session] = NestedClient(session, number)

    def close(self, session: bytes) -> int | None:
        """The processor that nobody waits in any more, if that changed."""
        client = self._clients.pop(session, None)
        if client is None or not client.waits or client.number is None:
            return None
        return None if self._waits(client.number) else client.number

    def wait(self, session: bytes) -> int | None:
        """The processor whose task is blocked from now on, if that changed."""
        client = self._clients.get(session)
        if client is None:
            return None
        client.waits += 1
        return client.number if client.number is not None and self._waits(client.number) == 1 else None

    def go_on(self, session: bytes) -> int | None:
        """The processor whose task goes on, if that changed."""
        client = self._clients.get(session)
        if client is None or not client.waits:
            return None
        client.waits -= 1
        return client.number if client.number is not None and not self._waits(client.number) else None

    def processor_gone(self, number: int) -> None:
        for client in self._clients.values():
            if client.number == number:
                client.number = None

    def sessions(self) -> list[bytes]:
        return list(self._clients)

    def _waits(self, number: int) -> int:
        return sum(client.waits for client in self._clients.values() if client.number == number)
