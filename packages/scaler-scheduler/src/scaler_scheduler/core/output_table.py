"""The requests for output that wait for answers of agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scaler_protocol.messages import OutputPiece, OutputReply

WAITING_LIMIT = 100
LIMIT_BYTES = 16 * 1024 * 1024
"""Limit of output that waits with the requests. Further output is left out."""


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
        return sum(len(piece.data) for piece in self.pieces)


class OutputTable:
    """The requests for output by the number that the scheduler gave each of them."""

    def __init__(self) -> None:
        self._waiting: dict[int, WaitingOutputRequest] = {}
        self._last_number = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_LIMIT

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
        size = sum(len(piece.data) for piece in reply.pieces)
        if self._bytes + size <= LIMIT_BYTES:
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
