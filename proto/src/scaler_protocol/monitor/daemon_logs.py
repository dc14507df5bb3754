"""The newest lines of the logs of scheduler, agents and worker managers, as a monitor has received them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from operator import itemgetter

from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import LogLine
from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.tables import Row

LOGS_LIMIT = 1_000
"""Logs that are kept: those that have grown last."""

SELECTIONS_LIMIT = 4
"""Selections of rows that are kept of each log: a few screens."""

_LEVELS = ((50, "critical"), (40, "error"), (30, "warning"), (20, "info"))


def level_name(level: int) -> str:
    """A word for a level of Python's logging, or one between two of these."""
    return next((name for least, name in _LEVELS if level >= least), "debug")


Select = Callable[[list[Row]], list[Row]]
"""Rows of one log that a screen shows, in its order."""


class LogRows:
    """The rows of one log in the order of their numbers, and selections of them. They are made when the log has
    changed: there may be 100,000 rows, of which few are new."""

    __slots__ = ("_selections", "_state", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._state: tuple[object, ...] = ()
        self._selections: dict[Hashable, list[Row]] = {}

    def follow(self, log: LatestLines, place: tuple[str, str]) -> None:
        """``place``: the name of the log and its host."""
        if self._state == (log.next_number, place):
            return
        self._state = log.next_number, place
        self.rows = [(each.time, level_name(each.level), *place, each.text, each.number) for each in log.lines]
        self._selections.clear()

    def selected(self, name: Hashable, select: Select) -> list[Row]:
        """Return ``select(rows)``, which ``name`` tells apart from other selections."""
        found = self._selections.get(name)
        if found is None:
            if len(self._selections) == SELECTIONS_LIMIT:
                self._selections.clear()
            found = self._selections[name] = select(self.rows)
        return found


class DaemonLogs:
    def __init__(self) -> None:
        self._logs: OrderedDict[int, LatestLines] = OrderedDict()
        self._rows: dict[int, LogRows] = {}

    def add(self, agent: int, line: LogLine) -> None:
        """A line of the log of this agent or manager, or of the scheduler (NONE). One that has come before changes
        nothing."""
        log = self._logs.setdefault(agent, LatestLines())
        if log.add(LogLine(line.number, line.time, line.level, shown_text(line.text))):
            self._logs.move_to_end(agent)
        if len(self._logs) > LOGS_LIMIT:
            self._rows.pop(self._logs.popitem(last=False)[0], None)

    def by_place(self, place_of: Callable[[int], tuple[str, str]]) -> list[LogRows]:
        """The rows of each log, by host and name. ``place_of`` is the name of a log and its host."""
        found = []
        for agent, log in self._logs.items():
            name, host = place_of(agent)
            rows = self._rows.setdefault(agent, LogRows())
            rows.follow(log, (name, host))
            found.append((natural_key(host), natural_key(name), agent, rows))
        return [rows for *_, rows in sorted(found, key=itemgetter(0, 1, 2))]
