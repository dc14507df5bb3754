"""Messages and tasks that wait to leave a session, in the order in which they leave."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scaler.core.effects import Effect, Finish
from scaler.core.outcome import Outcome, Sink
from scaler.core.upload_queue import UploadQueue

if TYPE_CHECKING:
    from scaler.core.runs import AnyRange
    from scaler.core.uploads import Upload
    from scaler_protocol.messages import Body, ObjectKey

BATCH_LIMIT_BYTES = 256 * 1024
"""The most bytes of tasks or definitions that are collected in a message. A larger one travels in its own message."""

SLOT_OVERHEAD_BYTES = 24
RUN_OVERHEAD_BYTES = 256


class Outgoing:
    """``effects`` are for the shell. ``urgent`` messages leave first, then what is ``waiting``: a list of ranges
    becomes a message of tasks when it leaves, an upload its first piece. The bytes of ``uploads`` leave last.
    ``releases`` are objects that are no longer needed, ``cancels`` tasks that must end."""

    __slots__ = ("effects", "urgent", "waiting", "uploads", "releases", "cancels")

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.urgent: deque[Body] = deque()
        self.waiting: deque[Body | list[AnyRange] | Upload] = deque()
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
