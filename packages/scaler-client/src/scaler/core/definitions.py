"""The functions that have been sent to the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.core.kept_objects import KeptObjects
from scaler.core.outgoing import BATCH_LIMIT_BYTES, RUN_OVERHEAD_BYTES, Outgoing
from scaler.core.runs import ClosedRanges, Function
from scaler.core.uploads import Upload
from scaler_protocol.messages import FunctionDefinition, ObjectKey, ObjectRelease, Tasks

_LIMIT = 1000
"""The number of functions that the scheduler is asked to keep, in addition to those in use."""


class Definitions:
    """A function, like the client's ``serializer``, travels with the first message of tasks that needs it. ``sent`` has
    the functions that have left or travel with the next message, by digest; ``new`` has the latter."""

    def __init__(
        self, serializer: Function | None, outgoing: Outgoing, objects: KeptObjects, ranges: ClosedRanges
    ) -> None:
        self.serializer = serializer
        self.sent: dict[bytes, bool] = {}
        self.new: list[FunctionDefinition] = []
        self._limit = _LIMIT
        self._outgoing = outgoing
        self._objects = objects
        self._ranges = ranges

    def define(self, function: Function) -> None:
        """Let the function travel with the next message, unless the scheduler has it."""
        if function.digest in self.sent:
            return
        self.sent[function.digest] = True
        self.new.append(function.definition)
        if function.is_large:
            self._upload(function)
        if len(self.sent) > self._limit:
            self._release_idle()

    def _release_idle(self) -> None:
        """The client keeps using new functions: let the scheduler forget those whose tasks have ended. A function that
        is called again is sent again."""
        used = {entry.shape.function.digest for entry in self._ranges.values()}
        if self.serializer is not None:
            used.add(self.serializer.digest)
        sent = self.sent
        idle = [digest for digest in sent if digest not in used and ObjectKey(digest, 0) not in self._objects.uploads]
        for digest in idle:
            del sent[digest]
        if idle:
            self._outgoing.urgent.append(ObjectRelease(tuple(ObjectKey(digest, 0) for digest in idle)))
        self._limit = max(_LIMIT, 2 * len(sent))

    def new_serializers(self) -> list[FunctionDefinition]:
        serializer = self.serializer
        if serializer is None or serializer.digest in self.sent:
            return []
        self.sent[serializer.digest] = True
        if serializer.is_large:
            self._upload(serializer)
        return [serializer.definition]

    def _upload(self, function: Function) -> None:
        upload = Upload(ObjectKey(function.digest, 0), function.payload, self._objects.dropped, is_function=True)
        piece = upload.first_piece()
        self._outgoing.urgent.append(piece)
        upload.note_sent(piece)
        self._objects.uploads[upload.key] = upload
        self._outgoing.uploads.add(upload)

    def take_new(self) -> list[FunctionDefinition]:
        """The functions that travel with the next message."""
        functions, self.new = self.new, []
        return functions

    def restatements(self) -> Iterator[Tasks]:
        """Messages for a scheduler that knows no function of this client."""
        functions = self.take_new()
        serializers = self.new_serializers()
        if serializers:
            yield Tasks([], [], serializers)
        for part in _groups(functions):
            yield Tasks([], part)


def _groups(definitions: list[FunctionDefinition]) -> Iterator[list[FunctionDefinition]]:
    group: list[FunctionDefinition] = []
    size = 0
    for definition in definitions:
        if group and size + len(definition.payload) > BATCH_LIMIT_BYTES:
            yield group
            group, size = [], 0
        group.append(definition)
        size += len(definition.payload) + RUN_OVERHEAD_BYTES
    if group:
        yield group
