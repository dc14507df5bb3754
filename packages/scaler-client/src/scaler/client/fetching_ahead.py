"""Large results of many futures, which are fetched before each is needed, in the order of the futures.

A few are under way, however large they are. Results that are small together are more, so that they fill a long link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from scaler.client.fetching import FETCHES_AT_ONCE, WINDOW_BYTES
from scaler.client.future import ScalerFuture


class FetchingAhead:
    """Futures of other kinds count as futures without a large result."""

    def __init__(self, futures: Sequence[Any]) -> None:
        self._futures = futures
        self._next = 0  # those before it are under way, or were
        self._sizes: deque[tuple[int, int]] = deque()  # of those under way, with their places
        self._bytes = 0

    def reach(self, place: int) -> None:
        """The result at this place is needed now, and none before it any more. Stops at a future that has not ended."""
        self._next = max(self._next, place)
        while self._sizes and self._sizes[0][0] < place:
            self._bytes -= self._sizes.popleft()[1]
        while self._next < len(self._futures) and self._start(self._futures[self._next], place):
            self._next += 1

    def _start(self, future: Any, place: int) -> bool:
        size = future.unfetched_bytes if isinstance(future, ScalerFuture) else 0
        if size is None or (self._next >= place + FETCHES_AT_ONCE and self._bytes + size > WINDOW_BYTES):
            return False
        if size:
            future.fetch_ahead()
            self._sizes.append((self._next, size))
            self._bytes += size
        return True
