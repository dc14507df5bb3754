"""The newest lines of the logs of scheduler, agents and worker managers, as a monitor has received them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import LogLine
from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.tables import Row

LOGS_LIMIT = 1_000
"""Logs that are kept: those that have grown last."""

_LEVELS = ((50, "critical"), (40, "error"), (30, "warning"), (20, "info"))


def level_name(level: int) -> str:
    """A word for a level of Python's logging, or one between two of these."""
    return next((name for least, name in _LEVELS if level >= least), "debug")


class DaemonLogs:
    def __init__(self) -> None:
        self._logs: OrderedDict[int, LatestLines] = OrderedDict()
        self._rows: dict[int, tuple[tuple[object, ...], list[Row]]] = {}

    def add(self, agent: int, line: LogLine) -> None:
        """A line of the log of this agent or manager, or of the scheduler (NONE). One that has come before changes
        nothing."""
        log = self._logs.setdefault(agent, LatestLines())
        if log.add(LogLine(line.number, line.time, line.level, shown_text(line.text))):
            self._logs.move_to_end(agent)
        if len(self._logs) > LOGS_LIMIT:
            self._rows.pop(self._logs.popitem(last=False)[0], None)

    def rows(self, place_of: Callable[[int], tuple[str, str]]) -> list[Row]:
        """A row for each line. ``place_of`` is the name of a log and its host. The rows of a log are made when it or
        its place has changed: there may be 100,000 of them."""
        rows: list[Row] = []
        for agent, log in self._logs.items():
            place = place_of(agent)
            state, made = self._rows.get(agent, ((), []))
            if state != (log.next_number, place):
                made = [(each.time, level_name(each.level), *place, each.text, each.number) for each in log.lines]
                self._rows[agent] = (log.next_number, place), made
            rows += made
        return rows
