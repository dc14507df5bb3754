"""Large results on their way here."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scaler.core.outcome import Sink
from scaler_protocol.messages import ObjectChunk, ObjectKey

if TYPE_CHECKING:
    from scaler.core.runs import Range


class LargeResult:
    """Stands for a result that is still at its agent, or in the ``store`` of its host. When it is collected unfetched,
    the bytes may be forgotten there."""

    __slots__ = ("key", "range", "index", "size", "store", "_dropped_results")

    def __init__(
        self,
        key: ObjectKey,
        owner: Range,
        index: int,
        size: int,
        store: bytes,
        dropped_results: deque[tuple[Range, int]],
    ) -> None:
        self.key = key
        self.range = owner
        self.index = index
        self.size = size
        self.store = store
        self._dropped_results = dropped_results

    def __del__(self) -> None:
        self._dropped_results.append((self.range, self.index))


class Fetch:
    """One large result being received, in chunks and in order. The bytes may start anew, even with another size: the
    task ran again because its agent died."""

    __slots__ = ("key", "range", "index", "sink", "buffer", "received")

    def __init__(self, key: ObjectKey, owner: Range, index: int, sink: Sink) -> None:
        self.key = key
        self.range = owner
        self.index = index
        self.sink = sink
        self.buffer = bytearray()
        self.received = 0

    def restart(self) -> None:
        self.buffer = bytearray()
        self.received = 0

    def take(self, chunk: ObjectChunk) -> bool:
        """Whether the object is complete now. A chunk out of order is left over from an earlier start."""
        if chunk.offset == 0:
            self.buffer = bytearray(chunk.size)
            self.received = 0
        if chunk.offset != self.received or chunk.size != len(self.buffer):
            return False
        end = self.received + len(chunk.data)
        self.buffer[self.received : end] = chunk.data
        self.received = end
        return end >= chunk.size
