"""The lines of a command's log, for its monitors: they wait here until they are taken."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from scaler_protocol.log_lines import LINES_LIMIT, shortened
from scaler_protocol.messages import LogLine


class LogTail(logging.Handler):
    """Any thread may log. If too many lines wait, the oldest are left out, as their numbers show."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[LogLine] = deque(maxlen=LINES_LIMIT)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # the other handlers of the log complain of it
            return
        for line in [text, *(record.exc_text or "").splitlines()]:
            self._waiting.append(LogLine(self._count, record.created, record.levelno, shortened(line)))
            self._count += 1

    def take(self) -> list[LogLine]:
        """The lines since the last call, in order."""
        if not self._waiting:
            return []
        self.acquire()
        try:
            lines = list(self._waiting)
            self._waiting.clear()
        finally:
            self.release()
        return lines


@contextmanager
def log_tail() -> Iterator[LogTail]:
    """A tail of the log of this process, as long as the context lasts."""
    tail = LogTail()
    logger = logging.getLogger()
    logger.addHandler(tail)
    try:
        yield tail
    finally:
        logger.removeHandler(tail)
