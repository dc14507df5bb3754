"""The large results of one call, which are fetched in order.

Results in the store of this host are there at once, and are fetched a few at a time. Others take a round trip or more,
so that many small ones must be under way to fill a long link. Small ones share a turn of the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from scaler.core.large_results import LargeResult
from scaler.core.outcome import Outcome
from scaler.shell.waiting import PendingAnswer

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

FETCHES_AT_ONCE = 4
"""So many are under way, however large they are."""

TURN_BYTES = 1024 * 1024
"""Results that are fetched in one turn, if there is more than one."""

WINDOW_BYTES = 4 * 1024 * 1024
"""Results that are under way, if they are more than the few."""


class Fetching:
    """Iterate over it for each result's place and outcome, in the order of ``larges``."""

    def __init__(self, client_io: ClientIO, larges: Iterable[tuple[int, LargeResult]]) -> None:
        self._client_io = client_io
        self._waiting = deque(larges)
        self._started: deque[tuple[int, PendingAnswer, int]] = deque()
        self._started_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, Outcome]]:
        while self._waiting or self._started:
            while self._wants_more():
                self._start()
            yield self._take()

    def _take(self) -> tuple[int, Outcome]:
        """Wait for the next one. The caller alone has it then."""
        place, answer, size = self._started.popleft()
        self._started_bytes -= size
        return place, answer.wait()

    def _wants_more(self) -> bool:
        if not self._waiting or len(self._started) < FETCHES_AT_ONCE:
            return bool(self._waiting)
        is_far = not self._started[-1][1].is_settled()
        return is_far and self._started_bytes <= WINDOW_BYTES - TURN_BYTES

    def _start(self) -> None:
        taken = take_next(self._waiting, FETCHES_AT_ONCE - len(self._started))
        answers = self._client_io.fetch_all([large for _, large in taken])
        for (place, large), answer in zip(taken, answers, strict=True):
            self._started.append((place, answer, large.size))
            self._started_bytes += large.size


def take_next(waiting: deque[tuple[int, LargeResult]], count: int) -> list[tuple[int, LargeResult]]:
    """Take ``count`` results but at least one, or more as long as they are small together."""
    taken = [waiting.popleft()]
    size = taken[0][1].size
    while waiting and (len(taken) < count or size + waiting[0][1].size <= TURN_BYTES):
        taken.append(waiting.popleft())
        size += taken[-1][1].size
    return taken
