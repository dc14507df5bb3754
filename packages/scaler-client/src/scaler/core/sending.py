"""Turns what waits to leave a session into messages, in the right order and as many as the connection may have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scaler.core.definitions import Definitions
from scaler.core.kept_objects import KeptObjects
from scaler.core.open_graph import NodePart
from scaler.core.outgoing import Outgoing
from scaler.core.runs import AnyRange
from scaler.core.scheduler_link import SchedulerLink
from scaler.core.uploads import Upload
from scaler_protocol.messages import Cancel, ObjectRelease, ObjectsStored, ObjectStored, TaskColumn, Tasks

if TYPE_CHECKING:
    from scaler_protocol.codec import TaskRun

_MESSAGES_UNDER_WAY_LIMIT = 32
_CANCELS_PER_MESSAGE = 20_000
_UPLOADS_PER_MESSAGE = 4096
_CANCEL_DELAY_SECONDS = 0.001


class Sender:
    """``cancels_due``: when the collected cancels leave, None while no cancel waits for its time. ``takes_many``: the
    scheduler knows ObjectsStored."""

    def __init__(
        self,
        session: bytes,
        connection: SchedulerLink,
        outgoing: Outgoing,
        objects: KeptObjects,
        definitions: Definitions,
    ) -> None:
        self.cancels_due: float | None = None
        self.takes_many = False
        self._session = session
        self._connection = connection
        self._outgoing = outgoing
        self._uploads = outgoing.uploads
        self._objects = objects
        self._definitions = definitions

    def send(self, now: float) -> None:
        """Send what may leave now: messages, then the bytes of objects."""
        outgoing = self._outgoing
        if outgoing.waiting or outgoing.urgent or outgoing.cancels or outgoing.releases:
            self._send_messages(now)
        if self._uploads:
            self._send_pieces(now)

    def _send_messages(self, now: float) -> None:
        connection, outgoing = self._connection, self._outgoing
        waiting = outgoing.waiting
        if outgoing.cancels:
            self._time_cancels(now)
        if outgoing.releases:
            waiting.append(ObjectRelease(tuple(outgoing.releases)))
            outgoing.releases.clear()
        if outgoing.urgent:
            self._send_urgent(now)
        while waiting and connection.messages_under_way < _MESSAGES_UNDER_WAY_LIMIT:
            body = waiting[0]
            if isinstance(body, list):
                self._send_tasks(body, now)
            elif isinstance(body, Upload):
                if self.takes_many and body.stored is not None and self._announce_many(body.stored.store, now):
                    continue
                self._announce(body, now)
            else:
                connection.send(body, now)
            waiting.popleft()

    def _send_urgent(self, now: float) -> None:
        urgent = self._outgoing.urgent
        while urgent:
            self._connection.send(urgent[0], now)
            urgent.popleft()  # only now: an interruption repeats a message but loses none

    # ---- tasks -----------------------------------------------------------------------------------------------------

    def _send_tasks(self, entries: list[AnyRange], now: float) -> None:
        """Make the message when it leaves, so that tasks that were cancelled meanwhile are not in it."""
        connection, outgoing, definitions = self._connection, self._outgoing, self._definitions
        runs = self._runs_of(entries)
        serializers = definitions.new_serializers() if runs and definitions.serializer is not None else []
        if outgoing.urgent:  # the first pieces of large functions
            self._send_urgent(now)
        if runs:
            functions = definitions.take_new() if definitions.new else []
            parent, connection.parent_to_tell = connection.parent_to_tell, None
            connection.send(Tasks(runs, functions, serializers, False, parent), now)

    def _runs_of(self, entries: list[AnyRange]) -> list[TaskRun]:
        runs: list[TaskRun] = []
        for entry in entries:
            entry.left = True
            if entry.remaining:
                if entry.shape.function.digest not in self._definitions.sent:
                    self._definitions.define(entry.shape.function)
                if entry.remaining == entry.count:
                    runs.append(entry.run)  # type: ignore[arg-type]
                else:
                    runs.extend(unfinished_runs(entry))
        return runs

    # ---- cancels ---------------------------------------------------------------------------------------------------

    def _time_cancels(self, now: float) -> None:
        """Send a few cancels at once if no message is under way; otherwise collect those of the next millisecond."""
        if self._connection.messages_under_way <= 0 or len(self._outgoing.cancels) >= _CANCELS_PER_MESSAGE:
            self.state_cancels()
        elif self.cancels_due is None:
            self.cancels_due = now + _CANCEL_DELAY_SECONDS

    def state_cancels(self) -> None:
        """Turn the collected cancels into urgent messages."""
        cancels, self.cancels_due = self._outgoing.cancels, None
        while cancels:
            part = tuple(cancels[:_CANCELS_PER_MESSAGE])
            self._outgoing.urgent.append(Cancel((TaskColumn(self._session, part),)))
            del cancels[: len(part)]  # only now: an interruption loses no cancel

    def on_deadline(self, now: float) -> None:
        if self.cancels_due is not None and now >= self.cancels_due:
            self.state_cancels()

    # ---- objects ---------------------------------------------------------------------------------------------------

    def _announce(self, upload: Upload, now: float) -> None:
        """Tell the scheduler of an object, ahead of the tasks that use it."""
        if upload.stored is not None:
            self._connection.send(ObjectStored(upload.key, upload.size, upload.stored.store), now)
        elif upload.data is not None:
            piece = upload.first_piece()
            self._connection.send(piece, now)
            upload.note_sent(piece)
            self._uploads.add(upload)

    def _announce_many(self, store: bytes, now: float) -> bool:
        """Tell the scheduler of the uploads in this store that come next, with one message. Returns False if it is only
        one."""
        waiting = self._outgoing.waiting
        uploads: list[Upload] = []
        for body in waiting:
            if not isinstance(body, Upload) or body.stored is None or body.stored.store != store:
                break
            if len(uploads) == _UPLOADS_PER_MESSAGE:
                break
            uploads.append(body)
        if len(uploads) == 1:
            return False
        numbers = tuple(upload.key.number for upload in uploads)
        sizes = tuple(upload.size for upload in uploads)
        self._connection.send(ObjectsStored(self._session, numbers, sizes, store), now)
        for _ in uploads:
            waiting.popleft()  # only now: an interruption repeats a message but loses none
        return True

    def _send_pieces(self, now: float) -> None:
        """Send as many bytes of objects as do not delay messages noticeably."""
        connection, queue = self._connection, self._uploads
        while (upload := queue.next()) is not None:
            piece = upload.piece(queue.piece_bytes)
            connection.send(piece, now)
            upload.note_sent(piece)
            queue.note_sent(connection.link.sent, len(piece.data), now)
            self._objects.forget_sent(upload)


def restated_runs(entry: AnyRange) -> list[TaskRun]:
    """The tasks of a range that a restarted scheduler must know. A node whose result is here is among them, because its
    value may be needed."""
    if not isinstance(entry.part, NodePart):
        return unfinished_runs(entry)
    run = entry.run
    assert run is not None
    options = replace(run.options, intermediate=True)
    parts = [(run.slice(start, stop), is_here) for start, stop, is_here in entry.part.restated(entry)]
    return [part.with_options(options) if is_here else part for part, is_here in parts]


def unfinished_runs(entry: AnyRange) -> list[TaskRun]:
    """Return the tasks of a range that have not ended, as runs."""
    run = entry.run
    assert run is not None
    if entry.remaining == entry.count:
        return [run]
    return [run.slice(start, stop) for start, stop in entry.unfinished_segments()]
