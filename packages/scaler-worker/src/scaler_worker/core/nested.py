"""Clients that live inside tasks of this host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NestedClient:
    """``number``: the worker process of its task; None: it is not known, or has ended. ``waits``: for results or, with
    ``for_a_lock``, for a lock. ``has_died``: the process has ended."""

    session: bytes
    number: int | None
    waits: bool = False
    for_a_lock: bool = False
    has_died: bool = False


RECONNECT_SECONDS = 2.0
"""Seconds for which a client whose connection has ended is expected back while its worker process lives."""


class NestedClients:
    """The nested clients that wait, by worker process. One may wait for longer than its task: in a thread. A client
    whose connection ends is kept for a while, because it connects again if only its connection was cut."""

    def __init__(self) -> None:
        self._clients: dict[bytes, NestedClient] = {}
        self.closed: dict[bytes, float] = {}
        """The times at which the connections of those ended that are expected back."""

    def open(self, session: bytes, number: int | None) -> int | None:
        """A client has connected, perhaps again: then ``number`` may be None, because it is between two tasks. Returns
        the worker process in which no client waits any more, if that changed: one that comes back says again whether it
        waits."""
        freed = self.go_on(session)
        known = self._clients.get(session)
        self._clients[session] = NestedClient(session, known.number if known and number is None else number)
        self.closed.pop(session, None)
        return freed

    def close(self, session: bytes, now: float) -> int | None:
        """A connection has ended. Returns the worker process in which no client waits any more, if that changed."""
        client = self._clients.get(session)
        if client is None:
            return None
        self.closed[session] = now
        return self.go_on(session)

    def take_ended(self, now: float) -> list[bytes]:
        """Remove the clients that cannot come back, or have not done so in time."""
        ended = [
            session
            for session, closed_at in self.closed.items()
            if self._clients[session].has_died or now >= closed_at + RECONNECT_SECONDS
        ]
        for session in ended:
            del self.closed[session], self._clients[session]
        return ended

    def wait_for_results(self, session: bytes) -> int | None:
        """Return the worker process whose task is blocked from now on, or was so before; None: no task is."""
        client = self._clients.get(session)
        if client is None:
            return None
        client.waits, client.for_a_lock = True, False
        return client.number

    def wait_for_lock(self, session: bytes) -> int | None:
        """Do what ``wait_for_results`` does, for a client that waits for a lock."""
        number = self.wait_for_results(session)
        if session in self._clients:
            self._clients[session].for_a_lock = True
        return number

    def go_on(self, session: bytes) -> int | None:
        """A client no longer waits. Return the worker process in which no client waits any more, if that changed."""
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
                client.has_died = True

    def sessions(self) -> list[bytes]:
        return list(self._clients)

    def _waits(self, number: int) -> bool:
        return any(client.waits for client in self._clients.values() if client.number == number)
