"""Event records on their way from the scheduler's ring to watchers, and what is kept of them for late ones."""

from __future__ import annotations

import mmap
import os
import time
from collections import deque
from collections.abc import Iterator

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.ring import RingReader, names_in

BATCH_BYTES = 512 * 1024
HISTORY_BYTES = 8 * 1024 * 1024
NAMES_LIMIT = 50_000
"""Names that are kept for late watchers, the latest ones."""


class EventStream:
    """``names``: all records that say what an index means, of this scheduler, the oldest first."""

    def __init__(self) -> None:
        self.names: dict[tuple[int, int], bytes] = {}
        self._reader: RingReader | None = None
        self._base = 0
        self._epoch = 0
        self._recent: deque[tuple[int, bytes]] = deque()
        self._recent_bytes = 0
        self._next = 0

    @property
    def is_open(self) -> bool:
        return self._reader is not None

    def open(self, descriptor: int, base: int, epoch: int) -> None:
        """Records come through this memory from now on; the first one has the number ``base``."""
        self._reader = RingReader(mmap.mmap(descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE))
        os.close(descriptor)
        self._base, self._epoch = base, epoch

    def close(self) -> None:
        """Nobody wants records: what was kept is out of date for the next watcher, but for the names."""
        self._reader = None
        self._recent.clear()
        self._recent_bytes = 0

    def take(self) -> Iterator[bytes]:
        """All records that wait, as encoded messages. ValueError: the memory is damaged, and not used any more."""
        while self._reader is not None:
            try:
                data, count, first = self._reader.take(BATCH_BYTES)
            except ValueError:
                self._reader = None
                raise
            if not data:
                return
            yield self._batch(data, count, self._base + first)

    def history(self) -> list[bytes]:
        """For a late watcher: all names, then the recent past."""
        first = self._recent[0][0] if self._recent else self._next
        return [*self.named(first), *(payload for _, payload in self._recent)]

    def _batch(self, data: bytes, count: int, first: int) -> bytes:
        dropped = self._reader.dropped if self._reader is not None else 0
        payload = feed.encode(Events(time.time(), first, data, dropped, count, self._epoch))
        self._next = first + count
        self._keep_names(data)
        self._recent.append((first, payload))
        self._recent_bytes += len(payload)
        while self._recent_bytes > HISTORY_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1])
        return payload

    def _keep_names(self, data: bytes) -> None:
        for naming, index, record in names_in(data):
            self.names.pop((naming, index), None)
            self.names[naming, index] = record
        while len(self.names) > NAMES_LIMIT:
            del self.names[next(iter(self.names))]

    def named(self, first: int | None = None) -> Iterator[bytes]:
        """The names, as messages that stand before record ``first`` (None: the next one) and count as none."""
        first = self._next if first is None else first
        part: list[bytes] = []
        size = 0
        for record in [*self.names.values(), None]:
            if part and (record is None or size + len(record) > BATCH_BYTES):
                yield feed.encode(Events(time.time(), first, b"".join(part), 0, 0, self._epoch))
                part, size = [], 0
            if record is not None:
                part.append(record)
                size += len(record)
