"""The newest lines of the log of an agent or a manager, and which of them its scheduler has not been sent yet."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import LogLine, LogLines


class AgentLog:
    def __init__(self) -> None:
        self._latest = LatestLines()
        self._sent = 0

    def add(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            self._latest.add(line)

    def restart(self) -> None:
        """Note that the scheduler is another one, which has none of the lines."""
        self._sent = 0

    def take_unsent(self) -> LogLines | None:
        """Return the message with the lines that must be sent, or None if there are no such lines."""
        lines = tuple(line for line in self._latest.lines if line.number >= self._sent)
        if not lines:
            return None
        self._sent = lines[-1].number + 1
        return LogLines(lines)
