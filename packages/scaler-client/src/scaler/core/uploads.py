"""Objects that this client sends: large arguments, large functions, and what ``send_object`` names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from scaler_protocol.messages import CHUNK_SIZE_BYTES, INLINE_LIMIT_BYTES, OBJECT_WINDOW_BYTES, ObjectChunk, ObjectKey

CREDIT_WITHOUT_END = 2**64 - 1


class Upload:
    """One object on its way to the scheduler, kept while tasks or a reference use it: a scheduler that restarts gets it
    again. ``uses`` counts the tasks and the reference."""

    __slots__ = ("key", "data", "size", "sent", "limit", "uses", "is_function", "dropped", "_dropped_uploads")

    def __init__(self, key: ObjectKey, data: bytes, dropped_uploads: deque[Upload], is_function: bool = False) -> None:
        self.key = key
        self.data: bytes | None = data
        self.size = len(data)
        self.uses = 0
        self.is_function = is_function
        self.dropped = False
        self._dropped_uploads = dropped_uploads
        self.restart()

    def __len__(self) -> int:
        """An upload stands where a serialized argument could: it counts as one that is too large to travel inline."""
        return INLINE_LIMIT_BYTES + 1

    def drop_later(self) -> None:
        """The reference is gone. Called by the garbage collector, so it only leaves a note for the session."""
        self._dropped_uploads.append(self)

    def restart(self) -> None:
        self.sent = 0
        self.limit = OBJECT_WINDOW_BYTES

    def grant(self, offset: int) -> None:
        self.limit = max(self.limit, offset + OBJECT_WINDOW_BYTES)
        if offset == CREDIT_WITHOUT_END:
            self.sent = self.size

    def chunks(self) -> Iterator[ObjectChunk]:
        """What may be sent now."""
        while self.data is not None and self.sent < min(self.size, self.limit):
            view = memoryview(self.data)[self.sent : self.sent + CHUNK_SIZE_BYTES]
            yield ObjectChunk(self.key, self.size, self.sent, view)  # type: ignore[arg-type]
            self.sent += len(view)

    @property
    def complete(self) -> bool:
        return self.sent >= self.size
