"""AgentCore: one host's part in the cluster.

Tasks arrive, wait for their objects, wait for a processor and run; results are kept until the scheduler says that their
clients have them. Each connection begins with Hello. A scheduler that resumes gets what it has not received; one that
does not (a new epoch) is told what is held here, and gets every unreleased result again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link, LinkGap
from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    UPLOAD_NUMBER,
    AgentAttach,
    Blocked,
    Cancel,
    Challenge,
    Envelope,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Output,
    Ping,
    RefusalReason,
    Refused,
    Relay,
    RelayClosed,
    ResultsReleased,
    Status,
    Stop,
    StoreAttached,
    StoreStatus,
    TaskColumn,
    Welcome,
    WhoAreYou,
    Withdraw,
    Withdrawn,
    WorkerStatus,
)
from scaler_worker.board import Board
from scaler_worker.core.columns import columns_of
from scaler_worker.core.effects import (
    DropObjects,
    DropStored,
    Exit,
    FetchStored,
    FindStored,
    HandOver,
    Interrupt,
    JoinStore,
    ReadStored,
    Reconnect,
    RenewNested,
    Resume,
    SendNested,
    StartProcessor,
    Suspend,
)
from scaler_worker.core.endings import MEMORY
from scaler_worker.core.lease import Lease
from scaler_worker.core.nested import NestedClients
from scaler_worker.core.objects import ObjectExchange, Store, WrongBytes
from scaler_worker.core.path import PING_SECONDS, SCHEDULER, AgentPath
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.slots import Slots

__all__ = ["SCHEDULER", "AgentCore"]

HELLO_SECONDS = 1.0
HELLO_LIMIT_SECONDS = 8.0
KEY_REFUSED_SECONDS = 2.0
"""How soon it connects again after its key was refused."""

BAD_INPUT_CODE = 2
OUTPUT_BUDGET_BYTES = 4 * 1024 * 1024
"""What tasks have printed and the scheduler has not yet received; beyond it, tasks that print wait."""

OUTPUT_MESSAGE_BYTES = 64 * 1024
STDERR = 2
LOST_PER_MESSAGE = 4096
NO_STORE = bytes(16)
"""Of an object that the agent keeps itself."""

FAREWELL_SECONDS = 0.5
"""How long the last acknowledgements are waited for."""


class AgentCore(AgentPath):
    def __init__(
        self,
        settings: AgentSettings,
        hello: Hello,
        store: Store,
        now: float,
        handshake: PeerHandshake | None = None,
    ) -> None:
        """``hello``: what this agent says first; epoch and received are filled in here. ``handshake``: how the
        scheduler proves who it is; None: something else protects the connection."""
        super().__init__([], ObjectExchange(store), Lease(now), Link(), settings.hard_processor_suspend, now)
        self._settings = settings
        self._hello = hello
        self.slots = self._make_slots()
        self._nested = NestedClients()
        self._output_bytes = 0
        self._epoch = 0
        self._handshake = handshake or PeerHandshake()
        self._obstacle = ""
        self._reconnect_at: float | None = None
        self._connected = False
        self._cluster = b""
        self._store_status: StoreStatus | None = None
        self._relayed: dict[ObjectKey, bool] = {}
        self._fetched: dict[ObjectKey, int] = {}
        self._hello_again_at = now
        self._hello_again_seconds = HELLO_SECONDS
        self._away_since: float | None = now
        self._lag_seconds = 0.0
        self._heartbeat: Heartbeat | None = None
        self._farewell_at: float | None = None
        self._ended = False
        greetings: dict[type, Callable[[Any, float], None]] = {
            Welcome: self._on_welcome,
            Challenge: self._on_challenge,
            WhoAreYou: self._on_who_are_you,
            Refused: self._on_refused,
        }
        handlers: dict[type, Callable[[Any, float], None]] = {
            Cancel: self._on_cancel,
            Withdraw: self._on_withdraw,
            ResultsReleased: self._on_results_released,
            HeartbeatEcho: self._on_heartbeat_echo,
            Relay: self._on_relay,
            ObjectChunk: self._on_object_chunk,
            ObjectRequest: self._on_object_request,
            ObjectCredit: self._on_object_credit,
            ObjectMissing: self._on_object_missing,
            ObjectLocations: self._on_object_locations,
            ObjectRelease: self._on_object_release,
            Stop: self._on_stop_message,
        }
        self.handle(greetings, handlers)

    def _make_slots(self) -> Slots:
        """Where the tasks run."""
        return Slots(
            self._settings.worker_names,
            effects=self._effects,
            objects=self._objects,
            task_timeout_seconds=self._settings.task_timeout_seconds,
            process_limit=self._settings.process_limit,
        )

    # ---- the connection --------------------------------------------------------------------------------------

    def on_connected(self, token: bytes, now: float) -> None:
        """The transport is connected (again): say who this is. ``token``: what both ends prove to know."""
        self._connected = True
        self._handshake.token = token
        self._hello_again_seconds = HELLO_SECONDS
        self._say_hello(now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        """The connection is gone. The transport tries again; tasks that run go on."""
        self._connected = False
        self._leave(now)

    def on_key_refused(self, text: str, now: float) -> None:
        """The scheduler does not let this key in. It may later."""
        self._connected = False
        self._leave(now)
        self._note_obstacle(text)
        self._reconnect_at = now + KEY_REFUSED_SECONDS

    def _note_obstacle(self, text: str) -> None:
        """Said once, until the scheduler has welcomed this agent."""
        if text != self._obstacle:
            self._effects.append(Log("ERROR", text))
        self._obstacle = text

    def _on_gap(self, gap: LinkGap, now: float) -> None:
        self._effects.append(Log("WARNING", f"{gap}: saying hello again"))
        self._say_hello(now)

    def _say_hello(self, now: float) -> None:
        self._leave(now)
        self._hello_again_at = now + self._hello_again_seconds
        hello = replace(self._hello, epoch=self._epoch, received=self._link.received)
        self._send(Envelope(self._handshake.begin(hello)), now)

    def _say_hello_again(self, now: float) -> None:
        """No answer has come: the scheduler is busy, or something else listens there."""
        if self._hello_again_seconds >= HELLO_LIMIT_SECONDS:
            self._leave_connection()
            return
        self._hello_again_seconds *= 2
        self._say_hello(now)

    def _leave_connection(self) -> None:
        self._connected = False
        self._effects.append(Reconnect())

    def _on_challenge(self, challenge: Challenge, now: float) -> None:
        proved = self._handshake.answer(challenge) if self._connected and not self._welcomed else None
        if proved is not None:
            self._hello_again_at = now + self._hello_again_seconds
            self._send(Envelope(proved), now)

    def _on_who_are_you(self, question: WhoAreYou, now: float) -> None:
        if self._farewell_at is None:
            self._say_hello(now)
        else:  # the scheduler has taken in the farewell and forgotten this agent
            self._exit(0, "stopped")

    def _leave(self, now: float) -> None:
        if self._away_since is None:
            self._away_since = now
        self._welcomed = False

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        verdict = self._handshake.judge(welcome)
        if self._welcomed or verdict == "late":
            return  # it answers an earlier Hello: another answer is on its way
        if verdict == "forged":
            self._note_obstacle(self._handshake.forged_text)
            self._leave_connection()
            return
        self._obstacle = ""
        self._away_since = None
        self._welcomed = True
        if self._settings.uses_store and welcome.cluster != self._cluster:
            self._cluster = welcome.cluster
            self._effects.append(JoinStore(welcome.cluster))
        self._lease.end()
        self._lease.heard(now)
        if welcome.resumed and welcome.epoch == self._epoch:
            for envelope in self._link.resume(welcome.received):
                self._send(envelope, now)
            self._release_output(welcome.received)
            return
        self._epoch = welcome.epoch
        self._start_link()
        if self._heartbeat is not None:
            self._outbox.append(replace(self._heartbeat, sent_at=now))

    def _start_link(self) -> None:
        """A scheduler that knows nothing of this agent: tell it what is here."""
        self._link = Link()
        self._output_sizes.clear()
        self._output_bytes = 0
        unreleased = [run for runs in self._retained.values() for run in runs]
        self._retained.clear()
        self.slots.finished[:0] = [*self._objects.held_results(), *unreleased]
        self.slots.finished.extend(self.slots.nodes.held_runs())
        settings = self._settings
        self._outbox = [
            AgentAttach(
                settings.name, self._hello.host, self._hello.pid, settings.worker_names, settings.capabilities,
                tuple(self.slots.holds()),
            ),
        ]  # fmt: skip
        if self._host_store is not None:
            self._outbox.append(self._host_store)
        store = self._host_store.store if self._host_store is not None else NO_STORE
        for key, size, is_stored in self._objects.held_uploads():
            self._outbox.append(ObjectStored(key, size, store if is_stored else NO_STORE))
        self._outbox.extend(ObjectRequest(key) for key in self._objects.restart())
        if self._lent[0]:
            self._outbox.append(Blocked(*self._lent))
        if self._stop_at is not None:
            self._outbox.append(Withdrawn((), leaving=True))
        self._effects.extend(RenewNested(session) for session in self._nested.sessions())

    def _on_refused(self, refused: Refused, now: float) -> None:
        if refused.reason == RefusalReason.MALFORMED and self._epoch:
            self._effects.append(Log("ERROR", f"the scheduler closed the session: {refused.text}"))
            self._epoch = 0
            self._say_hello(now)
            return
        self._exit(1, f"the scheduler refuses this worker: {refused.text}")

    # ---- tasks -----------------------------------------------------------------------------------------------

    def _accept(self, run: TaskRun) -> None:
        """Tasks that need more than their function, or a function that is an object."""
        if run.options.graph:
            self._accept_nodes(run)
        elif run.has_references and run.count > 1:
            for index in range(run.count):
                self._accept_one(run.slice(index, index + 1))
        else:
            self._accept_one(run)

    def _refuse(self, run: TaskRun, error: Exception) -> None:
        """Its tasks cannot be taken in: they end, and those that came with them are not to suffer."""
        text = f"The agent of this host cannot take in the task: {type(error).__name__}: {error}"
        self._effects.append(Log("ERROR", f"{run.function_name}: {text}"))
        self.slots.fail_runs([run], Status.NO_WORKER, text)

    def _accept_one(self, run: TaskRun) -> None:
        keys = self._definitions_of(run)
        if keys is None:
            return
        if run.has_references:
            keys.extend(run.references())
        if not keys or self._objects.all_here(keys):
            self.slots.queue.push(run)
        else:
            self._find(self._objects.require(run, keys))

    def _accept_nodes(self, run: TaskRun) -> None:
        """Nodes of a graph: they wait for values of others, here or elsewhere."""
        uploads = run.uploads() if run.has_references else []
        if uploads and run.count > 1:
            for index in range(run.count):
                self._accept_nodes(run.slice(index, index + 1))
            return
        keys = self._definitions_of(run)
        if keys is None:
            return
        keys.extend(uploads)
        if self._objects.all_here(keys):
            self._find(self.slots.add_nodes(run, False))
        else:
            self._find(self.slots.add_nodes(run, True))
            self._find(self._objects.require(run, keys))
        if self.slots.freed:
            self._release_freed()

    def _definitions_of(self, run: TaskRun) -> list[ObjectKey] | None:
        """The objects that its function and serializer are, if they are. None: they are not known, the run failed."""
        function = self.slots.functions.get(run.function)
        serializer = self.slots.serializers.get(run.serializer) if run.serializer else None
        if function is None or (run.serializer and serializer is None):
            self.slots.fail_runs([run], Status.OBJECT_MISSING, f"The function {run.function_name} did not arrive.")
            return None
        keys = [] if function.payload else [ObjectKey(function.digest, 0)]
        if serializer is not None and not serializer.payload:
            keys.append(ObjectKey(serializer.digest, 0))
        return keys

    def _on_cancel(self, cancel: Cancel, now: float) -> None:
        for column in cancel.columns:
            self.slots.cancel(column, now)
        self._release_freed()

    def _release_freed(self) -> None:
        """Large values that nobody needs any more."""
        freed, self.slots.freed[:] = self.slots.freed[:], []
        for key in freed:
            self._objects.give_up(key)
        self._release(freed)

    def _on_withdraw(self, withdraw: Withdraw, now: float) -> None:
        self._outbox.append(Withdrawn(tuple(self.slots.withdraw(withdraw.count))))

    def _on_results_released(self, released: ResultsReleased, now: float) -> None:
        for sequence in released.sequences:
            self._retained.pop(sequence, None)

    # ---- objects ---------------------------------------------------------------------------------------------

    def _find(self, keys: list[ObjectKey]) -> None:
        """What tasks here need: perhaps it is in the host's store, else the scheduler knows where it is. Functions
        travel by the scheduler."""
        stored = [key for key in keys if key.number] if self._cluster else []
        if stored:
            self._effects.append(FindStored(stored))
        self._outbox.extend(ObjectRequest(key) for key in keys if not (stored and key.number))

    def _on_object_chunk(self, chunk: ObjectChunk, now: float) -> None:
        try:
            ready, credit = self._objects.on_chunk(chunk)
        except WrongBytes as error:
            self._outbox.append(ObjectCredit(chunk.key, CREDIT_WITHOUT_END))
            self._on_object_missing(ObjectMissing(chunk.key, str(error)), now)
            return
        except (OSError, OverflowError) as error:
            self._outbox.append(ObjectCredit(chunk.key, CREDIT_WITHOUT_END))
            text = f"This host has no room for an object of {chunk.size:,} bytes: {error}."
            self._on_object_missing(ObjectMissing(chunk.key, text), now)
            return
        if credit is not None:
            self._outbox.append(credit)
        self._take_ready(ready)

    def _take_ready(self, ready: list[TaskRun]) -> None:
        for run in ready:
            self.slots.objects_here(run)
        for key in self._objects.take_arrived():
            if not self.slots.value_arrived(key):
                self._release([key])

    def _on_object_request(self, request: ObjectRequest, now: float) -> None:
        key = request.key
        value = self.slots.nodes.value(key)
        if value is not None:
            self._outbox.append(ObjectChunk(key, len(value), 0, value))
        elif self._objects.is_stored(key):
            self._relayed[key] = request.relayed or self._host_store is None or not self._host_store.endpoint
            self._effects.append(ReadStored(key))
        else:
            self._answer_request(key, self._objects.on_request(key))

    def _answer_request(self, key: ObjectKey, chunks: list[ObjectChunk] | None) -> None:
        if chunks is None:
            self._outbox.append(ObjectMissing(key, "The worker that held this result no longer has it."))
        else:
            self._outbox.extend(chunks)

    def _on_object_credit(self, credit: ObjectCredit, now: float) -> None:
        self._outbox.extend(self._objects.on_credit(credit))

    def _on_object_missing(self, missing: ObjectMissing, now: float) -> None:
        self.slots.fail_runs(self._objects.on_missing(missing.key), Status.OBJECT_MISSING, missing.text)
        if missing.key.owner in self.slots.nodes:
            self.slots.value_missing(missing.key)

    def _on_object_release(self, release: ObjectRelease, now: float) -> None:
        self._release(release.keys)

    # ---- the host's store ------------------------------------------------------------------------------------

    def on_store_status(self, status: StoreStatus, now: float) -> None:
        """The host's store is connected, and says what it has."""
        attached = StoreAttached(status.store, status.endpoint)
        if attached != self._host_store:
            self._host_store = attached
            self._outbox.append(attached)
        if status != self._store_status:
            self._store_status = status
            self._outbox.append(status)

    def on_store_lost(self, now: float) -> None:
        """It has died, and with it what it held."""
        self._host_store = None
        lost = self._objects.take_lost()
        self.slots.forget_values([key for key in lost if key.number < UPLOAD_NUMBER])
        self._drop_at_processors(lost)
        for start in range(0, len(lost), LOST_PER_MESSAGE):
            self._outbox.append(ObjectsLost(tuple(lost[start : start + LOST_PER_MESSAGE])))

    def on_stored(self, key: ObjectKey, now: float) -> None:
        """It is in the host's store."""
        size = self._fetched.pop(key, None)
        if size is not None and not self._objects.is_wanted(key):
            self._effects.append(DropStored([key]))
            self._outbox.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif size is not None and self._host_store is not None:
            self._outbox.append(ObjectStored(key, size, self._host_store.store))
        self._take_ready(self._objects.on_found(key))

    def on_not_stored(self, key: ObjectKey, relayed: bool, now: float) -> None:
        """The host's store does not have it; ``relayed``: nor could it get it from others."""
        self._fetched.pop(key, None)
        if self._objects.is_wanted(key):
            self._outbox.append(ObjectRequest(key, relayed))

    def on_stored_view(self, key: ObjectKey, view: memoryview | None, now: float) -> None:
        """The bytes of what somebody has asked for; None: the store does not have it."""
        relayed = self._relayed.pop(key, True)
        if view is None or relayed or self._host_store is None:
            self._answer_request(key, None if view is None else self._objects.begin(key, view))
        else:
            self._outbox.append(ObjectLocations(key, len(view), (self._host_store.endpoint,)))

    def _on_object_locations(self, locations: ObjectLocations, now: float) -> None:
        key = locations.key
        if not self._objects.is_wanted(key):
            self._outbox.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif not self._cluster:
            self._outbox.append(ObjectRequest(key, relayed=True))
        else:
            self._fetched[key] = locations.size
            self._effects.append(FetchStored(key, locations.size, locations.sources))

    def _release(self, keys: Sequence[ObjectKey]) -> None:
        stored = [key for key in keys if self._objects.release(key)]
        if stored:
            self._effects.append(DropStored(stored))
        for key in keys:
            if key.number == 0:
                self.slots.functions.pop(key.owner, None)
                self.slots.serializers.pop(key.owner, None)
        self._drop_at_processors(keys)

    def _drop_at_processors(self, keys: Sequence[ObjectKey]) -> None:
        for processor in self.slots.processors.values():
            gone = [key for key in keys if key in processor.objects or key.owner in processor.functions]
            if gone:
                processor.objects.difference_update(gone)
                processor.functions.difference_update(key.owner for key in gone if key.number == 0)
                self._effects.append(DropObjects(processor.number, gone))

    # ---- processors ------------------------------------------------------------------------------------------

    def on_processor_started(self, number: int, board: Board, pid: int, now: float) -> None:
        board.set_lease(self._lease_told)
        self.slots.on_started(number, board, pid)

    def on_processor_not_started(self, number: int, text: str, now: float) -> None:
        """This host has no room for it, at least now."""
        self.slots.on_not_started(number, text, now)

    def on_processor_not_forked(self, number: int, now: float) -> None:
        """What was to fork it has ended, and another one is there by now."""
        self.slots.on_not_forked(number)

    def on_processor_ready(self, number: int, now: float) -> None:
        self.slots.on_ready(number, now)

    def on_processor_died(self, number: int, certificate: dict[str, Any], now: float) -> None:
        """``certificate``: what is known about this death, ready for JSON."""
        self._nested.processor_gone(number)
        self.slots.on_died(number, certificate, now)

    def on_memory_exceeded(self, number: int, now: float) -> None:
        self.slots.end_by_number(number, MEMORY, now)

    def on_output(self, number: int, sequence: int, stream: int, data: bytes, now: float) -> None:
        named = self.slots.task_of(number, sequence)
        if named is None:
            return
        self._output_bytes += len(data)
        self._output_waits |= self.is_full_of_output
        output = Output(named[0], named[1], stream, data)
        last = self._outbox[-1] if self._outbox else None
        if isinstance(last, Output) and _belong_together(last, output):
            self._outbox[-1] = replace(last, data=last.data + data)
        else:
            self._outbox.append(output)

    def on_warnings(self, number: int, sequence: int, data: bytes) -> None:
        """A task has raised warnings, which its client issues."""
        named = self.slots.task_of(number, sequence)
        if named is not None:
            self._output_bytes += len(data)
            self._outbox.append(Output(named[0], named[1], STDERR, b"", data))

    @property
    def is_full_of_output(self) -> bool:
        """Whether tasks that print should wait."""
        return self._output_bytes > OUTPUT_BUDGET_BYTES

    def _release_output(self, acknowledged: int) -> None:
        """The scheduler has received so much."""
        for sequence in [each for each in self._output_sizes if each <= acknowledged]:
            self._output_bytes -= self._output_sizes.pop(sequence)

    def on_failed_start(self, text: str, now: float) -> None:
        """A processor cannot be made ready, and no other could: the user asked for something impossible."""
        self._exit(BAD_INPUT_CODE, text)

    # ---- clients inside tasks --------------------------------------------------------------------------------

    def on_nested_opened(self, session: bytes, parent: TaskColumn, now: float) -> None:
        """A client connected; ``parent`` names the one task that it lives in."""
        attempt = parent.attempts[0] if parent.attempts else 0
        self._nested.open(session, self.slots.number_running(parent.session, parent.tasks[0], attempt))

    def on_nested_frames(self, session: bytes, frames: tuple[bytes, ...], now: float) -> None:
        self._outbox.append(Relay(session, frames))

    def on_nested_blocked(self, session: bytes, for_a_lock: bool, now: float) -> None:
        number = self._nested.wait(session, for_a_lock)
        if number is not None:
            self.slots.block(number, self._nested.waits_for_lock(number))

    def on_nested_unblocked(self, session: bytes, now: float) -> None:
        number = self._nested.go_on(session)
        if number is not None:
            self.slots.unblock(number)

    def on_nested_closed(self, session: bytes, now: float) -> None:
        number = self._nested.close(session)
        if number is not None:
            self.slots.unblock(number)
        self._outbox.append(RelayClosed(session))

    def _on_relay(self, relay: Relay, now: float) -> None:
        self._effects.append(SendNested(relay.session, relay.frames))

    # ---- reports ---------------------------------------------------------------------------------------------

    def report(
        self, cpu_percent: float, rss_bytes: int, rss_free_bytes: int, workers: tuple[WorkerStatus, ...], now: float
    ) -> None:
        """Send a status report with these figures of the host."""
        self._heartbeat = Heartbeat(
            now, self._lag_seconds, cpu_percent, rss_bytes, rss_free_bytes, self.slots.queued, workers
        )
        if self._welcomed:
            self._send(self._link.wrap(self._heartbeat), now)

    def _on_heartbeat_echo(self, echo: HeartbeatEcho, now: float) -> None:
        self.slots.is_watched = echo.watched
        if echo.sent_at:
            self._lag_seconds = max(0.0, now - echo.sent_at)
            self._lease.proved(echo.sent_at, now)

    def _turn(self, now: float) -> None:
        if self._lease.turn(now):
            self._ask_for_proof(now)

    def _ask_for_proof(self, now: float) -> None:
        if self._heartbeat is not None and self._welcomed:
            self._send(self._link.wrap(replace(self._heartbeat, sent_at=now)), now)

    # ---- what the shell fails at -------------------------------------------------------------------------------

    def on_not_taken_in(self, now: float) -> None:
        """A message of the scheduler was not, or not wholly, taken in: say what is here, so that it sends the rest."""
        self._epoch = 0
        self._say_hello(now)

    def on_not_carried_out(self, effect: Any, now: float) -> None:
        """What rests on it must not wait for it."""
        if isinstance(effect, Send):
            self.on_not_taken_in(now)
        elif isinstance(effect, StartProcessor):
            self.slots.on_not_started(effect.number, "the agent failed at it", now)
        elif isinstance(effect, (HandOver, Interrupt, Suspend, Resume, DropObjects)):
            self.slots.end_processor(effect.number)

    # ---- the end ---------------------------------------------------------------------------------------------

    def on_stop(self, now: float) -> None:
        """Leave in good order: start nothing more, give back what waits, let what runs end within the grace time."""
        if self._stop_at is not None:
            return
        self._stop_at = now + self._settings.grace_seconds
        self.slots.accepting = False
        self._outbox.append(Withdrawn((), leaving=True))
        self._give_back()

    def _give_back(self) -> None:
        """What waits: here already, sent before the scheduler knew, or left by a processor that died."""
        columns = [*self.slots.withdraw_everything(), *self._withdraw_waiting()]
        if columns:
            self._outbox.append(Withdrawn(tuple(columns), leaving=True))

    def _withdraw_waiting(self) -> list[TaskColumn]:
        for run in self._objects.take_waiting():
            self.slots.queue.push(run)
        return self.slots.withdraw_everything()

    def _on_stop_message(self, stop: Stop, now: float) -> None:
        self._exit(0, "the cluster is shut down")

    def _advance_stop(self, now: float) -> None:
        """Running tasks, then farewell, then acknowledgements, then the end."""
        if self._stop_at is None or self._ended:
            return
        if self.slots.queue.count:  # came after this agent had said that it takes no more
            self._outbox.append(Withdrawn(tuple(self.slots.withdraw_everything())))
        if self._farewell_at is None:
            if self._welcomed and not self.slots.is_idle and now < self._stop_at:
                return
            self._farewell_at = now
            self._goodbye_due = True
        elif not self._welcomed or not self._link.in_flight or now >= self._farewell_at + FAREWELL_SECONDS:
            self._exit(0, "stopped")

    def _exit(self, code: int, text: str) -> None:
        if not self._ended:
            self._ended = True
            self._effects.append(Exit(code, text))

    # ---- time ------------------------------------------------------------------------------------------------

    def _next_deadline_unusual(self, first: float | None) -> float | None:
        """While it is away or leaves."""
        if self._welcomed:
            first = _earlier(first, self._sent_at + PING_SECONDS)
            if self._acknowledge_at is not None:
                first = _earlier(first, self._acknowledge_at)
        else:
            if self._away_since is not None:
                first = _earlier(first, self._away_since + self._settings.death_timeout_seconds)
            if self._connected:
                first = _earlier(first, self._hello_again_at)
            if self._reconnect_at is not None:
                first = _earlier(first, self._reconnect_at)
        if self._farewell_at is not None:
            first = _earlier(first, self._farewell_at + FAREWELL_SECONDS)
        elif self._stop_at is not None:
            first = _earlier(first, self._stop_at)
        return first

    def on_deadline(self, now: float) -> None:
        self._turn(now)
        self.slots.on_deadline(now)
        if self._welcomed:
            self._keep_alive(now)
        elif self._away_since is not None and now >= self._away_since + self._settings.death_timeout_seconds:
            self._exit(1, f"the scheduler is away for {self._settings.death_timeout_seconds:g} seconds")
        elif self._connected and now >= self._hello_again_at:
            self._say_hello_again(now)
        elif self._reconnect_at is not None and now >= self._reconnect_at:
            self._reconnect_at = None
            self._effects.append(Reconnect())

    def _keep_alive(self, now: float) -> None:
        if now < self._sent_at + PING_SECONDS:
            return
        if self._lease.proof_wanted_since is not None:
            self._ask_for_proof(now)
        self._send(self._link.wrap(Ping()), now)

    def _tell_lease(self, lease: float) -> None:
        """Processors start nothing after it. It moves with every message heard, so a little less of it will do."""
        self._lease_told = lease
        for processor in self.slots.processors.values():
            if processor.board is not None:
                processor.board.set_lease(lease)

    def _note_lent(self) -> None:
        lent = self.slots.lent()
        if lent != self._lent:
            self._lent = lent
            self._outbox.append(Blocked(*lent))

    def _flush(self, now: float) -> None:
        """Send what has gathered beside results; those made here join the others."""
        if self.slots.given_back:
            self._outbox.append(Withdrawn(tuple(columns_of((), self.slots.given_back))))
            self.slots.given_back.clear()
        if self._outbox:
            for body in self._outbox:
                envelope = self._link.wrap(body)
                if isinstance(body, Output):
                    self._output_sizes[envelope.sequence] = len(body.data) + len(body.warnings)
                self._send(envelope, now)
            self._outbox.clear()
        if self.slots.rows.waiting:
            self.slots.finished.extend(self.slots.rows.take())

    def _say_goodbye(self, now: float) -> None:
        self._goodbye_due = False
        self._send(self._link.wrap(Goodbye()), now)

    def check(self) -> None:
        """Assert what must always hold."""
        self._link.check()
        self.slots.check()
        assert not self._retained or max(self._retained) <= self._link.sent
        assert not (self._welcomed and not self._epoch)


def _earlier(first: float | None, other: float) -> float:
    return other if first is None or other < first else first


def _belong_together(first: Output, second: Output) -> bool:
    same = (first.session, first.task, first.stream) == (second.session, second.task, second.stream)
    same = same and not first.warnings
    return same and len(first.data) + len(second.data) <= OUTPUT_MESSAGE_BYTES
