"""Large results, which stay with their agents or in the store of their host until a thread asks for them."""

from __future__ import annotations

from collections import deque

from scaler.core.completion import Completion
from scaler.core.graphs import GraphPart
from scaler.core.open_graph import NodePart
from scaler.core.outcome import LOCATED, Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler.core.runs import AnyRange
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


class LargeResult:
    """Stands for a result that is still at its agent, or in the ``store`` of its host. When this object is collected
    before the result was fetched, the cluster may forget the bytes."""

    __slots__ = ("key", "range", "index", "size", "store", "_dropped_results")

    def __init__(
        self,
        key: ObjectKey,
        owner: AnyRange,
        index: int,
        size: int,
        store: bytes,
        dropped_results: deque[tuple[AnyRange, int]],
    ) -> None:
        self.key = key
        self.range = owner
        self.index = index
        self.size = size
        self.store = store
        self._dropped_results = dropped_results

    @property
    def is_kept(self) -> bool:
        """False: it is here, on its way here, or lost. Then only a request says which."""
        known = self.range.large.get(self.index)
        return known is not None and known.status == Status.SUCCESS_LARGE

    def __del__(self) -> None:
        self._dropped_results.append((self.range, self.index))


class Fetch:
    """One large result that arrives in chunks and in order. The bytes may start again, even with another size, if the
    task ran again because its agent died."""

    __slots__ = ("key", "range", "index", "sink", "buffer", "received")

    def __init__(self, key: ObjectKey, owner: AnyRange, index: int, sink: Sink) -> None:
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
        """Returns whether the object is complete now. A chunk out of order is left over from an earlier start."""
        if chunk.offset == 0:
            self.buffer = bytearray(chunk.size)
            self.received = 0
        if chunk.offset != self.received or chunk.size != len(self.buffer):
            return False
        end = self.received + len(chunk.data)
        self.buffer[self.received : end] = chunk.data
        self.received = end
        return end >= chunk.size


class LargeResults:
    """``fetches``: the results on their way here. ``dropped``: the results that no future refers to any more."""

    def __init__(self, session: bytes, outgoing: Outgoing, completion: Completion) -> None:
        self.fetches: dict[ObjectKey, Fetch] = {}
        self.dropped: deque[tuple[AnyRange, int]] = deque()
        self._session = session
        self._outgoing = outgoing
        self._completion = completion

    def fetch(self, large: LargeResult, sink: Sink, direct: bool = False) -> None:
        """Get a large result for ``sink``. ``direct``: instead of the result, the sink may get its location (LOCATED),
        and asks again if the result cannot be fetched there."""
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
        """The bytes are here: the cluster may forget them."""
        self.release(large.range, large.index)

    def keep(self, entry: AnyRange, index: int, outcome: Outcome) -> Outcome:
        """A task succeeded with a large result. Returns the outcome for its sink."""
        key = ObjectKey(self._session, entry.first + index)
        size, store = outcome.payload[:_SIZE_BYTES], outcome.payload[_SIZE_BYTES:]
        large = LargeResult(key, entry, index, int.from_bytes(size, "little"), store, self.dropped)
        entry.large[index] = outcome
        if isinstance(entry.part, (GraphPart, NodePart)):
            entry.part.group.large += 1
        return outcome._replace(payload=large)

    def replace(self, entry: AnyRange, index: int, outcome: Outcome) -> None:
        """The task ran again because the agent that kept its result is gone or the scheduler restarted."""
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

    def release(self, entry: AnyRange, index: int) -> None:
        """Finish a task whose large result is here, or not needed any more."""
        known = entry.large.pop(index, None)
        if known is None:
            return
        if isinstance(entry.part, (GraphPart, NodePart)):
            entry.part.group.large -= 1
            if isinstance(entry.part, NodePart) and known.status == Status.SUCCESS_LARGE:
                entry.part.values.add(index)
        self.fetches.pop(ObjectKey(self._session, entry.first + index), None)
        self._outgoing.releases.append(ObjectKey(self._session, entry.first + index))
        self._completion.finish(entry, index)

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
        """The scheduler has restarted: it sends the bytes of all results again."""
        for fetch in self.fetches.values():
            fetch.restart()

    def end_all(self, outcome: Outcome) -> None:
        for fetch in list(self.fetches.values()):
            self._outgoing.tell(fetch.sink, outcome)
        self.fetches.clear()

    def check(self) -> None:
        for key, fetch in self.fetches.items():
            assert fetch.index in fetch.range.large, key
