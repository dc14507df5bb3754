"""Values on their way from the agent that holds them to the peers that need them: clients, or other agents.

A value goes to one reader at a time; the others wait for their turn. An agent whose store can fetch the value from the
store of the holder is only told where that is. Nothing is kept here.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from scaler_protocol.messages import ObjectChunk, ObjectKey, ObjectRequest


class LostRead(NamedTuple):
    """A reader that will not get a value from its holder. ``relayed``: it needs the bytes themselves."""

    key: ObjectKey
    reader: bytes
    relayed: bool


class ValueRelay:
    """One value: the session of its holder, and those of its readers, beginning with the one that is served.
    ``relayed``: the readers that need the bytes themselves."""

    def __init__(self, holder: bytes) -> None:
        self.holder = holder
        self.readers: deque[bytes] = deque()
        self.relayed: dict[bytes, bool] = {}


class Relays:
    """The values that are on their way through the scheduler."""

    def __init__(self) -> None:
        self._relays: dict[ObjectKey, ValueRelay] = {}

    def __bool__(self) -> bool:
        return bool(self._relays)

    def join(self, key: ObjectKey, holder: bytes, reader: bytes, relayed: bool) -> bool:
        """``reader`` needs the value; ``relayed``: its bytes. True: the holder must be asked now."""
        relay = self._relays.get(key)
        if relay is None or relay.holder != holder:
            relay = self._relays[key] = ValueRelay(holder)
        if reader not in relay.readers:
            relay.readers.append(reader)
        if relayed:
            relay.relayed[reader] = True
        return relay.readers[0] == reader

    def is_read(self, key: ObjectKey) -> bool:
        """Return whether the value is on its way to a reader."""
        return key in self._relays

    def request(self, key: ObjectKey) -> ObjectRequest:
        """Return the request to the holder for the reader whose turn it is."""
        relay = self._relays[key]
        return ObjectRequest(key, relay.readers[0] in relay.relayed)

    def reader(self, key: ObjectKey, holder: bytes) -> bytes | None:
        """Return the reader that a chunk from ``holder`` is for."""
        relay = self._relays.get(key)
        return relay.readers[0] if relay is not None and relay.holder == holder else None

    def holder(self, key: ObjectKey, reader: bytes) -> bytes | None:
        """Return the holder that the credit of ``reader`` is for."""
        relay = self._relays.get(key)
        return relay.holder if relay is not None and relay.readers[0] == reader else None

    def next(self, key: ObjectKey) -> bool:
        """The first reader has been served. True: the holder must be asked again, for the next reader."""
        relay = self._relays[key]
        relay.relayed.pop(relay.readers.popleft(), None)
        if not relay.readers:
            del self._relays[key]
        return bool(relay.readers)

    def end(self, key: ObjectKey, holder: bytes) -> None:
        """``holder`` must drop the value. It may continue from another holder."""
        relay = self._relays.get(key)
        if relay is not None and relay.holder == holder:
            del self._relays[key]

    def drop(self, key: ObjectKey, holder: bytes) -> list[LostRead]:
        """``holder`` does not have the value any more. Returns the readers that will not get it from there."""
        relay = self._relays.get(key)
        if relay is None or relay.holder != holder:
            return []
        del self._relays[key]
        return [LostRead(key, reader, reader in relay.relayed) for reader in relay.readers]

    def forget_holder(self, session: bytes) -> list[LostRead]:
        """An agent is gone. Returns the readers of all values that will not come from it."""
        keys = [key for key, relay in self._relays.items() if relay.holder == session]
        return [read for key in keys for read in self.drop(key, session)]

    def forget_reader(self, session: bytes) -> list[tuple[ObjectKey, bytes, bool]]:
        """A peer is gone. Returns (key, holder, whether others wait) of the values that were on their way to it."""
        interrupted = []
        for key, relay in list(self._relays.items()):
            if session not in relay.readers:
                continue
            was_served = relay.readers[0] == session
            relay.readers.remove(session)
            if not relay.readers:
                del self._relays[key]
            if was_served:
                interrupted.append((key, relay.holder, bool(relay.readers)))
        return interrupted


def is_last(chunk: ObjectChunk) -> bool:
    return chunk.offset + len(chunk.data) >= chunk.size
