"""The newest lines of the logs of scheduler and agents, as a monitor has received them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import LogLine
from scaler_protocol.monitor.bounds import shown_text

LOGS_LIMIT = 1_000
"""Logs that are kept: those that have grown last."""

_LEVELS = ((50, "critical"), (40, "error"), (30, "warning"), (20, "info"))


def level_name(level: int) -> str:
    """A word for a level of Python's logging, or one between two of these."""
    return next((name for least, name in _LEVELS if level >= least), "debug")


class DaemonLogs:
    def __init__(self) -> None:
        self._logs: OrderedDict[int, LatestLines] = OrderedDict()

    def add(self, agent: int, line: LogLine) -> None:
        """A line of the log of this agent, or of the scheduler (NONE). One that has come before changes nothing."""
        log = self._logs.setdefault(agent, LatestLines())
        if log.add(LogLine(line.number, line.time, line.level, shown_text(line.text))):
            self._logs.move_to_end(agent)
        if len(self._logs) > LOGS_LIMIT:
            self._logs.popitem(last=False)

    def lines(self) -> Iterator[tuple[int, LogLine]]:
        """All lines with the agent, or NONE, whose they are."""
        for agent, log in self._logs.items():
            for line in log.lines:
                yield agent, line
