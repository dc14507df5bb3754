"""Results that stay with their agents, or in the store of their host, until somebody asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler.core.fetches import Fetch, LargeResult
from scaler.core.graphs import GraphRange
from scaler.core.outcome import LOCATED, Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler.core.runs import Range
from scaler_protocol.messages import (
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRequest,
    Status,
)

_SIZE_BYTES = 8


class LargeResults:
    """``fetches``: those that are on their way here; ``dropped``: those that nobody can ask for any more.
    ``finish_one`` is called when a task is finished with its result."""

    def __init__(self, session: bytes, outgoing: Outgoing, finish_one: Callable[[Range, int], None]) -> None:
        self.fetches: dict[ObjectKey, Fetch] = {}
        self.dropped: deque[tuple[Range, int]] = deque()
        self._session = session
        self._outgoing = outgoing
        self._finish_one = finish_one

    def fetch(self, large: LargeResult, sink: Sink, direct: bool = False) -> None:
        """Get a large result; ``sink`` is told. ``direct``: it may be told instead where it is (LOCATED), and ask again
        if it cannot be had there."""
        entry, index = large.range, large.index
        known = entry.large.get(index)
        if known is None:
            self._outgoing.tell(sink, Outcome(Status.OBJECT_MISSING, b"The result was dropped before it was fetched."))
        elif known.status != Status.SUCCESS_LARGE:
            self.release(entry, index)
            self._outgoing.tell(sink, known)
        else:
            self.fetches[large.key] = Fetch(large.key, entry, index, sink)
            self._outgoing.urgent.append(ObjectRequest(large.key, direct=direct))

    def has_taken(self, large: LargeResult) -> None:
        """Its bytes are here: the cluster may forget them."""
        self.release(large.range, large.index)

    def keep(self, entry: Range, index: int, outcome: Outcome) -> Outcome:
        key = ObjectKey(self._session, entry.first + index)
        size, store = outcome.payload[:_SIZE_BYTES], outcome.payload[_SIZE_BYTES:]
        large = LargeResult(key, entry, index, int.from_bytes(size, "little"), store, self.dropped)
        entry.large[index] = outcome
        if isinstance(entry, GraphRange):
            entry.group.large += 1
        return outcome._replace(payload=large)

    def replace(self, entry: Range, index: int, outcome: Outcome) -> None:
        """The task ran again, because the agent that kept its result is gone or the scheduler restarted."""
        entry.large[index] = outcome
        key = ObjectKey(self._session, entry.first + index)
        fetch = self.fetches.get(key)
        if fetch is None:
            return
        if outcome.status == Status.SUCCESS_LARGE:
            fetch.restart()
            self._outgoing.urgent.append(ObjectRequest(key))
        else:
            self._end_fetch(fetch, outcome)

    def _end_fetch(self, fetch: Fetch, outcome: Outcome) -> None:
        del self.fetches[fetch.key]
        self.release(fetch.range, fetch.index)
        self._outgoing.tell(fetch.sink, outcome)

    def release(self, entry: Range, index: int) -> None:
        if entry.large.pop(index, None) is None:
            return
        if isinstance(entry, GraphRange):
            entry.group.large -= 1
        self.fetches.pop(ObjectKey(self._session, entry.first + index), None)
        self._outgoing.releases.append(ObjectKey(self._session, entry.first + index))
        self._finish_one(entry, index)

    def on_chunk(self, chunk: ObjectChunk, now: float) -> None:
        fetch = self.fetches.get(chunk.key)
        if fetch is None:
            return
        if fetch.take(chunk):
            self._end_fetch(fetch, Outcome(Status.SUCCESS, fetch.buffer))
        else:
            self._outgoing.urgent.append(ObjectCredit(chunk.key, fetch.received))

    def on_locations(self, locations: ObjectLocations, now: float) -> None:
        fetch = self.fetches.pop(locations.key, None)
        if fetch is not None:
            self._outgoing.tell(fetch.sink, Outcome(LOCATED, locations))

    def on_missing(self, missing: ObjectMissing, now: float) -> None:
        fetch = self.fetches.get(missing.key)
        if fetch is not None:
            self._end_fetch(fetch, Outcome(Status.OBJECT_MISSING, missing.text.encode()))

    def forget_dropped(self) -> None:
        while self.dropped:
            entry, index = self.dropped.popleft()
            if ObjectKey(self._session, entry.first + index) not in self.fetches:
                self.release(entry, index)

    def restart(self) -> None:
        """The scheduler has lost them: their bytes come again."""
        for fetch in self.fetches.values():
            fetch.restart()

    def end_all(self, outcome: Outcome) -> None:
        for fetch in list(self.fetches.values()):
            self._outgoing.tell(fetch.sink, outcome)
        self.fetches.clear()

    def check(self) -> None:
        for key, fetch in self.fetches.items():
            assert fetch.index in fetch.range.large, key
