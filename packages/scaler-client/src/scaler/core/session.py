"""The client's side of its session with a scheduler, as a deterministic state machine.

Tasks are collected into runs. An idle session (nothing sent is unacknowledged) sends the open batch at once; while
messages are under way, further tasks join the batch, which leaves when an acknowledgement arrives or when it is full.
The session keeps everything unfinished: a scheduler that restarted (another epoch) is told of it again.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scaler.core.effects import DropObjects, Effect, Finish, WriteOutput
from scaler.core.fetches import Fetch, LargeResult
from scaler.core.functions import Function, Shape
from scaler.core.graphs import GraphGroup, GraphRange
from scaler.core.outcome import CANCELLED, DISCONNECTED, LOCATED, Outcome, Sink
from scaler.core.ranges import ClosedRanges, FutureRange, MapRange, MapSink, Range
from scaler.core.uploads import Stored, Upload
from scaler_protocol.codec import TaskRunBuilder, split
from scaler_protocol.effects import Log, Send
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    Acknowledgement,
    Body,
    Cancel,
    Clear,
    ClusterInfo,
    ClusterInfoRequest,
    Envelope,
    ExplainRequest,
    Explanation,
    FunctionDefinition,
    Goodbye,
    Hello,
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
    ShutdownRequest,
    Status,
    TaskColumn,
    TaskName,
    Tasks,
    Welcome,
    WhoAreYou,
)

if TYPE_CHECKING:
    from scaler_protocol.codec import ResultRun, TaskRun

SCHEDULER = b""
"""The name of the only peer, in effects and arguments."""

BATCH_LIMIT_BYTES = 256 * 1024
SLOT_OVERHEAD_BYTES = 24
RUN_OVERHEAD_BYTES = 256
_MESSAGES_UNDER_WAY_LIMIT = 32
_CANCELS_PER_MESSAGE = 20_000
_CANCEL_DELAY_SECONDS = 0.001
_FLUSHES_UNDER_WAY_LIMIT = 8
_DEFINITIONS_LIMIT = 1000
"""Functions that the scheduler is asked to keep beside those that are in use."""

_HELLO_AGAIN_SECONDS = 1.0
_TURN_MASK = 63
_QUESTIONS = (ExplainRequest, ClusterInfoRequest, ShutdownRequest)
_LARGE = int(Status.SUCCESS_LARGE)
_SIZE_BYTES = 8


class Session:
    """One client. Ids of tasks are its own counter; 0 is no task. Not thread-safe: its shell holds a lock."""

    def __init__(
        self,
        hello: Hello,
        *,
        timeout_seconds: float,
        heartbeat_interval_seconds: float,
        serializer: Function | None,
        now: float,
    ) -> None:
        self.session = hello.session
        self.welcomed = False
        self.protected = True
        self.cluster = b""
        self.refusal = ""
        self.submitted = 0
        self.is_nested = bool(hello.parent_session)
        self._hello = hello
        self._news_of_parent: TaskName | None = None
        self._timeout_seconds = timeout_seconds
        self._heartbeat_interval_seconds = heartbeat_interval_seconds
        self._serializer = serializer
        self._link = Link()
        self._epoch = 0
        self._hellos = 0
        self._connected = False
        self._lost_since: float | None = now
        self._hello_sent_at = now
        self._acknowledge_at: float | None = None
        self._last_sent_at = now
        self._next_upload = 2**64 - 1
        self.open_runs: list[FutureRange] = []
        self._open_bytes = 0
        self.ranges = ClosedRanges()
        self._outbox: deque[Body | list[Range]] = deque()
        self._urgent: deque[Body] = deque()
        self._cancels: list[int] = []
        self._cancels_due: float | None = None
        self._flush_asked = False
        self._sent_definitions: dict[bytes, bool] = {}
        self._definitions_limit = _DEFINITIONS_LIMIT
        self._new_functions: list[FunctionDefinition] = []
        self._uploads: dict[ObjectKey, Upload] = {}
        self._releases: list[ObjectKey] = []
        self._fetches: dict[ObjectKey, Fetch] = {}
        self._explanations: dict[int, list[Sink]] = {}
        self._infos: list[Sink] = []
        self._shutdowns: list[Sink] = []
        self._welcome_sinks: list[Sink] = []
        self._dropped_uploads: deque[Upload] = deque()
        self._dropped_results: deque[tuple[Range, int]] = deque()
        self._clear_when_welcomed = False
        self._effects: list[Effect] = []
        self._taken: list[Effect] = []
        self._greetings: dict[type, Callable[[Any, float], None]] = {
            Welcome: self._on_welcome,
            Refused: self._on_refused,
            WhoAreYou: lambda body, now: self._say_hello(now),
        }
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            Results: self._on_results,
            ObjectChunk: self._on_object_chunk,
            ObjectCredit: self._on_object_credit,
            ObjectLocations: self._on_object_locations,
            ObjectMissing: self._on_object_missing,
            ObjectRequest: self._on_object_request,
            Explanation: self._on_explanation,
            ClusterInfo: self._on_cluster_info,
            Output: self._on_output,
            ShutdownReply: self._on_shutdown_reply,
        }

    # ---- what every core has -----------------------------------------------------------------------------------

    def on_connected(self, now: float) -> None:
        """The connection is there, perhaps again: say who this is."""
        self._connected = True
        self._say_hello(now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        self._connected = False
        self._leave_welcome(now)

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
        handler = self._handlers.get(type(body))
        if handler is not None and (not sequence or sequence > link.received):
            handler(body, now)
        if link is self._link:
            link.accept(envelope)  # last: who is interrupted before has not received it

    def on_deadline(self, now: float) -> None:
        if self._lost_since is not None and self._is_waiting and now >= self._lost_since + self._timeout_seconds:
            self._give_up(f"The scheduler was out of reach for {self._timeout_seconds:g} seconds.", now)
        if self._connected and not self.welcomed and now >= self._hello_sent_at + _HELLO_AGAIN_SECONDS:
            self._say_hello(now)
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
        candidates = []
        if self._lost_since is not None and self._is_waiting:
            candidates.append(self._lost_since + self._timeout_seconds)
        if self._connected:
            candidates.append(self._hello_sent_at + _HELLO_AGAIN_SECONDS)
        return min(candidates) if candidates else None

    def take_effects(self, now: float) -> list[Effect]:
        if self._dropped_uploads or self._dropped_results:
            self._forget_dropped()
        if self.welcomed:
            link = self._link
            if self.open_runs and (self._flush_asked or not link.in_flight or self._open_bytes >= BATCH_LIMIT_BYTES):
                self._close_batch()
            self._flush_asked = False
            if self._outbox or self._urgent or self._cancels or self._releases:
                self._send_what_waits(now)
            self._acknowledge_at = link.acknowledgement_at(now)
            if self._acknowledge_at is not None and now >= self._acknowledge_at:
                self._send(Acknowledgement(), now)
                self._acknowledge_at = None
        self._taken, self._effects = self._effects, []
        return self._taken

    def on_interrupted(self, now: float) -> None:
        """A signal handler raised an exception in the middle of something here or of carrying out effects. The last
        effects are carried out again, which does no harm, and the scheduler repeats what was not received wholly."""
        self._effects[:0] = [effect for effect in self._taken if not isinstance(effect, WriteOutput)]
        for entry in self.open_runs:
            entry.mend()
        self._close_batch()
        if self._connected:
            self._say_hello(now)

    def check(self) -> None:
        self._link.check()
        for entry in self.ranges.values():
            unfinished = len(entry.unfinished())
            assert entry.remaining == unfinished, (entry.first, entry.remaining, unfinished)
            assert unfinished or isinstance(entry, GraphRange), entry.first
            assert entry.run is not None and entry.run.first_task == entry.first
            assert all(not entry.is_unsettled(index) for index in entry.large)
        for open_range in self.open_runs:
            assert open_range.shape.open is open_range and open_range.first == 0
        for key, upload in self._uploads.items():
            assert upload.key == key and (upload.is_function or upload.uses > 0), key
        for key, fetch in self._fetches.items():
            assert fetch.index in fetch.range.large, key

    # ---- verbs of the client -----------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether the open batch may leave at once."""
        return self.welcomed and not self._link.in_flight

    @property
    def has_unfinished(self) -> bool:
        return bool(self.ranges or self.open_runs)

    @property
    def is_blank(self) -> bool:
        """Whether nothing here is anybody's any more: another client may go on with it."""
        asked = self._outbox or self._urgent or self._cancels or self._releases or self._effects or self._fetches
        answered = self._explanations or self._infos or self._shutdowns or self._welcome_sinks
        dropped = self._dropped_uploads or self._dropped_results
        return self.welcomed and not (self.has_unfinished or self._uploads or asked or answered or dropped)

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
        if not self.open_runs or not self.welcomed or self._link.in_flight >= _FLUSHES_UNDER_WAY_LIMIT:
            return False
        self._flush_asked = True
        return True

    def add(self, shape: Shape, slots: Sequence[bytes | ObjectKey], size: int, sink: Any) -> bool:
        """Submit one task; ``sink`` gets ``_range`` and ``_index``, its place. ``size``: bytes of the slots. Returns
        whether the submitting thread should look at the connection now: it is idle, the batch is full, or it is time
        to see what has arrived."""
        entry = shape.open
        if entry is None:
            entry = self._open_range(shape)
        assert entry.builder is not None
        entry.builder.append(slots)
        sinks = entry.sinks
        sink._range = entry
        sink._index = len(sinks)
        sinks.append(sink)
        entry.remaining += 1
        self.submitted += 1
        self._open_bytes += size + SLOT_OVERHEAD_BYTES
        if not self.submitted & _TURN_MASK or self._open_bytes >= BATCH_LIMIT_BYTES:
            return True
        return self.welcomed and not self._link.in_flight

    def refer(self, entry: Range, index: int, uploads: list[Upload]) -> None:
        """A task uses these uploads until it ends."""
        entry.references[index] = uploads
        for upload in uploads:
            upload.uses += 1

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
        self._outbox.append([entry])

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
                self._outbox.append(batch)
                batch, size = [], 0
            batch.append(entry)
            size += added
        if batch:
            self._outbox.append(batch)
        return True

    def _message_bytes(self, entry: Range) -> int:
        """What a range takes in its message, at most."""
        shape = entry.shape
        assert entry.run is not None
        size = RUN_OVERHEAD_BYTES + entry.run.payload_bytes + entry.count * SLOT_OVERHEAD_BYTES
        if shape.function.digest not in self._sent_definitions:
            size += len(shape.function.definition.payload)
        return size

    def cancel_graph(self, group: GraphGroup) -> bool:
        """Whether some target had not ended; now all have, and the sinks are told."""
        if not group.waiting:
            return False
        self._end_graph(group, CANCELLED)
        return True

    def next_upload(self) -> ObjectKey:
        """The name of the next object that is sent."""
        self._next_upload -= 1
        return ObjectKey(self.session, self._next_upload + 1)

    def upload(self, key: ObjectKey, data: bytes | Stored) -> Upload:
        """An object for tasks that are added later, once the caller holds a use of it: it is in this host's store, or
        its first chunk leaves before them."""
        upload = Upload(key, data, self._dropped_uploads)
        upload.uses = 1
        self._uploads[key] = upload
        self._outbox.extend(_statement(upload))
        return upload

    def let_go(self, upload: Upload) -> None:
        """One use less."""
        self._drop_use(upload)

    def owns(self, upload: Upload) -> bool:
        return self._uploads.get(upload.key) is upload

    def cancel(self, entry: Range, index: int) -> bool:
        """Whether the task had not ended; now it has, and the caller tells its sink."""
        if not entry.is_unsettled(index):
            return False
        entry.settle_silently(index)
        if entry.left:
            self._cancels.append(entry.first + index)
        self._finish_one(entry, index)
        return True

    def cancel_map(self, entries: Sequence[MapRange]) -> None:
        """Cancel whatever of a map has not ended."""
        for entry in entries:
            for index in range(entry.count):
                self.cancel(entry, index)
                if index in entry.large:
                    self._release_result(entry, index)

    def fetch(self, large: LargeResult, sink: Sink, direct: bool = False) -> None:
        """Get a large result; ``sink`` is told. ``direct``: it may be told instead where it is (LOCATED), and ask again
        if it cannot be had there."""
        entry, index = large.range, large.index
        known = entry.large.get(index)
        if known is None:
            self._tell(sink, Outcome(Status.OBJECT_MISSING, b"The result was dropped before it was fetched."))
        elif known.status != Status.SUCCESS_LARGE:
            self._release_result(entry, index)
            self._tell(sink, known)
        else:
            self._fetches[large.key] = Fetch(large.key, entry, index, sink)
            self._urgent.append(ObjectRequest(large.key, direct=direct))

    def has_taken(self, large: LargeResult) -> None:
        """Its bytes are here: the cluster may forget them."""
        self._release_result(large.range, large.index)

    def explain(self, task: int, sink: Sink) -> None:
        self._explanations.setdefault(task, []).append(sink)
        self._state_cancels()
        self._urgent.append(ExplainRequest(task))

    def ask_cluster_info(self, sink: Sink) -> None:
        """``sink`` gets SUCCESS with what monitors are told, as ``ClusterInfo`` has it."""
        self._infos.append(sink)
        if len(self._infos) == 1:
            self._urgent.append(ClusterInfoRequest())

    def shut_down(self, sink: Sink) -> None:
        """Ask for the end of scheduler and workers; ``sink`` gets SUCCESS, or another status with the reason."""
        self._shutdowns.append(sink)
        self._urgent.append(ShutdownRequest())

    def await_welcome(self, sink: Sink) -> None:
        """``sink`` is told of the first Welcome or refusal."""
        self._welcome_sinks.append(sink)

    def clear(self) -> None:
        """Cancel everything and drop all objects."""
        self._end_all(CANCELLED)
        if self._epoch:
            self._outbox.append(Clear())

    def quit(self, now: float) -> None:
        """Leave: everything unfinished is cancelled."""
        self._end_all(CANCELLED)
        self._urgent.clear()
        self._end_requests(Outcome(Status.CANCELLED, b""))
        if self.welcomed:
            self._send(Goodbye(), now)

    # ---- connection --------------------------------------------------------------------------------------------

    def _say_hello(self, now: float) -> None:
        self._leave_welcome(now)
        self._hello_sent_at = now
        self._hellos += 1
        hello = dataclasses.replace(self._hello, epoch=self._epoch, received=self._link.received, number=self._hellos)
        self._effects.append(Send(SCHEDULER, Envelope(hello)))

    def _leave_welcome(self, now: float) -> None:
        self.welcomed = False
        if self._lost_since is None:
            self._lost_since = now

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        if self.refusal or welcome.number != self._hellos:
            return  # to an earlier Hello: another answer is on its way
        restated = bool(self._epoch) and not welcome.resumed
        self.welcomed = True
        self.protected = welcome.protected
        self.cluster = welcome.cluster
        self._lost_since = None
        self._last_sent_at = now
        self._epoch = welcome.epoch
        if welcome.resumed:
            self._effects.extend(Send(SCHEDULER, envelope) for envelope in self._link.resume(welcome.received))
        else:
            self._link = Link()
        if restated:
            self._state_again()
        if self._clear_when_welcomed:
            self._clear_when_welcomed = False
            self._outbox.appendleft(Clear())
        self._tell_all(self._welcome_sinks, Outcome(Status.SUCCESS, b""))

    def _on_refused(self, refused: Refused, now: float) -> None:
        self.refusal = refused.text
        self._give_up(refused.text, now)

    def _give_up(self, text: str, now: float) -> None:
        """Everything unfinished fails; whoever asks next starts a new wait."""
        outcome = Outcome(DISCONNECTED, text.encode())
        self._end_all(outcome)
        self._end_requests(outcome)
        self._urgent.clear()
        self._leave_welcome(now)
        self._lost_since = now
        self._clear_when_welcomed = bool(self._epoch)

    @property
    def _is_waiting(self) -> bool:
        return bool(self.has_unfinished or self._explanations or self._infos or self._shutdowns or self._fetches)

    # ---- sending -----------------------------------------------------------------------------------------------

    def _send(self, body: Body, now: float) -> None:
        self._last_sent_at = now
        self._effects.append(Send(SCHEDULER, self._link.wrap(body)))

    def _send_what_waits(self, now: float) -> None:
        if self._cancels:
            self._time_cancels(now)
        if self._releases:
            self._outbox.append(ObjectRelease(tuple(self._releases)))
            self._releases.clear()
        while self._urgent:
            self._send(self._urgent.popleft(), now)
        while self._outbox and self._link.in_flight < _MESSAGES_UNDER_WAY_LIMIT:
            body = self._outbox[0]
            if isinstance(body, list):
                self._send_tasks(body, now)
                self._outbox.popleft()  # only now: an interruption costs no tasks
            else:
                self._send(self._outbox.popleft(), now)  # type: ignore[arg-type]

    def _send_tasks(self, entries: list[Range], now: float) -> None:
        """The message is made when it leaves: what was cancelled meanwhile is not in it."""
        runs: list[TaskRun] = []
        for entry in entries:
            entry.left = True
            if entry.remaining:
                if entry.shape.function.digest not in self._sent_definitions:
                    self._define(entry.shape.function)
                if entry.remaining == entry.count:
                    runs.append(entry.run)  # type: ignore[arg-type]
                else:
                    runs.extend(_unfinished_runs(entry))
        while self._urgent:  # the first pieces of large functions
            self._send(self._urgent.popleft(), now)
        if runs:
            functions, self._new_functions = self._new_functions, []
            serializers = self._new_serializers() if self._serializer is not None else []
            parent, self._news_of_parent = self._news_of_parent, None
            self._last_sent_at = now
            self._effects.append(Send(SCHEDULER, self._link.wrap(Tasks(runs, functions, serializers, False, parent))))

    def _time_cancels(self, now: float) -> None:
        """A few at once when nothing is under way; else those of the next millisecond travel together."""
        if not self._link.in_flight or len(self._cancels) >= _CANCELS_PER_MESSAGE:
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
        serializer = self._serializer.digest if self._serializer is not None else b""
        shared = (self.session, function.digest, function.name, serializer, 0)
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
            self._outbox.append(entries)

    def _define(self, function: Function) -> None:
        """The function rides with the next message, unless the scheduler has it."""
        if function.digest in self._sent_definitions:
            return
        self._sent_definitions[function.digest] = True
        self._new_functions.append(function.definition)
        if function.is_large:
            self._upload_definition(function)
        if len(self._sent_definitions) > self._definitions_limit:
            self._release_definitions()

    def _release_definitions(self) -> None:
        """Ever new functions: the scheduler need not keep those whose tasks have ended. One that is called again is
        sent again."""
        used = {entry.shape.function.digest for entry in self.ranges.values()}
        if self._serializer is not None:
            used.add(self._serializer.digest)
        sent = self._sent_definitions
        idle = [digest for digest in sent if digest not in used and ObjectKey(digest, 0) not in self._uploads]
        for digest in idle:
            del sent[digest]
        if idle:
            self._urgent.append(ObjectRelease(tuple(ObjectKey(digest, 0) for digest in idle)))
        self._definitions_limit = max(_DEFINITIONS_LIMIT, 2 * len(sent))

    def _new_serializers(self) -> list[FunctionDefinition]:
        serializer = self._serializer
        if serializer is None or serializer.digest in self._sent_definitions:
            return []
        self._sent_definitions[serializer.digest] = True
        if serializer.is_large:
            self._upload_definition(serializer)
        return [serializer.definition]

    def _upload_definition(self, function: Function) -> None:
        upload = Upload(ObjectKey(function.digest, 0), function.payload, self._dropped_uploads, is_function=True)
        self._urgent.extend(upload.chunks())
        if not upload.complete:
            self._uploads[upload.key] = upload

    def _state_cancels(self) -> None:
        cancels, self._cancels, self._cancels_due = self._cancels, [], None
        for start in range(0, len(cancels), _CANCELS_PER_MESSAGE):
            part = tuple(cancels[start : start + _CANCELS_PER_MESSAGE])
            self._urgent.append(Cancel((TaskColumn(self.session, part),)))

    def _state_again(self) -> None:
        """To a scheduler that knows nothing of this session: objects, then what an earlier one had unfinished."""
        waiting = [body for body in self._outbox if isinstance(body, list)]
        self._outbox.clear()
        self._urgent = deque(body for body in self._urgent if isinstance(body, _QUESTIONS))
        self._cancels, self._cancels_due = [], None
        self._releases.clear()
        self._sent_definitions.clear()
        self._restart_uploads()
        for fetch in self._fetches.values():
            fetch.restart()
        runs: list[TaskRun] = []
        for entry in self.ranges.values():
            if entry.left:
                self._define(entry.shape.function)
                runs.extend(_unfinished_runs(entry))
        self._outbox.extend(self._restatements(runs))
        self._outbox.extend(waiting)

    def _restart_uploads(self) -> None:
        self._uploads = {key: upload for key, upload in self._uploads.items() if not upload.is_function}
        for upload in self._uploads.values():
            upload.restart()
            self._outbox.extend(_statement(upload))

    def _restatements(self, runs: list[TaskRun]) -> Iterator[Tasks]:
        functions, self._new_functions = self._new_functions, []
        serializers = self._new_serializers()
        if serializers:
            yield Tasks([], [], serializers)
        for part in _groups_of_definitions(functions):
            yield Tasks([], part)
        for group in split(runs):
            yield Tasks(group, resubmitted=True)

    # ---- results -----------------------------------------------------------------------------------------------

    def _on_results(self, results: Results, now: float) -> None:
        for run in results.runs:
            if run.session == self.session and run.count:
                if type(self.ranges.get(run.task(0))) is FutureRange:
                    self._take_rows(run)
                else:
                    self._take_run(run)

    def _take_run(self, run: ResultRun) -> None:
        """Results of maps that all succeeded are taken as they are, range by range; all others row by row."""
        start = 0
        while start < run.count:
            entry = self.ranges.find(run.task(start))
            if not isinstance(entry, MapRange):
                self._take_rows(_part(run, start, run.count) if start else run)
                return
            stop = max(start + 1, bisect_left(run.task_column, entry.first + entry.count, start))
            part = _part(run, start, stop)
            ended = part.mark(entry.first, entry.states)
            if ended:
                self._take_map_run(entry, part, ended)
            else:
                self._take_rows(part)
            start = stop

    def _take_map_run(self, entry: MapRange, run: ResultRun, ended: int) -> None:
        if not entry.sink.take_run(entry, run):
            self._effects.append(Finish(entry.sink, CANCELLED))
        entry.remaining -= ended
        for index in list(entry.references):
            if entry.states[index]:
                self._unrefer(entry, index)
        if not entry.remaining:
            self.ranges.pop(entry.first, None)

    def _take_rows(self, run: ResultRun) -> None:
        """What happens to nearly every result of a submit is done here: there is nothing to ask or release."""
        ranges = self.ranges
        first, stop, is_usual = 1, 0, False
        entry: Range | None = None
        for task, status, payload, duration_us, cpu_time_us, memory_peak in run.copied_rows():
            if not first <= task < stop:
                entry = ranges.get(task) or ranges.find(task)
                if entry is None:
                    first, stop = 1, 0
                    if status == _LARGE:  # of a graph that ended meanwhile
                        self._releases.append(ObjectKey(self.session, task))
                    continue
                first, stop = entry.first, entry.first + entry.count
                is_usual = type(entry) is FutureRange and not entry.references
            assert entry is not None
            outcome = _new_tuple(Outcome, (status, payload, duration_us, cpu_time_us, memory_peak))
            sink = entry.sinks[task - first] if is_usual and status != _LARGE else None
            if sink is None:
                self._take_outcome(entry, task - first, outcome)
                continue
            if not sink.settle(outcome):
                self._effects.append(Finish(sink, outcome))
            entry.sinks[task - first] = None
            entry.remaining -= 1
            if not entry.remaining:
                ranges.pop(first, None)

    def _take_outcome(self, entry: Range, index: int, outcome: Outcome) -> None:
        if isinstance(entry, GraphRange) and self._ends_graph(entry, index, outcome):
            return
        if not entry.is_unsettled(index):
            if index in entry.large:
                self._replace_large(entry, index, outcome)
            elif outcome.status == Status.SUCCESS_LARGE:
                self._releases.append(ObjectKey(self.session, entry.first + index))  # it is here already
            return
        sink = entry.settle_silently(index)
        if outcome.status == Status.SUCCESS_LARGE:
            outcome = self._keep_large(entry, index, outcome)
        else:
            self._finish_one(entry, index)
        if sink is not None:
            if not sink.settle(outcome):
                self._effects.append(Finish(sink, outcome))
        elif isinstance(entry, MapRange) and not entry.sink.take_outcome(entry, index, outcome):
            self._effects.append(Finish(entry.sink, outcome))

    def _finish_one(self, entry: Range, index: int) -> None:
        if isinstance(entry, GraphRange):
            self._finish_target(entry, index)
            return
        entry.remaining -= 1
        if entry.references:
            self._unrefer(entry, index)
        if not entry.remaining and entry.first:
            self.ranges.pop(entry.first, None)

    # ---- graphs ------------------------------------------------------------------------------------------------

    def _ends_graph(self, entry: GraphRange, index: int, outcome: Outcome) -> bool:
        """A task that failed ends its whole graph. Whether there is nothing else to do about this outcome."""
        if outcome.status in (Status.SUCCESS, Status.SUCCESS_LARGE):
            return not entry.has_targets
        if not entry.group.waiting:
            return index not in entry.large
        self._end_graph(entry.group, outcome, entry.first + index)
        return True

    def _end_graph(self, group: GraphGroup, outcome: Outcome, failed: int = 0) -> None:
        ranges, group.ranges = group.ranges, []
        for entry in ranges:
            for index in entry.end():
                task = entry.first + index
                if entry.left and task != failed:
                    self._cancels.append(task)
                sink = entry.take_sink(index)
                if sink is not None:
                    self._tell(sink, outcome)
            self._drop_graph_range(entry)

    def _finish_target(self, entry: GraphRange, index: int) -> None:
        if not entry.stays_needed(index):
            entry.remaining -= 1
        if not entry.group.is_over:
            return
        ranges, entry.group.ranges = entry.group.ranges, []
        for other in ranges:
            for _ in other.end():
                pass
            self._drop_graph_range(other)
        if not entry.remaining:
            self.ranges.pop(entry.first, None)

    def _drop_graph_range(self, entry: GraphRange) -> None:
        for index in list(entry.references):
            self._unrefer(entry, index)
        if not entry.remaining:
            self.ranges.pop(entry.first, None)
            entry.run = None

    def _unrefer(self, entry: Range, index: int) -> None:
        for upload in entry.references.pop(index, ()):
            self._drop_use(upload)

    def _drop_use(self, upload: Upload) -> None:
        upload.uses -= 1
        if not upload.uses and self._uploads.pop(upload.key, None) is not None:
            self._releases.append(upload.key)
            self._forget_upload(upload)

    def _forget_upload(self, upload: Upload) -> None:
        if upload.stored is not None:
            self._effects.append(DropObjects([upload.key]))
        upload.let_go()

    # ---- large results -----------------------------------------------------------------------------------------

    def _keep_large(self, entry: Range, index: int, outcome: Outcome) -> Outcome:
        key = ObjectKey(self.session, entry.first + index)
        size, store = outcome.payload[:_SIZE_BYTES], outcome.payload[_SIZE_BYTES:]
        large = LargeResult(key, entry, index, int.from_bytes(size, "little"), store, self._dropped_results)
        entry.large[index] = outcome
        if isinstance(entry, GraphRange):
            entry.group.large += 1
        return outcome._replace(payload=large)

    def _replace_large(self, entry: Range, index: int, outcome: Outcome) -> None:
        """The task ran again, because the agent that kept its result is gone or the scheduler restarted."""
        entry.large[index] = outcome
        key = ObjectKey(self.session, entry.first + index)
        fetch = self._fetches.get(key)
        if fetch is None:
            return
        if outcome.status == Status.SUCCESS_LARGE:
            fetch.restart()
            self._urgent.append(ObjectRequest(key))
        else:
            self._end_fetch(fetch, outcome)

    def _end_fetch(self, fetch: Fetch, outcome: Outcome) -> None:
        del self._fetches[fetch.key]
        self._release_result(fetch.range, fetch.index)
        self._tell(fetch.sink, outcome)

    def _release_result(self, entry: Range, index: int) -> None:
        if entry.large.pop(index, None) is None:
            return
        if isinstance(entry, GraphRange):
            entry.group.large -= 1
        self._fetches.pop(ObjectKey(self.session, entry.first + index), None)
        self._releases.append(ObjectKey(self.session, entry.first + index))
        self._finish_one(entry, index)

    def _forget_dropped(self) -> None:
        while self._dropped_uploads:
            upload = self._dropped_uploads.popleft()
            if not upload.dropped:
                upload.dropped = True
                self._drop_use(upload)
        while self._dropped_results:
            entry, index = self._dropped_results.popleft()
            if ObjectKey(self.session, entry.first + index) not in self._fetches:
                self._release_result(entry, index)

    def _on_object_chunk(self, chunk: ObjectChunk, now: float) -> None:
        fetch = self._fetches.get(chunk.key)
        if fetch is None:
            return
        if fetch.take(chunk):
            self._end_fetch(fetch, Outcome(Status.SUCCESS, fetch.buffer))
        else:
            self._urgent.append(ObjectCredit(chunk.key, fetch.received))

    def _on_object_locations(self, locations: ObjectLocations, now: float) -> None:
        fetch = self._fetches.pop(locations.key, None)
        if fetch is not None:
            self._tell(fetch.sink, Outcome(LOCATED, locations))

    def _on_object_missing(self, missing: ObjectMissing, now: float) -> None:
        fetch = self._fetches.get(missing.key)
        if fetch is not None:
            self._end_fetch(fetch, Outcome(Status.OBJECT_MISSING, missing.text.encode()))

    def _on_object_request(self, request: ObjectRequest, now: float) -> None:
        """A worker cannot reach this host's store."""
        upload = self._uploads.get(request.key)
        if upload is not None and upload.begin():
            self._outbox.extend(upload.chunks())
        else:
            self._outbox.append(ObjectMissing(request.key, "Its owner has dropped it, or its store has died."))

    def _on_object_credit(self, credit: ObjectCredit, now: float) -> None:
        upload = self._uploads.get(credit.key)
        if upload is None:
            return
        upload.grant(credit.offset)
        self._outbox.extend(upload.chunks())
        if upload.complete and upload.is_function:
            del self._uploads[upload.key]

    # ---- answers and ends --------------------------------------------------------------------------------------

    def _on_explanation(self, explanation: Explanation, now: float) -> None:
        sinks = self._explanations.pop(explanation.task, [])
        self._tell_all(sinks, Outcome(Status.SUCCESS, explanation.text.encode()))

    def _on_cluster_info(self, info: ClusterInfo, now: float) -> None:
        self._tell_all(self._infos, Outcome(Status.SUCCESS, info.snapshot))

    def _on_shutdown_reply(self, reply: ShutdownReply, now: float) -> None:
        status = Status.SUCCESS if reply.accepted else Status.EXCEPTION
        self._tell_all(self._shutdowns, Outcome(status, reply.text.encode()))

    def _on_output(self, output: Output, now: float) -> None:
        self._effects.append(WriteOutput(output.stream, output.data))

    def _end_all(self, outcome: Outcome) -> None:
        """Every task ends with ``outcome``, here and now; results that still come are dropped."""
        opened, self.open_runs, self._open_bytes = self.open_runs, [], 0
        for entry in opened:
            entry.shape.open = None
            self._end_range(entry, len(entry.sinks), outcome)
        for closed in self.ranges.values():
            self._end_range(closed, closed.count, outcome)
        self.ranges.clear()
        for fetch in list(self._fetches.values()):
            self._tell(fetch.sink, outcome)
        self._fetches.clear()
        for upload in self._uploads.values():
            self._forget_upload(upload)
        self._uploads.clear()
        self._releases.clear()
        self._cancels, self._cancels_due = [], None
        self._sent_definitions.clear()
        self._outbox.clear()

    def _end_range(self, entry: Range, count: int, outcome: Outcome) -> None:
        for index in range(count):
            if entry.is_unsettled(index):
                sink = entry.settle_silently(index)
                if sink is not None:
                    self._tell(sink, outcome)
        if isinstance(entry, MapRange) and not entry.sink.settle(outcome):
            self._effects.append(Finish(entry.sink, outcome))
        entry.remaining = 0
        entry.references.clear()
        entry.large.clear()

    def _end_requests(self, outcome: Outcome) -> None:
        for sinks in self._explanations.values():
            self._tell_all(sinks, outcome)
        self._explanations.clear()
        self._tell_all(self._infos, outcome)
        self._tell_all(self._shutdowns, outcome)
        self._tell_all(self._welcome_sinks, outcome)

    def _tell_all(self, sinks: list[Sink], outcome: Outcome) -> None:
        for sink in sinks:
            self._tell(sink, outcome)
        sinks.clear()

    def _tell(self, sink: Sink, outcome: Outcome) -> None:
        if not sink.settle(outcome):
            self._effects.append(Finish(sink, outcome))


def _statement(upload: Upload) -> Iterator[Body]:
    """What tells the scheduler of an object."""
    if upload.stored is not None:
        yield ObjectStored(upload.key, upload.size, upload.stored.store)
    yield from upload.chunks()


def _unfinished_runs(entry: Range) -> list[TaskRun]:
    run = entry.run
    assert run is not None
    if entry.remaining == entry.count:
        return [run]
    return [run.slice(start, stop) for start, stop in entry.unfinished_segments()]


def _part(run: ResultRun, start: int, stop: int) -> ResultRun:
    return run if stop - start == run.count else run.slice(start, stop)


_new_tuple = tuple.__new__
"""Makes an Outcome without the Python call that its constructor is."""


def _groups_of_definitions(definitions: list[FunctionDefinition]) -> Iterator[list[FunctionDefinition]]:
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


__all__ = ["Session", "Log"]
