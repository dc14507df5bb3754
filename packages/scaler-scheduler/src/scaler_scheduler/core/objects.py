"""Bytes above the inline limit that clients uploaded: kept chunk by chunk, handed to agents under credit."""

from __future__ import annotations

from bisect import bisect_right

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    OBJECT_WINDOW_BYTES,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
)

ALL_OF_IT = 2**64 - 1
UPLOAD_NUMBER = 2**63
"""Numbers of uploaded arguments count down from the top, task ids count up."""


class StoredObject:
    """One object, complete or still arriving. ``readers``: {agent session: [sent, credit]}."""

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.size = -1
        self.received = 0
        self.chunks: list[bytes] = []
        self.offsets: list[int] = []
        self.owners: dict[bytes, bool] = {}
        self.readers: dict[bytes, list[int]] = {}
        self.holders: dict[bytes, bool] = {}

    def take_in(self, chunk: ObjectChunk) -> None:
        """Append what is new of a chunk; the same content may come from several clients."""
        self.size = chunk.size
        start = self.received - chunk.offset
        if start < 0 or start >= len(chunk.data):
            return
        data = chunk.data if start == 0 else bytes(chunk.data)[start:]
        self.offsets.append(self.received)
        self.chunks.append(data)
        self.received += len(data)

    def pieces(self, sent: int, limit: int) -> list[ObjectChunk]:
        """What may be sent to a reader that has been sent ``sent`` bytes and may be sent up to ``limit``."""
        found = []
        while sent < min(self.received, limit):
            index = bisect_right(self.offsets, sent) - 1
            start = sent - self.offsets[index]
            data = self.chunks[index]
            if start or len(data) > CHUNK_SIZE_BYTES:
                data = bytes(data)[start : start + CHUNK_SIZE_BYTES]
            found.append(ObjectChunk(self.key, self.size, sent, data))
            sent += len(data)
        return found


class ObjectStore:
    """All uploaded objects. Its verbs return bodies to send: [(session, body)]."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, StoredObject] = {}

    def on_chunk(self, client: bytes, chunk: ObjectChunk) -> list[tuple[bytes, object]]:
        """A client uploads. It gets credit up to what has been taken in."""
        stored = self.objects.setdefault(chunk.key, StoredObject(chunk.key))
        stored.owners[client] = True
        stored.take_in(chunk)
        end = chunk.offset + len(chunk.data)
        replies: list[tuple[bytes, object]] = []
        if end < chunk.size:
            complete = stored.received >= stored.size
            replies.append((client, ObjectCredit(chunk.key, ALL_OF_IT if complete else end)))
        for agent in list(stored.readers):
            replies += self._pump(stored, agent)
        return replies

    def on_request(self, agent: bytes, key: ObjectKey, expected: bool) -> list[tuple[bytes, object]]:
        """An agent wants an object. ``expected``: its owner is here, so it may still come."""
        stored = self.objects.get(key)
        if stored is None:
            if not expected:
                return [(agent, ObjectMissing(key, "The object is not there: its owner is gone or has dropped it."))]
            stored = self.objects[key] = StoredObject(key)
        stored.holders[agent] = True
        stored.readers[agent] = [0, 0]
        return self._pump(stored, agent)

    def on_credit(self, agent: bytes, credit: ObjectCredit) -> list[tuple[bytes, object]]:
        stored = self.objects.get(credit.key)
        if stored is None or agent not in stored.readers:
            return []
        if credit.offset == ALL_OF_IT:
            del stored.readers[agent]
            return []
        reader = stored.readers[agent]
        reader[1] = max(reader[1], credit.offset)
        return self._pump(stored, agent)

    def _pump(self, stored: StoredObject, agent: bytes) -> list[tuple[bytes, object]]:
        reader = stored.readers[agent]
        pieces = stored.pieces(reader[0], reader[1] + OBJECT_WINDOW_BYTES)
        if pieces:
            reader[0] = pieces[-1].offset + len(pieces[-1].data)
        if stored.size >= 0 and reader[0] >= stored.size:
            del stored.readers[agent]
        return [(agent, piece) for piece in pieces]

    def release(self, owner: bytes, key: ObjectKey) -> StoredObject | None:
        """The owner needs it no more. Returns the object when nobody does: its holders must be told."""
        stored = self.objects.get(key)
        if stored is None:
            return None
        stored.owners.pop(owner, None)
        if stored.owners:
            return None
        return self.objects.pop(key)

    def forget_agent(self, agent: bytes) -> None:
        for stored in self.objects.values():
            stored.readers.pop(agent, None)
            stored.holders.pop(agent, None)
