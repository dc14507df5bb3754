"""Clients that live inside tasks of this host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NestedClient:
    """``number``: the process that its task runs on, or None when that has ended. ``waits``: for a result, or, with
    ``for_a_lock``, for a lock."""

    session: bytes
    number: int | None
    waits: bool = False
    for_a_lock: bool = False


class NestedClients:
    """The nested clients that wait, by worker process. One may wait for longer than its task: in a thread."""

    def __init__(self) -> None:
        self._clients: dict[bytes, NestedClient] = {}

    def open(self, session: bytes, number: int | None) -> None:
        self._clients[session] = NestedClient(session, number)

    def close(self, session: bytes) -> int | None:
        """The worker process in which no client waits any more, if that changed."""
        client = self._clients.pop(session, None)
        if client is None or not client.waits or client.number is None:
            return None
        return None if self._waits(client.number) else client.number

    def wait(self, session: bytes, for_a_lock: bool = False) -> int | None:
        """The worker process whose task is blocked from now on; it may have been so before."""
        client = self._clients.get(session)
        if client is None:
            return None
        client.waits = True
        client.for_a_lock = for_a_lock
        return client.number

    def go_on(self, session: bytes) -> int | None:
        """The worker process whose task goes on, if that changed."""
        client = self._clients.get(session)
        if client is None or not client.waits:
            return None
        client.waits = client.for_a_lock = False
        return client.number if client.number is not None and not self._waits(client.number) else None

    def waits_for_lock(self, number: int) -> bool:
        """Return whether some client of this worker process waits for a lock."""
        return any(client.for_a_lock for client in self._clients.values() if client.number == number)

    def worker_process_gone(self, number: int) -> None:
        for client in self._clients.values():
            if client.number == number:
                client.number = None

    def sessions(self) -> list[bytes]:
        return list(self._clients)

    def _waits(self, number: int) -> bool:
        return any(client.waits for client in self._clients.values() if client.number == number)
