"""Objects that this client sends: large arguments, large functions, and what ``send_object`` names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    INLINE_LIMIT_BYTES,
    OBJECT_WINDOW_BYTES,
    ObjectChunk,
    ObjectKey,
)

FIRST_PIECE_BYTES = 4 * 1024
"""The bytes of an object that are sent before the tasks that use it, to announce it to the scheduler."""


class Stored:
    """An object in this host's store, or kept by this client (``store`` is empty). ``read`` returns the bytes of the
    object with a key, or None if the store has lost them."""

    __slots__ = ("size", "store", "read")

    def __init__(self, size: int, store: bytes, read: Callable[[ObjectKey], bytes | memoryview | None]) -> None:
        self.size = size
        self.store = store
        self.read = read


class Upload:
    """One object, kept while tasks or a reference use it, because it is announced again to a scheduler that restarts.
    Its bytes are on their way to the scheduler, or stay in this host's store until the scheduler requests them.
    ``uses`` counts the tasks and the reference."""

    __slots__ = (
        "key",
        "data",
        "stored",
        "size",
        "sent",
        "limit",
        "uses",
        "is_function",
        "dropped",
        "_dropped_uploads",
        "__weakref__",
    )

    def __init__(
        self,
        key: ObjectKey,
        data: bytes | Stored,
        dropped_uploads: deque[Upload],
        is_function: bool = False,
    ) -> None:
        self.key = key
        self.stored = data if isinstance(data, Stored) else None
        self.data: bytes | memoryview | None = None if isinstance(data, Stored) else data
        self.size = data.size if isinstance(data, Stored) else len(data)
        self.uses = 0
        self.is_function = is_function
        self.dropped = False
        self._dropped_uploads = dropped_uploads
        self.restart()

    def __len__(self) -> int:
        """An upload may stand for a serialized argument; it counts as one that is too large to travel inline."""
        return INLINE_LIMIT_BYTES + 1

    def drop_later(self) -> None:
        """The reference was collected. The garbage collector calls this, so it only leaves a note for the session."""
        self._dropped_uploads.append(self)

    def restart(self) -> None:
        self.sent = 0 if self.stored is None else self.size
        self.limit = OBJECT_WINDOW_BYTES

    def content(self) -> bytes | memoryview | None:
        """Return the bytes, or None if they were dropped or lost with the store."""
        return self.data if self.stored is None or self.data is not None else self.stored.read(self.key)

    def begin(self) -> bool:
        """Begin to send the bytes, which the scheduler has requested. Returns False if they are lost."""
        self.data = self.content()
        self.sent = 0
        self.limit = OBJECT_WINDOW_BYTES
        return self.data is not None

    def let_go(self) -> None:
        """Drop the bytes of an object that is not used any more."""
        self.data = self.stored = None

    def grant(self, offset: int) -> None:
        self.limit = max(self.limit, offset + OBJECT_WINDOW_BYTES)
        if offset == CREDIT_WITHOUT_END:
            self.sent = self.size

    @property
    def has_more(self) -> bool:
        """True if bytes may be sent now."""
        return self.data is not None and self.sent < min(self.size, self.limit)

    def piece(self, size: int) -> ObjectChunk:
        """Return the next bytes, at most ``size``. Call ``note_sent`` when they have left."""
        assert self.data is not None
        view = memoryview(self.data)[self.sent : min(self.sent + size, self.limit)]
        return ObjectChunk(self.key, self.size, self.sent, view)  # type: ignore[arg-type]

    def first_piece(self) -> ObjectChunk:
        """Return the first bytes, which announce the object to the scheduler."""
        self.sent = 0
        return self.piece(FIRST_PIECE_BYTES)

    def note_sent(self, piece: ObjectChunk) -> None:
        self.sent = piece.offset + len(piece.data)
        if self.stored is not None and self.complete:
            self.data = None

    @property
    def complete(self) -> bool:
        return self.sent >= self.size
