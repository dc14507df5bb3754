"""The newest lines of a log, in bounded memory. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from scaler_protocol.messages import LogLine

LINES_LIMIT = 100
LIMIT_CHARACTERS = 16 * 1024
"""Limit of all lines together."""

LINE_CHARACTERS = 1_000
"""The rest of a longer line is left out."""


class LatestLines:
    """Lines come in the order of their numbers; some may be missing."""

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque(maxlen=LINES_LIMIT)
        self.next_number = 0
        self._characters = 0

    def add(self, line: LogLine) -> bool:
        """Keep the line. Returns False if it has come before."""
        if line.number < self.next_number:
            return False
        self.next_number = line.number + 1
        if len(self.lines) == LINES_LIMIT:
            self._drop_oldest()
        self.lines.append(line)
        self._characters += len(line.text)
        while self._characters > LIMIT_CHARACTERS:
            self._drop_oldest()
        return True

    def newest(self, limit_characters: int) -> list[LogLine]:
        """The last lines that have so many characters together at most, in order."""
        kept: list[LogLine] = []
        for line in reversed(self.lines):
            limit_characters -= len(line.text)
            if limit_characters < 0:
                break
            kept.append(line)
        return kept[::-1]

    def _drop_oldest(self) -> None:
        self._characters -= len(self.lines.popleft().text)


def bounded(lines: Iterable[LogLine]) -> list[LogLine]:
    """The last lines that a peer has sent, of usual length and from after 1970."""
    newest = deque(lines, maxlen=LINES_LIMIT)
    return [LogLine(each.number, max(each.time, 0.0), each.level, shortened(each.text)) for each in newest]


def shortened(text: str) -> str:
    """``text`` in the length of a line."""
    return text if len(text) <= LINE_CHARACTERS else f"{text[: LINE_CHARACTERS - 1]}…"
