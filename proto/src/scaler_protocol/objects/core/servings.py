"""Objects on their way from here to other stores.

They travel as chunks, a window at a time, or on a bulk connection, a few pieces at a time. An object that is still
coming here from another store goes on to its readers as it comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    CREDIT_WITHOUT_END,
    OBJECT_WINDOW_BYTES,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
)
from scaler_protocol.objects.bulk_frames import PIECE_BYTES
from scaler_protocol.objects.core.effects import Effect, SendPiece, StoreAnswer
from scaler_protocol.objects.core.space import Extent

PIECES_AHEAD = 2
"""The number of pieces of one object that wait on a bulk connection, so that the objects of one peer take turns."""

_Name = tuple[int, ObjectKey]


@dataclass(slots=True)
class _Serving:
    """``waiting``: pieces that are on the bulk connection and have not been sent. ``available``: the bytes that are
    here; the others are still to come."""

    extent: Extent
    size: int
    pin: int
    offset: int
    limit: int
    direct: bool
    available: int
    waiting: int = 0

    def may_send(self, limit: int) -> bool:
        """A whole piece is here, or the last one."""
        return self.offset < self.size and (self.available >= self.size or self.available - self.offset >= limit)


class Servings:
    """Each holds a pin until its last byte was sent. Methods return the pins that are not needed any more."""

    def __init__(self, effects: list[Effect]) -> None:
        self.sent_bytes = 0
        self._effects = effects
        self._asked: dict[_Name, tuple[int, bool]] = {}  # where to begin, and whether on the bulk connection
        self._servings: dict[_Name, _Serving] = {}
        self._growing: dict[ObjectKey, list[int]] = {}  # the readers of objects that are still coming
        self._ending: dict[_Name, deque[_Serving]] = {}  # given up; some of their pieces have not been sent

    def ask(self, peer: int, key: ObjectKey, offset: int, direct: bool) -> list[int]:
        """``peer`` requests the object from ``offset`` on, which replaces its previous request."""
        self._asked[peer, key] = offset, direct
        return self._end(peer, key)

    def decline(self, peer: int, key: ObjectKey) -> None:
        self._asked.pop((peer, key), None)

    def start(self, peer: int, key: ObjectKey, extent: Extent, size: int, pin: int, available: int) -> list[int]:
        """Its memory is pinned, and ``available`` bytes are here; ``on_grown`` tells of the others."""
        offset, direct = self._asked.pop((peer, key), (size, False))
        offset = min(offset, size)
        if not size:
            self._effects.append(StoreAnswer(peer, ObjectChunk(key, 0, 0, b"")))
        direct = direct and offset < size
        limit = offset + OBJECT_WINDOW_BYTES
        self._servings[peer, key] = _Serving(extent, size, pin, offset, limit, direct, available)
        if available < size:
            self._growing.setdefault(key, []).append(peer)
        return self._continue(peer, key)

    def on_grown(self, key: ObjectKey, available: int) -> list[tuple[int, list[int]]]:
        """More bytes of the object are here. Returns the pins that are not needed any more, by peer."""
        ended = []
        for peer in list(self._growing.get(key, ())):
            serving = self._servings[peer, key]
            serving.available = available
            if available >= serving.size:
                self._note_complete(peer, key)
            ended.append((peer, self._continue(peer, key)))
        return ended

    def on_stopped(self, key: ObjectKey) -> list[tuple[int, list[int]]]:
        """The rest of the object does not come. Returns pins as ``on_grown``, for each of its readers."""
        return [(peer, self._end(peer, key)) for peer in list(self._growing.get(key, ()))]

    def on_credit(self, peer: int, credit: ObjectCredit) -> list[int]:
        serving = self._servings.get((peer, credit.key))
        if serving is None:
            if credit.offset == CREDIT_WITHOUT_END:
                self.decline(peer, credit.key)
            return []
        if credit.offset >= serving.size:
            return self._end(peer, credit.key)
        serving.limit = max(serving.limit, credit.offset + OBJECT_WINDOW_BYTES)
        return [] if serving.direct else self._send(peer, credit.key)

    def _continue(self, peer: int, key: ObjectKey) -> list[int]:
        is_direct = self._servings[peer, key].direct
        return self._send_directly(peer, key) if is_direct else self._send(peer, key)

    def on_piece_sent(self, peer: int, key: ObjectKey) -> list[int]:
        """The oldest piece of the object that was on the peer's bulk connection."""
        ending = self._ending.get((peer, key))
        if ending:
            ending[0].waiting -= 1
            return self._take_ended(peer, key)
        serving = self._servings.get((peer, key))
        if serving is None or not serving.direct:
            return []
        serving.waiting -= 1
        return self._send_directly(peer, key)

    def on_bulk_lost(self, peer: int) -> list[int]:
        """The peer's bulk connection is gone, with the pieces on it. The peer asks again for what it still needs."""
        names = [name for name, serving in self._servings.items() if name[0] == peer and serving.direct]
        ended = [serving for name in names if (serving := self._pop(*name)) is not None]
        for name in [name for name in self._ending if name[0] == peer]:
            ended += self._ending.pop(name)
        return [serving.pin for serving in ended]

    def remove_peer(self, peer: int) -> None:
        """Its pins go with it."""
        for name in [name for name in self._servings if name[0] == peer]:
            self._pop(*name)
        self._ending = {name: ending for name, ending in self._ending.items() if name[0] != peer}
        self._asked = {name: asked for name, asked in self._asked.items() if name[0] != peer}

    def _end(self, peer: int, key: ObjectKey) -> list[int]:
        """Its pin stays as long as pieces of it wait to be sent."""
        serving = self._pop(peer, key)
        if serving is None:
            return []
        if not serving.waiting:
            return [serving.pin]
        self._ending.setdefault((peer, key), deque()).append(serving)
        return []

    def _pop(self, peer: int, key: ObjectKey) -> _Serving | None:
        self._note_complete(peer, key)
        return self._servings.pop((peer, key), None)

    def _note_complete(self, peer: int, key: ObjectKey) -> None:
        """The reader waits for no more bytes to come here."""
        readers = self._growing.get(key)
        if readers is not None and peer in readers:
            readers.remove(peer)
            if not readers:
                del self._growing[key]

    def _take_ended(self, peer: int, key: ObjectKey) -> list[int]:
        ending = self._ending[peer, key]
        if ending[0].waiting:
            return []
        pin = ending.popleft().pin
        if not ending:
            del self._ending[peer, key]
        return [pin]

    def _send(self, peer: int, key: ObjectKey) -> list[int]:
        serving = self._servings[peer, key]
        while serving.offset < serving.limit and serving.may_send(CHUNK_SIZE_BYTES):
            self._send_piece(peer, key, serving, CHUNK_SIZE_BYTES)
        return [] if serving.offset < serving.size else self._end(peer, key)

    def _send_directly(self, peer: int, key: ObjectKey) -> list[int]:
        serving = self._servings[peer, key]
        while serving.waiting < PIECES_AHEAD and serving.may_send(PIECE_BYTES):
            serving.waiting += 1
            self._send_piece(peer, key, serving, PIECE_BYTES)
        return [] if serving.waiting or serving.offset < serving.size else self._end(peer, key)

    def _send_piece(self, peer: int, key: ObjectKey, serving: _Serving, limit: int) -> None:
        length = min(limit, serving.size - serving.offset)
        place = serving.extent, serving.size, serving.offset, length
        self._effects.append(SendPiece(peer, key, *place, direct=serving.direct))
        serving.offset += length
        self.sent_bytes += length
