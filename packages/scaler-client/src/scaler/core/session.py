"""The client's side of its session with a scheduler, as a deterministic state machine.

Tasks are collected into runs. An idle session (nothing sent is unacknowledged) sends the open batch at once; while
messages are under way, further tasks join the batch, which leaves when an acknowledgement arrives or when it is full.
The session keeps everything unfinished: a scheduler that restarted (another epoch) is told of it again.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.core.absence import Absence
from scaler.core.coordination import Claims
from scaler.core.definitions import Definitions
from scaler.core.effects import Effect, IssueWarnings, Reconnect, WriteOutput
from scaler.core.endings import Endings
from scaler.core.graphs import GraphGroup, GraphRange
from scaler.core.kept_objects import KeptObjects
from scaler.core.outcome import CANCELLED, DISCONNECTED, Outcome, Sink
from scaler.core.outgoing import BATCH_LIMIT_BYTES, RUN_OVERHEAD_BYTES, SLOT_OVERHEAD_BYTES, Outgoing
from scaler.core.questions import QUESTIONS, Questions
from scaler.core.runs import ClosedRanges, Function, FutureRange, MapRange, MapSink, Range, Shape, TaskSink
from scaler.core.uploads import Upload
from scaler_protocol.codec import TaskRunBuilder, split
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    Body,
    Cancel,
    Challenge,
    Clear,
    ClusterInfo,
    Envelope,
    Explanation,
    Goodbye,
    Hello,
    LockReply,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Output,
    Ping,
    Refused,
    Results,
    ShutdownReply,
    Status,
    TaskColumn,
    TaskName,
    Tasks,
    Welcome,
    WhoAreYou,
)

if TYPE_CHECKING:
    from scaler_protocol.codec import TaskRun

SCHEDULER = b""
"""The name of the only peer, in effects and arguments."""

_MESSAGES_UNDER_WAY_LIMIT = 32
_CANCELS_PER_MESSAGE = 20_000
_CANCEL_DELAY_SECONDS = 0.001
_FLUSHES_UNDER_WAY_LIMIT = 8
_HELLO_AGAIN_SECONDS = 1.0
_HELLO_AGAIN_LIMIT_SECONDS = 8.0
_RECONNECT_SECONDS = 2.0
"""How soon it connects again after its key was refused."""

_TURN_MASK = 63


class Session:
    """One client. Ids of tasks are its own counter; 0 is no task. Not thread-safe: its shell holds a lock.

    What it knows beside its connection and its unfinished ``ranges`` has rooms of its own: ``objects`` that tasks use,
    ``endings`` of tasks, ``large`` results, ``questions``, ``claims`` to locks."""

    def __init__(
        self,
        hello: Hello,
        *,
        timeout_seconds: float,
        heartbeat_interval_seconds: float,
        serializer: Function | None,
        now: float,
        handshake: PeerHandshake | None = None,
        address: str = "",
    ) -> None:
        """``handshake``: how the scheduler proves who it is; None: something else protects the connection.
        ``address``: the scheduler's, for people."""
        self.session = hello.session
        self.welcomed = False
        self.protected = True
        self.cluster = b""
        self.refusal = ""
        self.submitted = 0
        self.is_nested = bool(hello.parent_session)
        self._hello = hello
        self._news_of_parent: TaskName | None = None
        self._absence = Absence("" if self.is_nested else address)
        self._timeout_seconds = timeout_seconds
        self._heartbeat_interval_seconds = heartbeat_interval_seconds
        self._link = Link()
        self._epoch = 0
        self._handshake = handshake or PeerHandshake()
        self._obstacle = ""
        self._reconnect_at: float | None = None
        self._connected = False
        self._lost_since: float | None = now
        self._hello_again_at = now
        self._hello_again_seconds = _HELLO_AGAIN_SECONDS
        self._acknowledge_at: float | None = None
        self._last_sent_at = now
        self.open_runs: list[FutureRange] = []
        self._open_bytes = 0
        self.ranges = ClosedRanges()
        self._outgoing = Outgoing()
        self._uploads = self._outgoing.uploads
        self._cancels_due: float | None = None
        self._flush_asked = False
        self.objects = KeptObjects(self.session, self._outgoing)
        self.endings = Endings(self.session, self.ranges, self._outgoing, self.objects)
        self.large = self.endings.large
        self.questions = Questions(self._outgoing)
        self.claims = Claims(self._outgoing)
        self._definitions = Definitions(serializer, self._outgoing, self.objects, self.ranges)
        self._sent_definitions = self._definitions.sent
        self._clear_when_welcomed = False
        self._taken: list[Effect] = []
        self._greetings: dict[type, Callable[[Any, float], None]] = {
            Welcome: self._on_welcome,
            Refused: self._on_refused,
            WhoAreYou: lambda body, now: self._say_hello(now),
            Challenge: self._on_challenge,
        }
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Results: self.endings.on_results,
            ObjectChunk: self.large.on_chunk,
            ObjectLocations: self.large.on_locations,
            ObjectMissing: self.large.on_missing,
            ObjectRequest: self.objects.on_request,
            ObjectCredit: self.objects.on_credit,
            Explanation: self.questions.on_explanation,
            ClusterInfo: self.questions.on_cluster_info,
            ShutdownReply: self.questions.on_shutdown_reply,
            Output: self._on_output,
            LockReply: self.claims.on_reply,
        }

    # ---- what every core has -----------------------------------------------------------------------------------

    def on_connected(self, now: float, token: bytes = b"") -> None:
        """The connection is there, perhaps again: say who this is. ``token``: what both ends prove to know."""
        self._connected = True
        self._handshake.token = token
        self._hello_again_seconds = _HELLO_AGAIN_SECONDS
        self._say_hello(now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        self._connected = False
        self._leave_welcome(now)

    def on_obstacle(self, text: str) -> None:
        """Why there is no connection, if that is known: it is said when the scheduler was out of reach for too long."""
        self._obstacle = text or self._obstacle

    def on_key_refused(self, text: str, now: float) -> None:
        """The scheduler does not let this key in. It may later."""
        self._connected = False
        self._give_up(text, now)
        self._reconnect_at = now + _RECONNECT_SECONDS

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None:
        body = envelope.body
        greeting = self._greetings.get(type(body))
        if greeting is not None:
            greeting(body, now)
            return
        if not self.welcomed:
            return
        link, sequence = self._link, envelope.sequence
        if sequence > link.received + 1:
            self._say_hello(now)
            return
        link.acknowledge(envelope.acknowledged)
        if self._uploads.pieces_under_way:
            self._uploads.note_acknowledged(envelope.acknowledged, now)
        handler = self._handlers.get(type(body))
        if handler is not None and (not sequence or sequence > link.received):
            handler(body, now)
        if link is self._link:
            link.accept(envelope)  # last: who is interrupted before has not received it

    def on_deadline(self, now: float) -> None:
        if self._lost_since is not None and self._is_waiting and now >= self._lost_since + self._timeout_seconds:
            text = f"The scheduler was out of reach for {self._timeout_seconds:g} seconds."
            self._give_up(f"{text} {self._obstacle}".rstrip(), now)
        if self._connected and not self.welcomed and now >= self._hello_again_at:
            self._say_hello_again(now)
        if self._reconnect_at is not None and now >= self._reconnect_at:
            self._reconnect_at = None
            self._outgoing.effects.append(Reconnect())
        due = self._absence.due(self._lost_since)
        if due is not None and now >= due:
            self._outgoing.effects.append(self._absence.tell(self._connected))
        if self._cancels_due is not None and now >= self._cancels_due:
            self._state_cancels()
        if self.welcomed and now >= self._last_sent_at + self._heartbeat_interval_seconds:
            self._send(Ping(), now)

    def next_deadline(self) -> float | None:
        if self.refusal:
            return None
        if self.welcomed:
            due = self._last_sent_at + self._heartbeat_interval_seconds
            if self._acknowledge_at is not None and self._acknowledge_at < due:
                due = self._acknowledge_at
            return due if self._cancels_due is None else min(due, self._cancels_due)
        told_at = self._absence.due(self._lost_since)
        candidates = [] if told_at is None else [told_at]
        if self._lost_since is not None and self._is_waiting:
            candidates.append(self._lost_since + self._timeout_seconds)
        if self._connected:
            candidates.append(self._hello_again_at)
        if self._reconnect_at is not None:
            candidates.append(self._reconnect_at)
        return min(candidates) if candidates else None

    def take_effects(self, now: float) -> list[Effect]:
        outgoing = self._outgoing
        if self.objects.dropped or self.large.dropped:
            self.objects.forget_dropped()
            self.large.forget_dropped()
        if self.welcomed:
            link = self._link
            if self.open_runs and (
                self._flush_asked
                or link.in_flight <= self._uploads.pieces_under_way
                or self._open_bytes >= BATCH_LIMIT_BYTES
            ):
                self._close_batch()
            self._flush_asked = False
            if outgoing.waiting or outgoing.urgent or outgoing.cancels or outgoing.releases:
                self._send_what_waits(now)
            if self._uploads:
                self._send_pieces(now)
            self._acknowledge_at = link.acknowledgement_at(now)
            if self._acknowledge_at is not None and now >= self._acknowledge_at:
                self._send(Acknowledgement(), now)
                self._acknowledge_at = None
        self._taken, outgoing.effects = outgoing.effects, []
        return self._taken

    def on_interrupted(self, now: float) -> None:
        """A signal handler raised an exception in the middle of something here or of carrying out effects. The last
        effects are carried out again, which does no harm, and the scheduler repeats what was not received wholly."""
        self._outgoing.effects[:0] = [effect for effect in self._taken if not isinstance(effect, WriteOutput)]
        for entry in self.open_runs:
            entry.mend()
        self._close_batch()
        if self._connected:
            self._say_hello(now)

    def check(self) -> None:
        self._link.check()
        self._uploads.check()
        assert self._messages_under_way >= 0
        self.endings.check()
        self.objects.check()
        self.claims.check()
        for open_range in self.open_runs:
            assert open_range.shape.open is open_range and open_range.first == 0

    # ---- verbs of the client -----------------------------------------------------------------------------------

    @property
    def has_unfinished(self) -> bool:
        return bool(self.ranges or self.open_runs)

    @property
    def is_blank(self) -> bool:
        """Whether nothing here is anybody's any more: another client may go on with it."""
        kept = self.objects.uploads or self.objects.dropped or self.large.fetches or self.large.dropped
        asked = not (self.questions.is_blank and self.claims.is_blank)
        return self.welcomed and not (asked or self.has_unfinished or kept or self._outgoing)

    def live_in(self, parent: TaskName) -> None:
        """What is sent from now on is sent by this task. One without a session is none: nothing changes."""
        hello = self._hello
        if parent.session and parent[:3] != (hello.parent_session, hello.parent_task, hello.parent_attempt):
            session, task, attempt, depth = parent
            self._hello = dataclasses.replace(
                hello, parent_session=session, parent_task=task, parent_attempt=attempt, parent_depth=depth
            )
            self._news_of_parent = parent

    def ask_flush(self) -> bool:
        """Somebody starts to wait: the open batch need not fill first. Whether there is one that may leave."""
        if not self.open_runs or not self.welcomed or self._messages_under_way >= _FLUSHES_UNDER_WAY_LIMIT:
            return False
        self._flush_asked = True
        return True

    def add(self, shape: Shape, slots: Sequence[bytes | ObjectKey], size: int, sink: TaskSink) -> bool:
        """Submit one task; ``size``: bytes of the slots. Returns
        whether the submitting thread should look at the connection now: it is idle, the batch is full, or it is time
        to see what has arrived."""
        entry = shape.open
        if entry is None:
            entry = self._open_range(shape)
        assert entry.builder is not None
        entry.builder.append(slots)
        sinks = entry.sinks
        sink.task_index = len(sinks)  # before its range: who is interrupted between must not name another task
        sink.task_range = entry
        sinks.append(sink)
        entry.remaining += 1
        self.submitted += 1
        self._open_bytes += size + SLOT_OVERHEAD_BYTES
        if not self.submitted & _TURN_MASK or self._open_bytes >= BATCH_LIMIT_BYTES:
            return True
        return self.welcomed and self._link.in_flight <= self._uploads.pieces_under_way

    def open_map(self, shape: Shape, sink: MapSink, offset: int) -> MapRange:
        """A part of a map, to be filled through its ``builder`` and then given to ``close_map``. Needs no lock."""
        return MapRange(shape, self._new_builder(shape), sink, offset)

    def close_map(self, entry: MapRange) -> None:
        assert entry.builder is not None
        count = entry.builder.count
        entry.states = bytearray(count)
        entry.remaining = count
        self.submitted += count
        self._close_batch()
        self.ranges.close(entry)
        self._outgoing.waiting.append([entry])

    def open_graph_range(self, shape: Shape, group: GraphGroup) -> GraphRange:
        """The next tasks of a graph, to be filled through its ``builder``. Needs no lock."""
        entry = GraphRange(shape, self._new_builder(shape), group)
        group.ranges.append(entry)
        return entry

    def next_task(self) -> int:
        """The id that the next graph begins with, if nothing else is submitted before it."""
        self._close_batch()
        return self.ranges.next_task

    def skip_task(self) -> None:
        """No task will have the next id."""
        self.ranges.next_task += 1

    def add_graph(self, group: GraphGroup) -> bool:
        """Submit a graph whose tasks were built for its ids. False: other tasks have been numbered meanwhile."""
        if self.next_task() != group.first:
            return False
        batch: list[Range] = []
        size = 0
        for entry in group.ranges:
            self.ranges.close(entry)
            self.submitted += entry.count
            added = self._message_bytes(entry)
            if batch and size + added > BATCH_LIMIT_BYTES:
                self._outgoing.waiting.append(batch)
                batch, size = [], 0
            batch.append(entry)
            size += added
        if batch:
            self._outgoing.waiting.append(batch)
        return True

    def _message_bytes(self, entry: Range) -> int:
        """What a range takes in its message, at most."""
        shape = entry.shape
        assert entry.run is not None
        size = RUN_OVERHEAD_BYTES + entry.run.payload_bytes + entry.count * SLOT_OVERHEAD_BYTES
        if shape.function.digest not in self._sent_definitions:
            size += len(shape.function.definition.payload)
        return size

    def explain(self, task: int, sink: Sink) -> None:
        self._state_cancels()
        self.questions.explain(task, sink)

    def clear(self) -> None:
        """Cancel everything and drop all objects."""
        self._end_all(CANCELLED)
        if self._epoch:
            self._outgoing.waiting.append(Clear())

    def quit(self, now: float) -> None:
        """Leave: everything unfinished is cancelled."""
        self._end_all(CANCELLED)
        self._outgoing.urgent.clear()
        self.questions.end_all(Outcome(Status.CANCELLED, b""))
        self.claims.lose_all()
        if self.welcomed:
            self._send(Goodbye(), now)

    # ---- connection --------------------------------------------------------------------------------------------

    def _say_hello(self, now: float) -> None:
        self._leave_welcome(now)
        self._hello_again_at = now + self._hello_again_seconds
        hello = dataclasses.replace(self._hello, epoch=self._epoch, received=self._link.received)
        self._outgoing.effects.append(Send(SCHEDULER, Envelope(self._handshake.begin(hello))))

    def _say_hello_again(self, now: float) -> None:
        """No answer has come: the scheduler is busy, or something else listens there."""
        if self._hello_again_seconds >= _HELLO_AGAIN_LIMIT_SECONDS:
            self._leave_connection()
            return
        self._hello_again_seconds *= 2
        self._say_hello(now)

    def _leave_connection(self) -> None:
        self._connected = False
        self._outgoing.effects.append(Reconnect())

    def _on_challenge(self, challenge: Challenge, now: float) -> None:
        proved = self._handshake.answer(challenge) if self._connected and not self.welcomed else None
        if proved is not None:
            self._hello_again_at = now + self._hello_again_seconds
            self._outgoing.effects.append(Send(SCHEDULER, Envelope(proved)))

    def _leave_welcome(self, now: float) -> None:
        self.welcomed = False
        if self._lost_since is None:
            self._lost_since = now

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        verdict = self._handshake.judge(welcome)
        if self.refusal or self.welcomed or verdict == "late":
            return  # to an earlier Hello: another answer is on its way
        if verdict == "forged":
            self._on_forged_welcome()
            return
        restated = bool(self._epoch) and not welcome.resumed
        self.welcomed = True
        self._obstacle = ""
        self.protected = welcome.protected
        self.cluster = welcome.cluster
        self._lost_since = None
        self._absence.end()
        self._last_sent_at = now
        self._epoch = welcome.epoch
        if welcome.resumed:
            self._outgoing.effects.extend(Send(SCHEDULER, envelope) for envelope in self._link.resume(welcome.received))
            self._uploads.resume(welcome.received, now)
        else:
            unheard = [envelope.body for envelope in self._link.resume(0)]
            self._link = Link()
            self._uploads.restart()
        self.claims.on_welcome(welcome.minor)
        if restated:
            self._state_again(unheard)
        if self._clear_when_welcomed:
            self._clear_when_welcomed = False
            self._outgoing.waiting.appendleft(Clear())
        self.questions.on_welcome()

    def _on_forged_welcome(self) -> None:
        """The scheduler itself may listen there later."""
        text = self._handshake.forged_text
        if self._obstacle != text:
            self._outgoing.effects.append(Log("WARNING", text))
        self._obstacle = text
        self._leave_connection()

    def _on_refused(self, refused: Refused, now: float) -> None:
        self.refusal = refused.text
        self._give_up(refused.text, now)

    def _give_up(self, text: str, now: float) -> None:
        """Everything unfinished fails; whoever asks next starts a new wait."""
        outcome = Outcome(DISCONNECTED, text.encode())
        self._end_all(outcome)
        self.questions.end_all(outcome)
        self._outgoing.urgent.clear()
        if self.refusal:
            self.claims.lose_all(text)
        else:
            self.claims.give_up(outcome)
        self._leave_welcome(now)
        self._lost_since = now
        self._clear_when_welcomed = bool(self._epoch)

    @property
    def _is_waiting(self) -> bool:
        return bool(self.has_unfinished or self.questions or self.large.fetches or self.claims)

    # ---- sending -----------------------------------------------------------------------------------------------

    def _send(self, body: Body, now: float) -> None:
        self._last_sent_at = now
        self._outgoing.effects.append(Send(SCHEDULER, self._link.wrap(body)))

    def _send_what_waits(self, now: float) -> None:
        outgoing = self._outgoing
        waiting = outgoing.waiting
        if outgoing.cancels:
            self._time_cancels(now)
        if outgoing.releases:
            waiting.append(ObjectRelease(tuple(outgoing.releases)))
            outgoing.releases.clear()
        if outgoing.urgent:
            self._send_urgent(now)
        while waiting and self._messages_under_way < _MESSAGES_UNDER_WAY_LIMIT:
            body = waiting[0]
            if isinstance(body, list):
                self._send_tasks(body, now)
            elif isinstance(body, Upload):
                self._send_start(body, now)
            else:
                self._send(body, now)
            waiting.popleft()

    def _send_start(self, upload: Upload, now: float) -> None:
        """Tell the scheduler of an object, ahead of the tasks that use it."""
        if upload.stored is not None:
            self._send(ObjectStored(upload.key, upload.size, upload.stored.store), now)
        elif upload.data is not None:
            piece = upload.first_piece()
            self._send(piece, now)
            upload.note_sent(piece)
            self._uploads.add(upload)

    def _send_pieces(self, now: float) -> None:
        """Bytes of objects, as many as no message will notice."""
        queue = self._uploads
        while (upload := queue.next()) is not None:
            piece = upload.piece(queue.piece_bytes)
            self._send(piece, now)
            upload.note_sent(piece)
            queue.note_sent(self._link.sent, len(piece.data), now)
            self.objects.forget_sent(upload)

    @property
    def _messages_under_way(self) -> int:
        """Sent and not acknowledged, beside pieces of objects."""
        return self._link.in_flight - self._uploads.pieces_under_way

    def _send_urgent(self, now: float) -> None:
        urgent = self._outgoing.urgent
        while urgent:
            self._send(urgent[0], now)
            urgent.popleft()  # only now: an interruption repeats a message, and loses none

    def _send_tasks(self, entries: list[Range], now: float) -> None:
        """The message is made when it leaves: what was cancelled meanwhile is not in it."""
        runs: list[TaskRun] = []
        for entry in entries:
            entry.left = True
            if entry.remaining:
                if entry.shape.function.digest not in self._sent_definitions:
                    self._definitions.define(entry.shape.function)
                if entry.remaining == entry.count:
                    runs.append(entry.run)  # type: ignore[arg-type]
                else:
                    runs.extend(_unfinished_runs(entry))
        outgoing, definitions = self._outgoing, self._definitions
        serializers = definitions.new_serializers() if runs and definitions.serializer is not None else []
        if outgoing.urgent:  # the first pieces of large functions
            self._send_urgent(now)
        if runs:
            functions = definitions.take_new() if definitions.new else []
            parent, self._news_of_parent = self._news_of_parent, None
            self._last_sent_at = now
            tasks = Tasks(runs, functions, serializers, False, parent)
            outgoing.effects.append(Send(SCHEDULER, self._link.wrap(tasks)))

    def _time_cancels(self, now: float) -> None:
        """A few at once when nothing is under way; else those of the next millisecond travel together."""
        if self._messages_under_way <= 0 or len(self._outgoing.cancels) >= _CANCELS_PER_MESSAGE:
            self._state_cancels()
        elif self._cancels_due is None:
            self._cancels_due = now + _CANCEL_DELAY_SECONDS

    def _open_range(self, shape: Shape) -> FutureRange:
        entry = FutureRange(shape, shape.new_builder() if shape.new_builder is not None else self._new_builder(shape))
        self.open_runs.append(entry)
        shape.open = entry
        self._open_bytes += RUN_OVERHEAD_BYTES
        if shape.function.digest not in self._sent_definitions:
            self._open_bytes += len(shape.function.definition.payload)
        return entry

    def _new_builder(self, shape: Shape) -> TaskRunBuilder:
        """Of a shape that knows how to make one, from now on: without a Python call."""
        function = shape.function
        serializer = self._definitions.serializer
        shared = (self.session, function.digest, function.name, b"" if serializer is None else serializer.digest, 0)
        shape.new_builder = partial(TaskRunBuilder, *shared, shape.arity, shape.keywords, shape.options)
        return shape.new_builder()

    def _close_batch(self) -> None:
        """Give the open runs their ids, one after the other; together they will be a message."""
        if not self.open_runs:
            return
        entries: list[Range] = []
        for entry in self.open_runs:
            entry.shape.open = None
            if entry.remaining:
                self.ranges.close(entry)
                entries.append(entry)
        self.open_runs, self._open_bytes = [], 0
        if entries:
            self._outgoing.waiting.append(entries)

    def _state_cancels(self) -> None:
        cancels, self._cancels_due = self._outgoing.cancels, None
        while cancels:
            part = tuple(cancels[:_CANCELS_PER_MESSAGE])
            self._outgoing.urgent.append(Cancel((TaskColumn(self.session, part),)))
            del cancels[: len(part)]  # only now: an interruption costs no cancel

    def _state_again(self, unheard: list[Body]) -> None:
        """To a scheduler that knows nothing of this session: objects, then what an earlier one had unfinished, and the
        cancels that it had not acknowledged: agents may still have those tasks. ``unheard``: what it did not hear."""
        outgoing = self._outgoing
        cancels = _cancelled_by([*unheard, *outgoing.urgent]) + outgoing.cancels
        waiting = [body for body in outgoing.waiting if isinstance(body, list)]
        outgoing.waiting.clear()
        outgoing.urgent = deque(body for body in outgoing.urgent if isinstance(body, QUESTIONS))
        outgoing.urgent.extend(self.claims.restatements())
        outgoing.cancels, self._cancels_due = cancels, None
        outgoing.releases.clear()
        self._sent_definitions.clear()
        self.objects.restart()
        self.large.restart()
        runs: list[TaskRun] = []
        for entry in self.ranges.values():
            if entry.left:
                self._definitions.define(entry.shape.function)
                runs.extend(_unfinished_runs(entry))
        outgoing.waiting.extend(self._definitions.restatements())
        outgoing.waiting.extend(Tasks(group, resubmitted=True) for group in split(runs))
        outgoing.waiting.extend(waiting)

    # ---- answers and ends --------------------------------------------------------------------------------------

    def _on_output(self, output: Output, now: float) -> None:
        if output.warnings:
            self._outgoing.effects.append(IssueWarnings(output.warnings))
        if output.data:
            self._outgoing.effects.append(WriteOutput(output.stream, output.data))

    def _end_all(self, outcome: Outcome) -> None:
        """Every task ends with ``outcome``, here and now; results that still come are dropped."""
        opened, self.open_runs, self._open_bytes = self.open_runs, [], 0
        for entry in opened:
            entry.shape.open = None
        self.endings.end_all(opened, outcome)
        self.objects.clear()
        outgoing = self._outgoing
        outgoing.releases.clear()
        outgoing.cancels, self._cancels_due = [], None
        outgoing.waiting.clear()
        self._sent_definitions.clear()


def _cancelled_by(bodies: list[Any]) -> list[int]:
    return [task for body in bodies if isinstance(body, Cancel) for column in body.columns for task in column.tasks]


def _unfinished_runs(entry: Range) -> list[TaskRun]:
    run = entry.run
    assert run is not None
    if entry.remaining == entry.count:
        return [run]
    return [run.slice(start, stop) for start, stop in entry.unfinished_segments()]
