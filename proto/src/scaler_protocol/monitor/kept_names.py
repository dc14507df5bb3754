"""The latest names of event records, and the newest lines of logs, in bounded memory.

Each kind of name has a limit of its own: clients make as many functions and options of tasks as they like, and these
must not push out the names of agents and sessions, which are old and still needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from scaler_protocol.log_lines import LINES_LIMIT
from scaler_protocol.monitor import records
from scaler_protocol.monitor.bounds import OPTIONS_LIMIT
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.ring import lasting_in

OPTIONS_LIMIT_BYTES = 16 * 1024 * 1024
"""More than all options that a scheduler has numbers for: of these, each has its name here."""

LOG_LINES_LIMIT = 50_000
LOG_LINES_LIMIT_BYTES = 8 * 1024 * 1024
"""Limits of the lines of all logs together."""


class _LatestNames:
    """The records by what they name, or by log and line, the oldest first; those are dropped first, too."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self.size_bytes = 0
        self._limit, self._limit_bytes = limit, limit_bytes
        self._records: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def add(self, naming: int, index: int, record: bytes) -> None:
        self.size_bytes += len(record) - len(self._records.pop((naming, index), b""))
        self._records[naming, index] = record
        while len(self._records) > self._limit or self.size_bytes > self._limit_bytes:
            self.size_bytes -= len(self._records.popitem(last=False)[1])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._records.values())


class KeptNames:
    """``limit`` and ``limit_bytes``: of the names of sessions, of agents, and of functions."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        others = (Naming.SESSION, Naming.AGENT, Naming.FUNCTION)
        self._names = {int(kind): _LatestNames(limit, limit_bytes) for kind in others}
        self._names[Naming.OPTIONS] = _LatestNames(OPTIONS_LIMIT, OPTIONS_LIMIT_BYTES)
        self._log_lines = _LatestNames(LOG_LINES_LIMIT, LOG_LINES_LIMIT_BYTES)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self._names.values()) + self._log_lines.size_bytes

    def add(self, data: bytes) -> None:
        """Add the names and lines of logs in these event records."""
        for each in lasting_in(data):
            head = next(records.records(each))
            if head.kind == Kind.LOG:  # a line takes the place of the one that is a hundred older
                self._log_lines.add(head.agent, head.first % LINES_LIMIT, each)
            elif head.flags in self._names:
                self._names[head.flags].add(head.flags, head.first, each)

    def records(self) -> list[bytes]:
        """Return all records that are kept: names, those of options last, then lines of logs; the oldest first."""
        return [*chain.from_iterable(self._names.values()), *self._log_lines]
