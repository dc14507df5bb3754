"""Output of tasks, line by line: the newest lines that a monitor has received."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.format import format_bytes
from scaler_protocol.output_text import STREAM_NAMES as STREAM_NAMES
from scaler_protocol.output_text import prefix_of, shown_lines

LINES_LIMIT = 50_000
LIMIT_CHARACTERS = 16 * 1024 * 1024
LINE_CHARACTERS = 4_000
"""The rest of a longer line is left out."""

_LINE_SIZE = 300
"""Memory that a line needs in addition to its text."""

STDOUT, STDERR = 1, 2


class PrintedLine(NamedTuple):
    """``number`` counts all lines of this monitor. ``session``: as monitors show it; empty outside of tasks."""

    number: int
    time: float
    session: bytes
    task: int
    attempt: int
    function: str
    worker: str
    stream: int
    text: str

    @property
    def prefix(self) -> str:
        """The worker, the function and the task that have written the line."""
        return f"{self.worker} {prefix_of(self.function, self.task)}"


class PrintedBy(NamedTuple):
    """Conditions for lines. Empty and None: all. ``text``: part of a line, or of the name of its function or
    worker."""

    text: str = ""
    session: bytes = b""
    task: int | None = None
    worker: str = ""

    @property
    def is_everything(self) -> bool:
        return self == PrintedBy()

    def matches(self, line: PrintedLine) -> bool:
        if self.task is not None and (line.task, line.session) != (self.task, self.session):
            return False
        if self.worker and line.worker != self.worker:
            return False
        return not self.text or any(self.text in each.lower() for each in (line.text, line.function, line.worker))


class OutputLog:
    def __init__(self) -> None:
        self.lines: deque[PrintedLine] = deque()
        self.total = 0
        """Lines so far, kept or not."""

        self._characters = 0

    def add(
        self, time: float, session: bytes, task: int, attempt: int, function: str, worker: str, stream: int,
        left_out: int, data: bytes,
    ) -> None:  # fmt: skip
        """``data``: whole lines, or the end of one. ``left_out``: bytes that are missing before it."""
        function, worker = shown_text(function), shown_text(worker)
        missing = [f"[{format_bytes(left_out)} of output are left out]"] if left_out else []
        for text in (*missing, *shown_lines(data)):
            if len(text) > LINE_CHARACTERS:
                text = f"{text[:LINE_CHARACTERS]}… ({len(text) - LINE_CHARACTERS:,} more characters)"
            self._append(PrintedLine(self.total, time, session, task, attempt, function, worker, stream, text))

    def newest(self, wanted: PrintedBy, offset: int, limit: int) -> tuple[list[PrintedLine], int]:
        """Up to ``limit`` lines in order, the last of them with ``offset`` others after it; and how many there are."""
        if wanted.is_everything:
            return list(islice(reversed(self.lines), offset, offset + limit))[::-1], len(self.lines)
        wanted = wanted._replace(text=wanted.text.lower())
        found = [line for line in self.lines if wanted.matches(line)]
        stop = max(0, len(found) - offset)
        return found[max(0, stop - limit) : stop], len(found)

    def of_task(self, session: bytes, task: int) -> Iterator[PrintedLine]:
        """All lines of a task, in order."""
        return (line for line in self.lines if (line.task, line.session) == (task, session))

    def newest_of(self, tasks: Collection[tuple[bytes, int]], stream: int, limit: int) -> list[PrintedLine]:
        """Up to ``limit`` lines of some tasks (session and number), in order."""
        found = (line for line in reversed(self.lines) if line.stream == stream and (line.session, line.task) in tasks)
        return list(islice(found, limit))[::-1]

    def _append(self, line: PrintedLine) -> None:
        self.lines.append(line)
        self.total += 1
        self._characters += len(line.text) + _LINE_SIZE
        while self._characters > LIMIT_CHARACTERS or len(self.lines) > LINES_LIMIT:
            self._characters -= len(self.lines.popleft().text) + _LINE_SIZE
