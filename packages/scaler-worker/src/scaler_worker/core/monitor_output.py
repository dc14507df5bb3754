"""The output of tasks on its way to monitors, while they watch.

Text is sent four times a second. The text that one task writes in between is cut to its beginning and its end, and the
text of all tasks together has a limit. Beyond it, the tasks that began to write first are served first, and the others
say how much is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import OutputPiece, PrintedOutput
from scaler_worker.core.kept_output import piece_of
from scaler_worker.core.process_output import Writer
from scaler_worker.core.state import AgentState

INTERVAL_SECONDS = 0.25
HEAD_BYTES = 4 * 1024
TAIL_BYTES = 12 * 1024
"""The parts that are kept of the text that one task writes to one stream in an interval."""

LIMIT_BYTES = 64 * 1024
"""Limit of an interval."""

WRITERS_LIMIT = 1000


@dataclass(slots=True)
class _Written:
    head: bytes = b""
    tail: bytes = b""
    left_out: int = 0

    def add(self, data: bytes) -> None:
        room = HEAD_BYTES - len(self.head) if not self.tail else 0
        if len(data) > room:
            room = data.rfind(b"\n", 0, max(0, room)) + 1
        self.head += data[:room]
        self.tail += data[room:]
        surplus = len(self.tail) - TAIL_BYTES
        if surplus > 0:
            surplus = self.tail.find(b"\n", surplus - 1, surplus + 4096) + 1 or surplus  # to the next whole line
            self.tail = self.tail[surplus:]
            self.left_out += surplus

    def pieces(self, writer: Writer, stream: int, missing: int) -> list[OutputPiece]:
        head = [piece_of(writer, stream, self.head, missing)] if self.head else []
        return [*head, piece_of(writer, stream, self.tail, self.left_out)] if self.tail else head

    @property
    def size(self) -> int:
        return len(self.head) + len(self.tail)


class MonitorOutput:
    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._written: dict[tuple[Writer, int], _Written] = {}
        self._missing = 0
        self.due_at: float | None = None
        """The time at which it is to be sent; None: there is nothing."""

    def add(self, writer: Writer, stream: int, data: bytes, now: float) -> None:
        if not (self._state.is_watched and self._state.welcomed):
            return
        written = self._written.get((writer, stream))
        if written is None:
            if len(self._written) >= WRITERS_LIMIT:
                self._missing += len(data)
                return
            written = self._written[writer, stream] = _Written()
        written.add(data)
        if self.due_at is None:
            self.due_at = now + INTERVAL_SECONDS

    def send(self) -> None:
        """It is due."""
        self.due_at = None
        pieces: list[OutputPiece] = []
        room = LIMIT_BYTES
        for (writer, stream), written in self._written.items():
            if written.size > room:
                self._missing += written.size + written.left_out
                continue
            room -= written.size
            pieces.extend(written.pieces(writer, stream, self._missing))
            self._missing = 0
        self._written.clear()
        if pieces and self._state.welcomed:
            self._state.unsent.append(PrintedOutput(tuple(pieces)))
