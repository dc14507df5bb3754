"""The output that an agent keeps: of each task the beginning and the end, of all tasks the latest."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

from scaler_protocol.ids import ID_SIZE_BYTES, shown_id
from scaler_protocol.messages import OutputPiece
from scaler_worker.core.process_output import Writer

HEAD_LIMIT_BYTES = 16 * 1024
TAIL_LIMIT_BYTES = 48 * 1024
LIMIT_BYTES = 16 * 1024 * 1024
"""Limit of all tasks together. Then the text of the tasks that have printed least recently is dropped."""

TASK_BYTES = 500
"""Memory that a task needs in addition to its text."""

WORKER_BYTES = 256 * 1024
"""Limit of the text of a worker's tasks that a request gets."""

PIECES_LIMIT = 5_000
NO_SESSION = bytes(ID_SIZE_BYTES)

JOINED_BYTES = 4 * 1024
"""Text is kept in pieces of about this size."""


@dataclass(slots=True)
class TaskText:
    """The text of one execution. ``left_out``: bytes between ``head`` and ``tail``."""

    writer: Writer
    head: list[tuple[int, bytes]] = field(default_factory=list)
    tail: deque[tuple[int, bytes]] = field(default_factory=deque)
    left_out: int = 0
    head_bytes: int = 0
    tail_bytes: int = 0

    @property
    def size(self) -> int:
        return TASK_BYTES + self.head_bytes + self.tail_bytes

    def add(self, stream: int, data: bytes) -> None:
        room = HEAD_LIMIT_BYTES - self.head_bytes
        if not self.tail and room > 0:
            _join(self.head, stream, data[:room])
            self.head_bytes += len(data[:room])
            data = data[room:]
        if data:
            _join(self.tail, stream, data)
            self.tail_bytes += len(data)
        while self.tail_bytes > TAIL_LIMIT_BYTES:
            self._leave_out()

    def _leave_out(self) -> None:
        """Drop as little as needed of the oldest piece of the tail."""
        stream, data = self.tail.popleft()
        surplus = min(len(data), self.tail_bytes - TAIL_LIMIT_BYTES)
        if surplus < len(data):
            self.tail.appendleft((stream, data[surplus:]))
        self.tail_bytes -= surplus
        self.left_out += surplus

    def pieces(self) -> list[OutputPiece]:
        """Return the pieces in the order in which they were printed, with the session as monitors show it."""
        shown = self.writer._replace(session=shown_id(self.writer.session))
        made = [piece_of(shown, stream, data) for stream, data in [*self.head, *self.tail]]
        if self.left_out:
            made[len(self.head)] = replace(made[len(self.head)], left_out=self.left_out)
        return made


def piece_of(writer: Writer, stream: int, data: bytes, left_out: int = 0) -> OutputPiece:
    return OutputPiece(
        session=writer.session or NO_SESSION,
        task=writer.task,
        attempt=writer.attempt,
        place=writer.place,
        stream=stream,
        left_out=left_out,
        function=writer.function,
        worker=writer.worker,
        data=data,
    )


class KeptOutput:
    """The output of each execution. Those that have printed last are at the end."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._texts: OrderedDict[tuple[bytes, int, int, str], TaskText] = OrderedDict()
        self._bytes = 0

    def add(self, writer: Writer, stream: int, data: bytes) -> None:
        key = writer.session, writer.task, writer.attempt, writer.worker
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = TaskText(writer)
        else:
            self._bytes -= text.size
            self._texts.move_to_end(key)
        text.add(stream, data)
        self._bytes += text.size
        while self._bytes > self._limit_bytes and len(self._texts) > 1:
            self._bytes -= self._texts.popitem(last=False)[1].size

    def of_task(self, session: bytes, task: int) -> list[OutputPiece]:
        """Return the output of each attempt, the oldest one first. ``session``: also as monitors show it."""
        found: list[OutputPiece] = []
        for (owner, number, *_), text in self._texts.items():
            if number == task and owner and session in (owner, shown_id(owner)):
                found.extend(text.pieces())
        return _latest(found)

    def of_worker(self, worker: str) -> list[OutputPiece]:
        """The latest that was printed by its tasks, in order of the tasks that have printed last."""
        found: list[OutputPiece] = []
        size = 0
        for text in reversed(self._texts.values()):
            if text.writer.worker == worker and size < WORKER_BYTES:
                found[:0] = text.pieces()
                size += text.size
        return _latest(found)

    def check(self) -> None:
        assert self._bytes == sum(text.size for text in self._texts.values())


def _latest(pieces: list[OutputPiece]) -> list[OutputPiece]:
    """At most PIECES_LIMIT pieces. The first one says what its execution lacks."""
    dropped, kept = pieces[:-PIECES_LIMIT], pieces[-PIECES_LIMIT:]
    if dropped:
        lost = sum(len(each.data) + each.left_out for each in dropped if _execution_of(each) == _execution_of(kept[0]))
        kept[0] = replace(kept[0], left_out=kept[0].left_out + lost)
    return kept


def _execution_of(piece: OutputPiece) -> tuple[bytes, int, int, str]:
    return piece.session, piece.task, piece.attempt, piece.worker


def _join(pieces: list[tuple[int, bytes]] | deque[tuple[int, bytes]], stream: int, data: bytes) -> None:
    if pieces and pieces[-1][0] == stream and len(pieces[-1][1]) + len(data) <= JOINED_BYTES:
        pieces[-1] = stream, pieces[-1][1] + data
    else:
        pieces.append((stream, data))
