"""The requests for output that wait for answers of agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES, OutputPiece, OutputReply

WAITING_LIMIT, CLIENT_LIMIT = 100, 10
"""Maximum numbers of requests: of all clients, and of one."""

LIMIT_BYTES = 16 * 1024 * 1024
"""Limit of output that waits with the requests. Further output is left out."""

REPLY_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 3 // 2
"""Limit of output for one request: the answer is one message. Answers of further agents are left out."""

_PIECE_BYTES = 112
"""The size of a piece in addition to its bytes and names."""


@dataclass(slots=True)
class WaitingOutputRequest:
    """``number``: that the client gave it. ``agents``: the sessions of those that have not answered."""

    client: bytes
    number: int
    agents: set[bytes]
    deadline: float
    pieces: list[OutputPiece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return size_of(self.pieces)


class OutputTable:
    """The requests for output by the number that the scheduler gave each of them."""

    def __init__(self) -> None:
        self._waiting: dict[int, WaitingOutputRequest] = {}
        self._last_number = 0
        self._bytes = 0

    def has_room_for(self, client: bytes) -> bool:
        """Return whether this client may add a request."""
        own = sum(request.client == client for request in self._waiting.values())
        return len(self._waiting) < WAITING_LIMIT and own < CLIENT_LIMIT

    def add(self, request: WaitingOutputRequest) -> int:
        """Keep a request. Returns its number."""
        self._last_number += 1
        self._waiting[self._last_number] = request
        return self._last_number

    def answer(self, reply: OutputReply, agent: bytes) -> WaitingOutputRequest | None:
        """Take in the answer of this agent. Returns the request if it was the last one, and forgets it."""
        request = self._waiting.get(reply.number)
        if request is None or agent not in request.agents:
            return None
        request.agents.remove(agent)
        size = size_of(reply.pieces)
        if self._bytes + size <= LIMIT_BYTES and request.size + size <= REPLY_LIMIT_BYTES:
            self._bytes += size
            request.pieces.extend(reply.pieces)
        return self._remove(reply.number) if not request.agents else None

    def take_overdue(self, now: float) -> Iterator[WaitingOutputRequest]:
        """Remove and return the requests whose deadline has passed."""
        overdue = [number for number, each in self._waiting.items() if each.deadline <= now]
        return (self._remove(number) for number in overdue)

    def _remove(self, number: int) -> WaitingOutputRequest:
        request = self._waiting.pop(number)
        self._bytes -= request.size
        return request


def size_of(pieces: Iterable[OutputPiece]) -> int:
    """Return the size of these pieces in a message, at most."""
    return sum(len(each.data) + len((each.function + each.worker).encode()) + _PIECE_BYTES for each in pieces)
