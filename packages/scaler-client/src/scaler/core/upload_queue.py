"""The bytes of objects on their way to the scheduler, after all other messages.

A message waits for everything that was given to the connection before it. On a slow uplink, an object of some megabytes
would delay every small task by seconds. Therefore only a limited number of bytes may be unacknowledged: as many as the
connection carries in about a tenth of a second, as the acknowledgements show.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from scaler.core.uploads import Upload
from scaler_protocol.messages import CHUNK_SIZE_BYTES, ObjectKey

FIRST_LIMIT_BYTES = 128 * 1024
LEAST_LIMIT_BYTES = 32 * 1024
MOST_LIMIT_BYTES = 16 * 1024 * 1024
DELAY_SECONDS = 0.1
"""Seconds for which the bytes of objects may delay a message."""

_LEAST_DELAY_SECONDS = 0.0001
_PIECES = 8
_LEAST_PIECE_BYTES = 16 * 1024


class _Piece(NamedTuple):
    """``delivered_bytes``: by all pieces before it was sent; ``is_limited``: no more could be sent because of it."""

    sequence: int
    size: int
    sent_at: float
    delivered_bytes: int
    is_limited: bool


class UploadQueue:
    """Uploads with bytes that may be sent. At most ``limit_bytes`` are under way: what the connection delivers during
    its shortest round trip and DELAY_SECONDS. While the limit itself keeps the rate down, that is more each time."""

    def __init__(self) -> None:
        self.limit_bytes = FIRST_LIMIT_BYTES
        self.bytes_under_way = 0
        self.pieces_under_way = 0
        self._uploads: dict[ObjectKey, Upload] = {}
        self._under_way: deque[_Piece] = deque()
        self._delivered_bytes = 0
        self._least_delay = math.inf
        self._is_turn_of_oldest = False

    def __bool__(self) -> bool:
        return bool(self._uploads)

    @property
    def piece_bytes(self) -> int:
        return max(_LEAST_PIECE_BYTES, min(CHUNK_SIZE_BYTES, self.limit_bytes // _PIECES))

    def add(self, upload: Upload) -> None:
        self._uploads[upload.key] = upload

    def next(self) -> Upload | None:
        """The upload whose next piece is sent now. The oldest upload and the one with the fewest bytes left take turns,
        so that a small object does not wait for a large one and each object gets finished."""
        self._is_turn_of_oldest = not self._is_turn_of_oldest
        while self._uploads and self.bytes_under_way < self.limit_bytes:
            upload = next(iter(self._uploads.values()))
            if not self._is_turn_of_oldest:
                upload = min(self._uploads.values(), key=lambda each: each.size - each.sent)
            if upload.has_more:
                return upload
            del self._uploads[upload.key]
        return None

    def note_sent(self, sequence: int, size: int, now: float) -> None:
        self.bytes_under_way += size
        self.pieces_under_way += 1
        is_limited = 2 * self.bytes_under_way >= self.limit_bytes
        self._under_way.append(_Piece(sequence, size, now, self._delivered_bytes, is_limited))

    def note_acknowledged(self, last: int, now: float) -> None:
        """The scheduler has received all messages up to ``last``."""
        under_way = self._under_way
        while under_way and under_way[0].sequence <= last:
            piece = under_way.popleft()
            self.bytes_under_way -= piece.size
            self.pieces_under_way -= 1
            self._delivered_bytes += piece.size
            self._measure(piece, max(now - piece.sent_at, _LEAST_DELAY_SECONDS))

    def _measure(self, piece: _Piece, delay: float) -> None:
        self._least_delay = min(self._least_delay, delay)
        bytes_per_second = (self._delivered_bytes - piece.delivered_bytes) / delay
        limit = int(bytes_per_second * (self._least_delay + DELAY_SECONDS))
        if limit > self.limit_bytes or piece.is_limited:  # few bytes do not show how many could have been sent
            self.limit_bytes = max(LEAST_LIMIT_BYTES, min(MOST_LIMIT_BYTES, limit))

    def resume(self, received: int, now: float) -> None:
        """The scheduler has received the messages up to ``received``. The others were sent again on a new connection,
        whose delays may differ."""
        self._least_delay = math.inf
        again = [piece._replace(sent_at=now) for piece in self._under_way if piece.sequence > received]
        self._under_way = deque(again)
        self.bytes_under_way, self.pieces_under_way = sum(piece.size for piece in again), len(again)

    def restart(self) -> None:
        """The scheduler knows nothing of this session, so nothing is under way."""
        self._least_delay = math.inf
        self._under_way.clear()
        self.bytes_under_way = self.pieces_under_way = 0

    def clear(self) -> None:
        """Remove all uploads: no object is needed any more."""
        self._uploads.clear()

    def check(self) -> None:
        assert self.bytes_under_way == sum(piece.size for piece in self._under_way)
        assert self.pieces_under_way == len(self._under_way)
