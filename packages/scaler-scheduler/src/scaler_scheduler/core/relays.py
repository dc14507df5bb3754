"""Values on their way from the agent that holds them to whoever asked: a client, or another agent. Nothing is kept.

A value goes to one reader at a time; the others wait their turn. An agent whose store can fetch the value from the
holder's is only told where that is.
"""

from __future__ import annotations

from collections import deque

from scaler_protocol.messages import ObjectChunk, ObjectKey, ObjectRequest


class Relay:
    """One value: the session of its holder, and those of its readers, the one that is served first; ``relayed``: those
    that need the bytes."""

    def __init__(self, holder: bytes) -> None:
        self.holder = holder
        self.readers: deque[bytes] = deque()
        self.relayed: dict[bytes, bool] = {}


class Relays:
    def __init__(self) -> None:
        self._relays: dict[ObjectKey, Relay] = {}

    def __bool__(self) -> bool:
        return bool(self._relays)

    def join(self, key: ObjectKey, holder: bytes, reader: bytes, relayed: bool) -> bool:
        """``reader`` wants the value; ``relayed``: its bytes. True: the holder is to be asked now."""
        relay = self._relays.get(key)
        if relay is None or relay.holder != holder:
            relay = self._relays[key] = Relay(holder)
        if reader not in relay.readers:
            relay.readers.append(reader)
        if relayed:
            relay.relayed[reader] = True
        return relay.readers[0] == reader

    def request(self, key: ObjectKey) -> ObjectRequest:
        """What the holder is asked on behalf of the reader whose turn it is."""
        relay = self._relays[key]
        return ObjectRequest(key, relay.readers[0] in relay.relayed)

    def reader(self, key: ObjectKey, holder: bytes) -> bytes | None:
        """Whom a chunk that came from ``holder`` is for."""
        relay = self._relays.get(key)
        return relay.readers[0] if relay is not None and relay.holder == holder else None

    def holder(self, key: ObjectKey, reader: bytes) -> bytes | None:
        """Whom the credit of ``reader`` is for."""
        relay = self._relays.get(key)
        return relay.holder if relay is not None and relay.readers[0] == reader else None

    def next(self, key: ObjectKey) -> bool:
        """The first reader is served. True: the holder is to be asked again, for the next one."""
        relay = self._relays[key]
        relay.relayed.pop(relay.readers.popleft(), None)
        if not relay.readers:
            del self._relays[key]
        return bool(relay.readers)

    def end(self, key: ObjectKey, holder: bytes) -> None:
        """``holder`` is to drop the value, which nobody needs from it any more. It may go on from another holder."""
        relay = self._relays.get(key)
        if relay is not None and relay.holder == holder:
            del self._relays[key]

    def drop(self, key: ObjectKey) -> list[bytes]:
        """The value is gone; the readers that will not get it."""
        relay = self._relays.pop(key, None)
        return list(relay.readers) if relay is not None else []

    def forget_holder(self, session: bytes) -> list[tuple[ObjectKey, bytes]]:
        """An agent is gone; (key, reader) of all that will not come from it."""
        keys = [key for key, relay in self._relays.items() if relay.holder == session]
        return [(key, reader) for key in keys for reader in self.drop(key)]

    def forget_reader(self, session: bytes) -> list[tuple[ObjectKey, bytes, bool]]:
        """A peer is gone; (key, holder, whether others wait) of the values that were on their way to it."""
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
