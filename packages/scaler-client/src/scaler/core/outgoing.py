"""What waits to leave a session."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scaler.core.effects import Effect, Finish
from scaler.core.outcome import Outcome, Sink
from scaler.core.upload_queue import UploadQueue

if TYPE_CHECKING:
    from scaler.core.runs import Range
    from scaler.core.uploads import Upload
    from scaler_protocol.messages import Body, ObjectKey

BATCH_LIMIT_BYTES = 256 * 1024
"""What tasks or definitions a message is filled with, at most: it may have one that is larger."""

SLOT_OVERHEAD_BYTES = 24
RUN_OVERHEAD_BYTES = 256


class Outgoing:
    """``effects`` for the shell, and what becomes messages: ``urgent`` ones go before all that is ``waiting`` (a list
    of ranges becomes a message of tasks when it leaves, an upload its first piece); the bytes of ``uploads`` go behind
    them. ``releases`` are objects that nobody needs any more, ``cancels`` tasks that are to end."""

    __slots__ = ("effects", "urgent", "waiting", "uploads", "releases", "cancels")

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.urgent: deque[Body] = deque()
        self.waiting: deque[Body | list[Range] | Upload] = deque()
        self.uploads = UploadQueue()
        self.releases: list[ObjectKey] = []
        self.cancels: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.effects or self.urgent or self.waiting or self.uploads or self.releases or self.cancels)

    def tell(self, sink: Sink, outcome: Outcome) -> None:
        if not sink.settle(outcome):
            self.effects.append(Finish(sink, outcome))

    def tell_all(self, sinks: list[Sink], outcome: Outcome) -> None:
        for sink in sinks:
            self.tell(sink, outcome)
        sinks.clear()
