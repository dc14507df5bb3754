"""The names that a recording has given so far, by the epoch of their scheduler."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler_protocol.monitor.bounds import NAMES_LIMIT, RECORDS_LIMIT
from scaler_protocol.monitor.ring import names_in

BYTES_LIMIT = 64 * 1024 * 1024
"""Maximum size of all names: beyond it those of the oldest epoch are dropped."""

_Names = OrderedDict[tuple[int, int], bytes]


class RecordedNames:
    def __init__(self) -> None:
        self._by_epoch: OrderedDict[int, _Names] = OrderedDict()
        self._bytes = 0

    def add(self, epoch: int, records: bytes) -> None:
        """Add the names in these event records; the latest ones are kept."""
        found = names_in(records)
        names = self._by_epoch.setdefault(epoch, OrderedDict()) if found else OrderedDict()
        for naming, index, record in found:
            self._bytes += len(record) - len(names.pop((naming, index), b""))
            names[naming, index] = record
        while len(names) > 3 * NAMES_LIMIT:
            self._bytes -= len(names.popitem(last=False)[1])
        while self._bytes > BYTES_LIMIT and self._by_epoch:
            self._bytes -= sum(map(len, self._by_epoch.popitem(last=False)[1].values()))

    def parts(self, epoch: int) -> Iterator[bytes]:
        """All of this epoch, in as many pieces as readers take."""
        records = list(self._by_epoch.get(epoch, {}).values())
        for start in range(0, len(records), RECORDS_LIMIT):
            yield b"".join(records[start : start + RECORDS_LIMIT])
