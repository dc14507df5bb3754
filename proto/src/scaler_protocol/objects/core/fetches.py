"""Objects on their way here from other stores.

Each is asked of one source at a time, in the order in which the sources were named: the next one when that does not
have it, cannot be reached or stalls. Another source starts from the beginning, since its copy may have been made
by another attempt; what a client has sent is the same everywhere, and continues where it stopped.

A client that keeps an object itself is a source that connects here (OWNER_SOURCE): it offers the object, and is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    OWNER_SOURCE,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectRequest,
)
from scaler_protocol.objects.core.effects import AskSource, CloseSource, Effect, OpenSource

FIRST_CHUNK_SECONDS = 3.0
"""A source that has sent nothing for so long since it was asked is given up."""

CUT_SECONDS = 1.0
"""One whose connection was cut gets so long to be connected again."""

STALL_SECONDS = 10.0
"""And one that stops in the middle."""

IDLE_SECONDS = 10.0
"""A connection to another store is kept for so long after its last use."""

CONNECT_SECONDS = 2.0
"""A store that cannot be reached is given up after this long, and not tried again for ``AVOID_SECONDS``."""

ENDPOINTS_LIMIT = 1000
"""Other stores whose bytes are counted one by one."""

AVOID_SECONDS = 30.0

OWNER_SECONDS = 4.0
"""An owner gets so long to connect and to offer the object."""

OFFERS_LIMIT = 1024
"""Offers that are remembered because nothing here has asked for the object yet."""


@dataclass(slots=True, eq=False)
class _Fetch:
    key: ObjectKey
    size: int
    sources: list[str]  # still to be tried, the one that is asked first
    peers: list[int]  # whom to tell
    started: bool = False  # there is memory for it
    received: int = 0
    written: int = 0  # what other stores may read
    deadline: float = 0.0


@dataclass(slots=True, eq=False)
class _Source:
    store: bytes = b""  # its id; empty: not connected
    is_peer: bool = False  # it has connected here
    fetches: dict[ObjectKey, _Fetch] = field(default_factory=dict)
    closes: float = 0.0  # when nothing is fetched


class Fetches:
    """``failed`` collects the keys for which no source is left."""

    def __init__(self, effects: list[Effect]) -> None:
        self.received_bytes = 0
        self.received_from: dict[str, int] = {}
        """The bytes from other stores, by endpoint."""

        self.failed: list[ObjectKey] = []
        self._effects = effects
        self._fetches: dict[ObjectKey, _Fetch] = {}
        self._sources: dict[str, _Source] = {}
        self._avoided: dict[str, float] = {}  # endpoints that could not be connected to, and until when
        self._offers: dict[ObjectKey, str] = {}  # by which peer

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._fetches

    def add(self, key: ObjectKey, size: int, sources: tuple[str, ...], peer: int) -> None:
        """``peer`` wants it; it is started when there is memory."""
        fetch = self._fetches.get(key)
        if fetch is None:
            self._fetches[key] = _Fetch(key, size, list(dict.fromkeys(sources)), [peer])
            return
        fetch.peers.append(peer)
        fetch.sources.extend(source for source in sources if source not in fetch.sources)

    def start(self, key: ObjectKey, now: float) -> None:
        self._fetches[key].started = True
        self._ask(self._fetches[key], now)

    def remove(self, key: ObjectKey, now: float) -> list[int]:
        """It has come, or is not wanted any more; whom to tell."""
        fetch = self._fetches.pop(key)
        if fetch.started and fetch.sources and fetch.sources[0] != OWNER_SOURCE:
            self._leave(fetch, now, is_complete=fetch.received >= fetch.size)
        return fetch.peers

    def remove_peer(self, peer: int) -> list[ObjectKey]:
        """The keys that are no longer requested."""
        for fetch in self._fetches.values():
            fetch.peers = [each for each in fetch.peers if each != peer]
        return [fetch.key for fetch in self._fetches.values() if not fetch.peers]

    # ---- sources -------------------------------------------------------------------------------------------------

    def on_welcomed(self, endpoint: str, store: bytes, now: float) -> None:
        """The connection was established, or established again."""
        source = self._sources.get(endpoint)
        if source is None:
            return
        is_same = source.store == store
        source.store = store
        for fetch in source.fetches.values():
            if not is_same:
                self._begin_again(fetch)
            self._request(endpoint, fetch, now)

    def on_opening(self, endpoint: str, now: float) -> None:
        """The source answers, and its bulk connection is opened before anything is asked."""
        source = self._sources.get(endpoint)
        for fetch in source.fetches.values() if source is not None else ():
            fetch.deadline = max(fetch.deadline, now + FIRST_CHUNK_SECONDS)

    def on_cut(self, endpoint: str, now: float) -> None:
        """Its connection is gone, and is tried again."""
        source = self._sources.get(endpoint)
        for fetch in source.fetches.values() if source is not None else ():
            fetch.deadline = min(fetch.deadline, now + CUT_SECONDS)

    def on_lost(self, endpoint: str, now: float) -> None:
        """The source refuses or cannot be reached: its fetches continue with their next source."""
        source = self._sources.get(endpoint)
        if source is None:
            return
        source.store = b""
        self._avoid(endpoint, now)
        for fetch in list(source.fetches.values()):
            self._next(fetch, now)
        self._close(endpoint)

    def on_offered(self, endpoint: str, key: ObjectKey, now: float) -> None:
        """An owner has connected here, and can push an object; it may come before the object is fetched."""
        fetch = self._fetches.get(key)
        while len(self._offers) >= OFFERS_LIMIT:
            del self._offers[next(iter(self._offers))]
        self._offers[key] = endpoint
        if fetch is not None and fetch.started and fetch.sources[:1] == [OWNER_SOURCE]:
            self._ask(fetch, now)

    def on_offerer_lost(self, endpoint: str, now: float) -> None:
        """Its connection is gone. It may connect again, and continues where it stopped."""
        self._offers = {key: offered_by for key, offered_by in self._offers.items() if offered_by != endpoint}
        source = self._sources.pop(endpoint, None)
        for fetch in source.fetches.values() if source is not None else ():
            fetch.sources[0] = OWNER_SOURCE
            self._ask(fetch, now)

    def on_missing(self, endpoint: str, key: ObjectKey, now: float) -> None:
        fetch = self._asked(endpoint, key)
        if fetch is not None:
            self._next(fetch, now)

    def on_chunk(self, endpoint: str, chunk: ObjectChunk, now: float) -> bool:
        """Return whether it is the next piece of what is wanted."""
        fetch = self._asked(endpoint, chunk.key)
        if fetch is None or chunk.offset != fetch.received:
            return False
        if chunk.size != fetch.size or len(chunk.data) > fetch.size - fetch.received:
            self._next(fetch, now)
            return False
        self._take(fetch, len(chunk.data), now)
        if fetch.received < fetch.size:
            self._effects.append(AskSource(endpoint, ObjectCredit(fetch.key, fetch.received)))
        return True

    def wants(self, endpoint: str, key: ObjectKey, size: int, offset: int) -> bool:
        """Return whether the byte at ``offset``, which has come on a bulk connection, is the next one of what is
        wanted."""
        fetch = self._asked(endpoint, key)
        return fetch is not None and fetch.size == size and fetch.received == offset

    def on_bytes(self, endpoint: str, key: ObjectKey, count: int, now: float) -> None:
        """Note that this many further bytes of the wanted object have arrived on a bulk connection."""
        fetch = self._asked(endpoint, key)
        if fetch is not None:
            self._take(fetch, min(count, fetch.size - fetch.received), now)

    def _take(self, fetch: _Fetch, count: int, now: float) -> None:
        fetch.received += count
        fetch.deadline = now + STALL_SECONDS
        self.received_bytes += count
        endpoint = fetch.sources[0]
        is_counted = endpoint in self.received_from or len(self.received_from) < ENDPOINTS_LIMIT
        if is_counted and not self._sources[endpoint].is_peer:
            self.received_from[endpoint] = self.received_from.get(endpoint, 0) + count

    def note_written(self, key: ObjectKey) -> int:
        """Everything that has come of an object was written. Returns how many bytes that are."""
        fetch = self._fetches[key]
        fetch.written = fetch.received
        return fetch.written

    def written(self, key: ObjectKey) -> int | None:
        """The bytes that other stores may read before the object has come as a whole; None: none. Only what a client
        has sent does not change when it continues from another source."""
        fetch = self._fetches.get(key)
        return fetch.written if fetch is not None and fetch.started and key.number >= UPLOAD_NUMBER else None

    def is_complete(self, key: ObjectKey) -> bool:
        fetch = self._fetches.get(key)
        return fetch is not None and fetch.started and fetch.received >= fetch.size

    def on_deadline(self, now: float) -> None:
        for fetch in list(self._fetches.values()):
            if fetch.started and now >= fetch.deadline:
                if fetch.sources[0] != OWNER_SOURCE and not self._sources[fetch.sources[0]].store:
                    self._avoid(fetch.sources[0], now)
                self._next(fetch, now)
        for endpoint, source in list(self._sources.items()):
            if not source.fetches and now >= source.closes:
                self._close(endpoint)

    def next_deadline(self) -> float | None:
        if not self._fetches and not self._sources:
            return None
        deadlines = [fetch.deadline for fetch in self._fetches.values() if fetch.started]
        deadlines += [source.closes for source in self._sources.values() if not source.fetches]
        return min(deadlines, default=None)

    def _asked(self, endpoint: str, key: ObjectKey) -> _Fetch | None:
        source = self._sources.get(endpoint)
        return source.fetches.get(key) if source is not None else None

    def _ask(self, fetch: _Fetch, now: float) -> None:
        """Ask the first source of a fetch; without a source, the fetch fails."""
        self._begin_again(fetch)
        fetch.deadline = now + CONNECT_SECONDS
        fetch.sources = [each for each in fetch.sources if self._avoided.get(each, 0.0) <= now]
        if not fetch.sources:
            self.failed.append(fetch.key)
            return
        if fetch.sources[0] == OWNER_SOURCE:
            if fetch.key not in self._offers:
                fetch.deadline = now + OWNER_SECONDS
                return
            fetch.sources[0] = self._accept_offer(fetch.key)
        endpoint = fetch.sources[0]
        source = self._sources.get(endpoint)
        if source is None:
            source = self._sources[endpoint] = _Source()
            self._effects.append(OpenSource(endpoint))
        source.fetches[fetch.key] = fetch
        if source.store:
            self._request(endpoint, fetch, now)

    def _accept_offer(self, key: ObjectKey) -> str:
        endpoint = self._offers.pop(key)
        if endpoint not in self._sources:
            self._sources[endpoint] = _Source(store=endpoint.encode(), is_peer=True)
        return endpoint

    def _begin_again(self, fetch: _Fetch) -> None:
        """Another source, or another copy. Those of an object that a client has sent are all the same."""
        if fetch.key.number < UPLOAD_NUMBER:
            fetch.received = 0

    def _request(self, endpoint: str, fetch: _Fetch, now: float) -> None:
        fetch.deadline = now + FIRST_CHUNK_SECONDS
        self._effects.append(AskSource(endpoint, ObjectRequest(fetch.key, False, fetch.received)))

    def _next(self, fetch: _Fetch, now: float) -> None:
        if fetch.sources[0] != OWNER_SOURCE:
            self._leave(fetch, now, is_complete=False)
        del fetch.sources[0]
        self._ask(fetch, now)

    def _leave(self, fetch: _Fetch, now: float, *, is_complete: bool) -> None:
        """The source of a fetch has nothing more to do for it. It is told unless the fetch ``is_complete``; a source
        that has connected here is told even then."""
        endpoint = fetch.sources[0]
        source = self._sources[endpoint]
        del source.fetches[fetch.key]
        if source.is_peer or (source.store and not is_complete):
            self._effects.append(AskSource(endpoint, ObjectCredit(fetch.key, CREDIT_WITHOUT_END)))
        source.closes = now + IDLE_SECONDS

    def _avoid(self, endpoint: str, now: float) -> None:
        self._avoided = {each: until for each, until in self._avoided.items() if until > now}
        self._avoided[endpoint] = now + AVOID_SECONDS

    def _close(self, endpoint: str) -> None:
        del self._sources[endpoint]
        self._effects.append(CloseSource(endpoint))

    def check(self) -> None:
        for endpoint, source in self._sources.items():
            for key, fetch in source.fetches.items():
                assert self._fetches[key] is fetch and fetch.sources[0] == endpoint
        for key, fetch in self._fetches.items():
            assert key == fetch.key and 0 <= fetch.received <= fetch.size
            asked = [source for source in self._sources.values() if key in source.fetches]
            is_asked = fetch.started and bool(fetch.sources) and fetch.sources[0] != OWNER_SOURCE
            assert len(asked) == is_asked
