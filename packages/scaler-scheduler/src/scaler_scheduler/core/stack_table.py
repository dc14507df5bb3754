"""The requests for stacks that wait for the answer of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

WAITING_LIMIT = 1000
CLIENT_LIMIT = 50
"""Maximum number of requests of one client."""


@dataclass(frozen=True, slots=True)
class WaitingStackRequest:
    """``number``: that the client gave it. ``agent``: the session of the agent that was asked."""

    client: bytes
    number: int
    agent: bytes
    deadline: float


class StackTable:
    """The requests for stacks by the number that the scheduler gave each of them."""

    def __init__(self) -> None:
        self._waiting: dict[int, WaitingStackRequest] = {}
        self._count_by_client: dict[bytes, int] = {}
        self._last_number = 0

    def has_room_for(self, client: bytes) -> bool:
        """Return whether this client may add a request."""
        return len(self._waiting) < WAITING_LIMIT and self._count_by_client.get(client, 0) < CLIENT_LIMIT

    def add(self, request: WaitingStackRequest) -> int:
        """Keep a request. Returns its number."""
        self._last_number += 1
        self._waiting[self._last_number] = request
        self._count_by_client[request.client] = self._count_by_client.get(request.client, 0) + 1
        return self._last_number

    def take(self, number: int, agent: bytes) -> WaitingStackRequest | None:
        """Remove and return the request that this agent answers, or None if it did not answer one."""
        request = self._waiting.get(number)
        if request is None or request.agent != agent:
            return None
        return self._remove(number)

    def take_overdue(self, now: float) -> Iterator[WaitingStackRequest]:
        """Remove and return the requests whose deadline has passed."""
        overdue = [number for number, each in self._waiting.items() if each.deadline <= now]
        return (self._remove(number) for number in overdue)

    def _remove(self, number: int) -> WaitingStackRequest:
        request = self._waiting.pop(number)
        self._count_by_client[request.client] -= 1
        if not self._count_by_client[request.client]:
            del self._count_by_client[request.client]
        return request
