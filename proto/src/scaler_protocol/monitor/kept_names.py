"""The latest names of event records, in bounded memory.

Options of tasks have a limit of their own: clients make as many of them as they like, and these must not push out the
names of agents and functions, which are old and still needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler_protocol.monitor.bounds import OPTIONS_LIMIT
from scaler_protocol.monitor.records import Naming
from scaler_protocol.monitor.ring import names_in

OPTIONS_LIMIT_BYTES = 16 * 1024 * 1024
"""More than all options that a scheduler has numbers for: of these, each has its name here."""


class _LatestNames:
    """The records by what they name, the oldest first; those are dropped first, too."""

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
    """``limit`` and ``limit_bytes``: of the names of sessions, agents and functions together."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self._options = _LatestNames(OPTIONS_LIMIT, OPTIONS_LIMIT_BYTES)
        self._others = _LatestNames(limit, limit_bytes)

    @property
    def size_bytes(self) -> int:
        return self._options.size_bytes + self._others.size_bytes

    def add(self, records: bytes) -> None:
        """Add the names in these event records."""
        for naming, index, record in names_in(records):
            (self._options if naming == Naming.OPTIONS else self._others).add(naming, index, record)

    def records(self) -> list[bytes]:
        """Return all records that are kept: those of options last, the oldest first."""
        return [*self._others, *self._options]
