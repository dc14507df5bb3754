"""Objects on their way from here to other stores, a window at a time."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    OBJECT_WINDOW_BYTES,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
)
from scaler_protocol.objects.core.effects import Effect, SendPiece, StoreAnswer
from scaler_protocol.objects.core.space import Extent


@dataclass(slots=True)
class _Serving:
    extent: Extent
    size: int
    pin: int
    offset: int
    limit: int


class Servings:
    """Each holds a pin until its last byte was sent."""

    def __init__(self, effects: list[Effect]) -> None:
        self.sent_bytes = 0
        self._effects = effects
        self._asked: dict[tuple[int, ObjectKey], int] = {}  # where to begin
        self._servings: dict[tuple[int, ObjectKey], _Serving] = {}

    def ask(self, peer: int, key: ObjectKey, offset: int) -> int | None:
        """``peer`` requests it from ``offset`` on. Returns the pin that an earlier request of the peer has left."""
        self._asked[peer, key] = offset
        old = self._servings.pop((peer, key), None)
        return old.pin if old is not None else None

    def decline(self, peer: int, key: ObjectKey) -> None:
        self._asked.pop((peer, key), None)

    def start(self, peer: int, key: ObjectKey, extent: Extent, size: int, pin: int) -> int | None:
        """Its bytes are pinned; the pin when it is not needed any more."""
        offset = min(self._asked.pop((peer, key), size), size)
        if not size:
            self._effects.append(StoreAnswer(peer, ObjectChunk(key, 0, 0, b"")))
        self._servings[peer, key] = _Serving(extent, size, pin, offset, offset + OBJECT_WINDOW_BYTES)
        return self._send(peer, key)

    def on_credit(self, peer: int, credit: ObjectCredit) -> int | None:
        """As ``start``."""
        serving = self._servings.get((peer, credit.key))
        if serving is None:
            return None
        if credit.offset >= serving.size:
            del self._servings[peer, credit.key]
            return serving.pin
        serving.limit = max(serving.limit, credit.offset + OBJECT_WINDOW_BYTES)
        return self._send(peer, credit.key)

    def remove_peer(self, peer: int) -> None:
        """Its pins go with it."""
        self._servings = {name: serving for name, serving in self._servings.items() if name[0] != peer}
        self._asked = {name: offset for name, offset in self._asked.items() if name[0] != peer}

    def _send(self, peer: int, key: ObjectKey) -> int | None:
        serving = self._servings[peer, key]
        while serving.offset < min(serving.size, serving.limit):
            length = min(CHUNK_SIZE_BYTES, serving.size - serving.offset)
            self._effects.append(SendPiece(peer, key, serving.extent, serving.size, serving.offset, length))
            serving.offset += length
            self.sent_bytes += length
        if serving.offset < serving.size:
            return None
        del self._servings[peer, key]
        return serving.pin
