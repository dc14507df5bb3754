"""Event records on their way from the scheduler's ring to watchers, and what is kept of them for late ones."""

from __future__ import annotations

import mmap
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.kept_names import KeptNames
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.ring import RingReader

BATCH_BYTES = 512 * 1024
HISTORY_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 32 * 1024
"""Size of a piece of records that are kept; smaller ones are joined to those before them."""

NAMES_LIMIT = 50_000
"""Names of sessions, of agents and of functions that are kept for late watchers, the latest ones."""

NAMES_LIMIT_BYTES = 21 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Batch:
    time: float
    first: int
    count: int
    data: bytes


def _joined(batches: Iterable[_Batch], limit_bytes: int) -> Iterator[_Batch]:
    """The same records in as few batches as hold so many bytes; where some are missing between two, they stay two."""
    parts: list[_Batch] = []
    size = 0
    for batch in batches:
        goes_on = parts and parts[-1].first + parts[-1].count == batch.first and size + len(batch.data) <= limit_bytes
        if parts and not goes_on:
            yield _one(parts)
            parts, size = [], 0
        parts.append(batch)
        size += len(batch.data)
    if parts:
        yield _one(parts)


def _one(parts: list[_Batch]) -> _Batch:
    data = b"".join([each.data for each in parts]) if len(parts) > 1 else parts[0].data
    return _Batch(parts[-1].time, parts[0].first, sum(each.count for each in parts), data)


class EventStream:
    """``names``: the records that say what an index means, of this scheduler."""

    def __init__(self) -> None:
        self.names = KeptNames(NAMES_LIMIT, NAMES_LIMIT_BYTES)
        self._reader: RingReader | None = None
        self._base = 0
        self._epoch = 0
        self._recent: deque[_Batch] = deque()
        self._recent_bytes = 0
        self._next = 0
        self._history: list[bytes] | None = None

    @property
    def is_open(self) -> bool:
        return self._reader is not None

    def open(self, descriptor: int, base: int, epoch: int) -> None:
        """Records come through this memory from now on; the first one has the number ``base``."""
        self._reader = RingReader(mmap.mmap(descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE))
        os.close(descriptor)
        self._base, self._epoch, self._history = base, epoch, None

    def close(self) -> None:
        """No watcher takes records: those kept are out of date for the next watcher, except for the names."""
        self._reader = None
        self._recent.clear()
        self._recent_bytes = 0
        self._history = None

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
        """Return the messages for a late watcher: all names, then the recent past, in few messages, as the queue of a
        watcher is bounded. Watchers that connect together share these messages, which are in memory once."""
        if self._history is None:
            first = self._recent[0].first if self._recent else self._next
            recent = (self._encoded(batch) for batch in _joined(self._recent, BATCH_BYTES))
            self._history = [*self.named(first), *recent]
        return self._history

    def _batch(self, data: bytes, count: int, first: int) -> bytes:
        batch = _Batch(time.time(), first, count, data)
        self._next = first + count
        self._history = None
        self.names.add(data)
        self._recent_bytes += len(data)
        last = self._recent.pop() if self._recent else None
        self._recent.extend(_joined([last, batch] if last is not None else [batch], PIECE_BYTES))
        while self._recent_bytes > HISTORY_BYTES:
            self._recent_bytes -= len(self._recent.popleft().data)
        return self._encoded(batch)

    def _encoded(self, batch: _Batch) -> bytes:
        dropped = self._reader.dropped if self._reader is not None else 0
        return feed.encode(Events(batch.time, batch.first, batch.data, dropped, batch.count, self._epoch))

    def named(self, first: int | None = None) -> Iterator[bytes]:
        """The names, as messages that stand before record ``first`` (None: the next one) and count as none."""
        first = self._next if first is None else first
        part: list[bytes] = []
        size = 0
        for record in [*self.names.records(), None]:
            if part and (record is None or size + len(record) > BATCH_BYTES):
                yield feed.encode(Events(time.time(), first, b"".join(part), 0, 0, self._epoch))
                part, size = [], 0
            if record is not None:
                part.append(record)
                size += len(record)
