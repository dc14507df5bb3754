"""The names that a recording has given so far, by the epoch of their scheduler."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler_protocol.monitor.bounds import NAMES_LIMIT, RECORDS_LIMIT
from scaler_protocol.monitor.kept_names import KeptNames

BYTES_LIMIT = 64 * 1024 * 1024
"""Maximum size of all names: beyond it those of the oldest epochs are dropped, and of the last one the oldest."""


class RecordedNames:
    def __init__(self) -> None:
        self._by_epoch: OrderedDict[int, KeptNames] = OrderedDict()
        self._bytes = 0

    def add(self, epoch: int, records: bytes) -> None:
        """Add the names in these event records; the latest ones are kept."""
        names = self._by_epoch.get(epoch) or KeptNames(NAMES_LIMIT, BYTES_LIMIT // 3)
        before = names.size_bytes
        names.add(records)
        self._bytes += names.size_bytes - before
        if names.size_bytes:
            self._by_epoch[epoch] = names
        while self._bytes > BYTES_LIMIT and len(self._by_epoch) > 1:
            self._bytes -= self._by_epoch.popitem(last=False)[1].size_bytes

    def parts(self, epoch: int) -> Iterator[bytes]:
        """All of this epoch, in as many pieces as readers take."""
        names = self._by_epoch.get(epoch)
        records = names.records() if names is not None else []
        for start in range(0, len(records), RECORDS_LIMIT):
            yield b"".join(records[start : start + RECORDS_LIMIT])
