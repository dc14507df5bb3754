"""The record of one object that a client has sent."""

from __future__ import annotations

import hashlib
from bisect import bisect_right

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import CHUNK_SIZE_BYTES, ObjectChunk, ObjectKey


class Forged(Exception):
    """A client has sent bytes that do not match their digest."""


class Assembly:
    """The bytes of an object that one client has sent so far, in order."""

    __slots__ = ("size", "received", "chunks", "offsets", "progress", "_hasher")

    def __init__(self, size: int, is_function: bool) -> None:
        self.size = size
        self.received = 0
        self.chunks: list[bytes] = []
        self.offsets: list[int] = []
        self.progress = 0
        self._hasher = hashlib.blake2b(digest_size=ID_SIZE_BYTES) if is_function else None

    @property
    def is_complete(self) -> bool:
        return self.received >= self.size

    @property
    def digest(self) -> bytes:
        return self._hasher.digest() if self._hasher is not None else b""

    def take_in(self, chunk: ObjectChunk) -> int:
        """Append the new bytes of a chunk. Return their number. Raises Forged."""
        if chunk.size != self.size:
            raise Forged("The chunks of an object disagree about its size.")
        start = self.received - chunk.offset
        if start < 0 or start >= len(chunk.data):
            return 0
        data = chunk.data if start == 0 else bytes(chunk.data)[start:]
        self.offsets.append(self.received)
        self.chunks.append(data)
        self.received += len(data)
        if self._hasher is not None:
            self._hasher.update(data)
        return len(data)

    def pieces(self, key: ObjectKey, sent: int, limit: int) -> list[ObjectChunk]:
        """The pieces to send to a reader that has been sent ``sent`` bytes and may be sent up to ``limit``."""
        found = []
        while sent < min(self.received, limit):
            index = bisect_right(self.offsets, sent) - 1
            start = sent - self.offsets[index]
            data = self.chunks[index]
            if start or len(data) > CHUNK_SIZE_BYTES:
                data = bytes(data)[start : start + CHUNK_SIZE_BYTES]
            found.append(ObjectChunk(key, self.size, sent, data))
            sent += len(data)
        return found

    def take_progress(self) -> int:
        """Return the number of bytes that have come since the last call."""
        grown, self.progress = self.received - self.progress, self.received
        return grown


class StoredObject:
    """One object, in ``stores``, or here (``content``), complete or still arriving.

    ``home``: the store that its owner named. ``owners``: who has it, with what they have sent; of a function there may
    be several, and ``content`` is what was verified. ``senders``: owners of a function that may send on. ``readers``:
    {agent session: [sent, credit]}. ``asked``: the owner that was asked to send what is in a store only. ``lost``:
    no peer has it any more. ``fetching``: agents whose stores fetch it, and from which store, or from which agent whose
    store fetches it, too; ``waiting``: those whose turn comes when there is a source for them.
    """

    def __init__(self, key: ObjectKey) -> None:
        self.key = key
        self.size = -1
        self.content: Assembly | None = None
        self.owners: dict[bytes, Assembly | None] = {}
        self.senders: dict[bytes, bool] = {}
        self.readers: dict[bytes, list[int]] = {}
        self.holders: dict[bytes, bool] = {}
        self.home = b""
        self.stores: dict[bytes, bool] = {}
        self.fetching: dict[bytes, bytes] = {}
        self.waiting: dict[bytes, bool] = {}
        self.asked: bytes | None = None
        self.lost = False

    @property
    def is_function(self) -> bool:
        return not self.key.number

    @property
    def is_complete(self) -> bool:
        return self.content is not None and self.content.is_complete

    def replace_source(self, agent: bytes, store: bytes) -> None:
        """The store of an agent from which others fetch has the whole object now."""
        self.fetching = {each: store if source == agent else source for each, source in self.fetching.items()}
