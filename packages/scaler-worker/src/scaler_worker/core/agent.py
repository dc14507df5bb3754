"""AgentCore: one host's part in the cluster.

Tasks arrive, wait for their objects, wait for a process and run; results are kept until the scheduler says that their
clients have them. Each connection begins with Hello. A scheduler that resumes gets what it has not received; one that
does not (a new epoch) is told what is held here, and gets every unreleased result again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scaler_protocol.codec import TaskRun
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link, LinkGap
from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    DEPARTURES_SINCE_MINOR,
    LOG_LINES_SINCE_MINOR,
    SOFTWARE_SINCE_MINOR,
    UPLOAD_NUMBER,
    ActorsReady,
    AgentAttach,
    Blocked,
    Cancel,
    CancelRefused,
    Challenge,
    Drain,
    EndProcess,
    Envelope,
    Goodbye,
    HeartbeatEcho,
    Hello,
    HostSoftware,
    KeepValues,
    Leaving,
    LogLine,
    MayLeave,
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
    OutputReply,
    OutputRequest,
    ProfileReply,
    ProfileRequest,
    RefusalReason,
    Refused,
    Relay,
    ResultsReleased,
    RunningTask,
    StackReply,
    StackRequest,
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
from scaler_protocol.profile import ProfileTree
from scaler_worker.core import held_tasks
from scaler_worker.core.actors import ENDED_TEXT
from scaler_worker.core.agent_log import AgentLog
from scaler_worker.core.columns import columns_of
from scaler_worker.core.effects import (
    DropStored,
    EndProfile,
    Exit,
    FetchStored,
    FindStored,
    InstallPackages,
    JoinStore,
    ReadStack,
    ReadStored,
    Reconnect,
    RenewNested,
    SendNested,
)
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.heartbeat import Heartbeats
from scaler_worker.core.hot_path import PING_SECONDS, SCHEDULER, AgentHotPath
from scaler_worker.core.objects import WrongBytes
from scaler_worker.core.packages import key_of
from scaler_worker.core.profiles import Profiles
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.stack_text import shown_stack
from scaler_worker.core.state import AgentState

__all__ = ["SCHEDULER", "AgentCore"]

HELLO_SECONDS = 1.0
HELLO_LIMIT_SECONDS = 8.0
KEY_REFUSED_SECONDS = 2.0
"""Seconds until it connects again after its key was refused."""

BAD_INPUT_CODE = 2
LOST_PER_MESSAGE = 4096
NO_STORE = bytes(16)
"""The store of an object that the agent keeps itself."""

_IDLE_TEXT = "Cannot show the stack: the worker has no task."
_NO_STACK_TEXT = "Cannot show the stack: the task waits on its host, or has just ended."
_SILENT_TEXT = "Cannot show the stack: the worker process did not answer. It is suspended, or has just ended."

FAREWELL_SECONDS = 0.5
"""Seconds for which the last acknowledgements are awaited."""


class AgentCore:
    """The part of an agent that does not depend on where its tasks run, which is the responsibility of its ``backend``.
    The ``AgentRules`` of its hot path are here."""

    def __init__(
        self,
        settings: AgentSettings,
        hello: Hello,
        state: AgentState,
        backend: ExecutionBackend,
        now: float,
        handshake: PeerHandshake | None = None,
    ) -> None:
        """``hello``: the first message of a connection; its epoch and received are filled in here. ``handshake``: how
        the scheduler proves its identity; None: something else protects the connection."""
        self._settings = settings
        self._hello = hello
        self._state = state
        self._backend = backend
        self._client_output = backend.client_output
        self._epoch = 0
        self._handshake = handshake or PeerHandshake()
        self._obstacle = ""
        self._reconnect_at: float | None = None
        self._connected = False
        self._cluster = b""
        self._software: HostSoftware | None = None
        self._scheduler_minor = 0
        self._store_status: StoreStatus | None = None
        self._relayed: dict[ObjectKey, bool] = {}
        self._fetched: dict[ObjectKey, int] = {}
        self._hello_again_at = now
        self._hello_again_seconds = HELLO_SECONDS
        self._away_since: float | None = now
        self._promised: set[ObjectKey] = set()  # values that the scheduler has asked it to keep, on their way
        self._says_leaving = False
        self._may_leave = False
        self._farewell_at: float | None = None
        self._ended = False
        self.stands_aside = False
        """The scheduler was told to give this agent no tasks, although it is not leaving."""

        hot_path = AgentHotPath(state, backend, self, self._greetings(), self._handlers())
        self.turn, self._send = hot_path.turn, hot_path.send
        self._profiles = Profiles()
        self._log = AgentLog()
        self._heartbeats = Heartbeats(state, hot_path.send)
        self.on_message, self.take_effects, self.next_deadline = (
            hot_path.on_message,
            hot_path.take_effects,
            hot_path.next_deadline,
        )

    def _greetings(self) -> dict[type, Callable[[Any, float], None]]:
        """The messages that may come before the connection is established."""
        return {
            Welcome: self._on_welcome,
            Challenge: self._on_challenge,
            WhoAreYou: self._on_who_are_you,
            Refused: self._on_refused,
        }

    def _handlers(self) -> dict[type, Callable[[Any, float], None]]:
        """The messages of an established connection, apart from those of the hot path."""
        return {
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
            KeepValues: self._on_keep_values,
            MayLeave: self._on_may_leave,
            StackRequest: self._on_stack_request,
            OutputRequest: self._on_output_request,
            ProfileRequest: self._on_profile_request,
            Stop: self._on_stop_message,
            Drain: self._on_drain,
            EndProcess: self._on_end_process,
        }

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
            self._state.outbox.add(Log("ERROR", text))
        self._obstacle = text

    def on_gap(self, gap: LinkGap, now: float) -> None:
        self._state.outbox.add(Log("WARNING", f"{gap}: saying hello again"))
        self._say_hello(now)

    def _say_hello(self, now: float) -> None:
        self._leave(now)
        self._hello_again_at = now + self._hello_again_seconds
        hello = replace(self._hello, epoch=self._epoch, received=self._state.link.received)
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
        self._state.outbox.add(Reconnect())

    def _on_challenge(self, challenge: Challenge, now: float) -> None:
        proved = self._handshake.answer(challenge) if self._connected and not self._state.welcomed else None
        if proved is not None:
            self._hello_again_at = now + self._hello_again_seconds
            self._send(Envelope(proved), now)

    def _on_who_are_you(self, question: WhoAreYou, now: float) -> None:
        if self._farewell_at is None:
            self._say_hello(now)
        else:  # the scheduler has taken in the farewell and forgotten this agent
            self.exit(0, "stopped")

    def _leave(self, now: float) -> None:
        if self._away_since is None:
            self._away_since = now
        self._state.welcomed = False

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        verdict = self._handshake.judge(welcome)
        if self._state.welcomed or verdict == "late":
            return  # it answers an earlier Hello: another answer is on its way
        if verdict == "forged":
            self._note_obstacle(self._handshake.forged_text)
            self._leave_connection()
            return
        self._obstacle = ""
        self._away_since = None
        self._state.welcomed = True
        self._scheduler_minor = welcome.minor
        if self._settings.uses_store and welcome.cluster != self._cluster:
            self._cluster = welcome.cluster
            self._state.outbox.add(JoinStore(welcome.cluster))
        self._state.lease.end()
        self._state.lease.heard(now)
        if welcome.resumed and welcome.epoch == self._epoch:
            for envelope in self._state.link.resume(welcome.received):
                self._send(envelope, now)
            self.release_output(welcome.received)
            self._report_software()
            self._report_log()
            return
        self._epoch = welcome.epoch
        self._start_link()
        self._report_software()
        self._log.restart()
        self._report_log()
        if self._heartbeats.last is not None:
            self._state.unsent.append(replace(self._heartbeats.last, sent_at=now))

    def on_software_read(self, software: HostSoftware, now: float) -> None:
        """Keep the software of worker processes. The scheduler hears of it now, and whenever it welcomes this agent."""
        self._software = software
        if self._state.welcomed:
            self._report_software()

    def _report_software(self) -> None:
        if self._software is not None and self._scheduler_minor >= SOFTWARE_SINCE_MINOR:
            self._state.unsent.append(self._software)

    def on_logged(self, lines: Sequence[LogLine], now: float) -> None:
        """The agent's process has written these lines to its log."""
        self._log.add(lines)
        if self._state.welcomed:
            self._report_log()

    def _report_log(self) -> None:
        lines = self._log.take_unsent() if self._scheduler_minor >= LOG_LINES_SINCE_MINOR else None
        if lines is not None:
            self._state.unsent.append(lines)

    def _start_link(self) -> None:
        """A scheduler that knows nothing of this agent: tell it what is here."""
        self._says_leaving = self._may_leave = False
        self._state.link = Link()
        self._client_output.restart()
        unreleased = [run for runs in self._state.retained.values() for run in runs]
        self._state.retained.clear()
        self._state.finished[:0] = [*self._state.objects.held_results(), *unreleased]
        self._state.finished.extend(self._state.nodes.held_runs())
        settings = self._settings
        self._state.unsent[:] = [
            AgentAttach(
                settings.name, self._hello.host, self._hello.pid, settings.worker_names, settings.capabilities,
                tuple(self._backend.holds()), settings.manager,
            ),
        ]  # fmt: skip
        if self._state.host_store is not None:
            self._state.unsent.append(self._state.host_store)
        store = self._state.host_store.store if self._state.host_store is not None else NO_STORE
        for key, size, is_stored in self._state.objects.held_uploads():
            self._state.unsent.append(ObjectStored(key, size, store if is_stored else NO_STORE))
        self._state.unsent.extend(ObjectRequest(key) for key in self._state.packages.ask(self._state.objects.restart()))
        if self._state.lent[0]:
            self._state.unsent.append(Blocked(*self._state.lent))
        ready = self._state.actors.live_columns()
        if ready:
            self._state.unsent.append(ActorsReady(tuple(ready)))
        if self._state.stop_at is not None:
            self._state.unsent.append(Withdrawn((), leaving=True))
        if self.stands_aside:
            self._state.unsent.append(Withdrawn((), leaving=True))
        self._state.outbox.extend(RenewNested(session) for session in self._state.nested.sessions())

    def _on_refused(self, refused: Refused, now: float) -> None:
        if refused.reason == RefusalReason.MALFORMED and self._epoch:
            self._state.outbox.add(Log("ERROR", f"the scheduler closed the session: {refused.text}"))
            self._epoch = 0
            self._say_hello(now)
            return
        self.exit(1, f"the scheduler has refused this worker: {refused.text}")

    # ---- tasks -----------------------------------------------------------------------------------------------

    def accept(self, run: TaskRun) -> None:
        """Tasks that need more than their function, or a function that is an object."""
        if not self._backend.has_environments and self._state.queue.environment_of(run):
            self._fail(run, Status.NO_WORKER, "Cannot use an environment: the task was placed in Symphony.")
        elif run.options.hosts_actor and not self._backend.hosts_actors:
            self._fail(run, Status.NO_WORKER, "Cannot make an actor: it was placed in Symphony, where none can be.")
        elif run.options.graph:
            self._accept_nodes(run)
        elif run.has_references and run.count > 1:
            for index in range(run.count):
                self._accept_one(run.slice(index, index + 1))
        else:
            self._accept_one(run)

    def refuse(self, run: TaskRun, error: Exception) -> None:
        """Its tasks cannot be taken in: they end, and those that came with them are not to suffer."""
        text = f"The agent of this host cannot take in the task: {type(error).__name__}: {error}"
        self._state.outbox.add(Log("ERROR", f"{run.function_name}: {text}"))
        self._fail(run, Status.NO_WORKER, text)

    def _fail(self, run: TaskRun, status: Status, text: str) -> None:
        held_tasks.fail_run(self._state, run, status, text.encode())

    def _accept_one(self, run: TaskRun) -> None:
        keys = self._definitions_of(run)
        if keys is None:
            return
        if run.has_references:
            keys.extend(run.references())
        if not keys or self._state.objects.all_here(keys):
            held_tasks.queue_run(self._state, run)
        elif run.options.actor and not self._state.actors.expect_call(run):
            self._fail(run, Status.WORKER_DIED, ENDED_TEXT.decode())
        else:
            self._find(self._state.objects.require(run, keys))

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
        if self._state.objects.all_here(keys):
            self._find(held_tasks.add_nodes(self._state, run, False))
        else:
            self._find(held_tasks.add_nodes(self._state, run, True))
            self._find(self._state.objects.require(run, keys))
        if self._state.freed:
            self._release_freed()

    def _definitions_of(self, run: TaskRun) -> list[ObjectKey] | None:
        """The objects that its function and serializer are, if they are. None: they are not known, the run failed."""
        function = self._state.functions.get(run.function)
        serializer = self._state.serializers.get(run.serializer) if run.serializer else None
        if function is None or (run.serializer and serializer is None):
            self._fail(run, Status.OBJECT_MISSING, f"The function {run.function_name} did not arrive.")
            return None
        keys = [] if function.payload else [ObjectKey(function.digest, 0)]
        if serializer is not None and not serializer.payload:
            keys.append(ObjectKey(serializer.digest, 0))
        packages = self._state.packages.key_of(run) if serializer is not None else None
        return keys if packages is None else [*keys, packages]

    def _on_cancel(self, cancel: Cancel, now: float) -> None:
        if cancel.unstarted_only:
            refused = [self._backend.cancel_unstarted(column) for column in cancel.columns]
            self._state.unsent.append(CancelRefused(tuple(column for column in refused if column.tasks)))
            return
        for column in cancel.columns:
            self._backend.cancel(column, now)
        self._release_freed()

    def _release_freed(self) -> None:
        """Release large values that are no longer needed."""
        freed, self._state.freed[:] = self._state.freed[:], []
        for key in freed:
            self._state.objects.give_up(key)
        self._release(freed)

    def _on_withdraw(self, withdraw: Withdraw, now: float) -> None:
        self._state.unsent.append(Withdrawn(tuple(self._backend.withdraw(withdraw.count))))

    def _on_results_released(self, released: ResultsReleased, now: float) -> None:
        for sequence in released.sequences:
            self._state.retained.pop(sequence, None)

    # ---- objects ---------------------------------------------------------------------------------------------

    def _find(self, keys: list[ObjectKey]) -> None:
        """Find objects that tasks here need: in the host's store, or else through the scheduler. Functions
        always come through the scheduler."""
        keys = self._state.packages.ask(keys)
        stored = [key for key in keys if key.number] if self._cluster else []
        if stored:
            self._state.outbox.add(FindStored(stored))
        self._state.unsent.extend(ObjectRequest(key) for key in keys if not (stored and key.number))

    def _on_object_chunk(self, chunk: ObjectChunk, now: float) -> None:
        try:
            ready, credit = self._state.objects.on_chunk(chunk)
        except WrongBytes as error:
            self._state.unsent.append(ObjectCredit(chunk.key, CREDIT_WITHOUT_END))
            self._on_object_missing(ObjectMissing(chunk.key, str(error)), now)
            return
        except (OSError, OverflowError) as error:
            self._state.unsent.append(ObjectCredit(chunk.key, CREDIT_WITHOUT_END))
            text = f"This host has no room for an object of {chunk.size:,} bytes: {error}."
            self._on_object_missing(ObjectMissing(chunk.key, text), now)
            return
        if credit is not None:
            self._state.unsent.append(credit)
        self._take_ready(ready)

    def _take_ready(self, ready: list[TaskRun]) -> None:
        for run in ready:
            held_tasks.objects_here(self._state, run)
        for key in self._state.objects.take_arrived():
            if not held_tasks.value_arrived(self._state, key):
                self._release([key])
            elif key in self._promised:
                self._report_kept(key)

    def _on_object_request(self, request: ObjectRequest, now: float) -> None:
        key = request.key
        value = self._state.nodes.value(key)
        if value is not None:
            self._state.unsent.append(ObjectChunk(key, len(value), 0, value))
        elif self._state.objects.is_stored(key):
            self._relayed[key] = (
                request.relayed or self._state.host_store is None or not self._state.host_store.endpoint
            )
            self._state.outbox.add(ReadStored(key))
        else:
            self._answer_request(key, self._state.objects.on_request(key))

    def _answer_request(self, key: ObjectKey, chunks: list[ObjectChunk] | None) -> None:
        if chunks is None:
            self._state.unsent.append(ObjectMissing(key, "The worker that held this result no longer has it."))
        else:
            self._state.unsent.extend(chunks)

    def _on_object_credit(self, credit: ObjectCredit, now: float) -> None:
        self._state.unsent.extend(self._state.objects.on_credit(credit))

    def _on_object_missing(self, missing: ObjectMissing, now: float) -> None:
        self._promised.discard(missing.key)
        for run in self._state.objects.on_missing(missing.key):
            self._fail(run, Status.OBJECT_MISSING, missing.text)
        if missing.key.owner in self._state.nodes:
            held_tasks.value_missing(self._state, missing.key)

    def _on_object_release(self, release: ObjectRelease, now: float) -> None:
        values = [key for key in release.keys if key.owner in self._state.nodes and key.number < UPLOAD_NUMBER]
        if values:  # large results that are kept here like values of nodes
            held_tasks.forget_values(self._state, values)
            for key in values:
                self._state.objects.give_up(key)
        self._release(release.keys)

    # ---- values of agents that leave -------------------------------------------------------------------------

    def _on_keep_values(self, order: KeepValues, now: float) -> None:
        """Another agent leaves: keep its values."""
        if not self._state.accepting:
            return
        here, wanted = self._state.nodes.keep(order.keys)
        self._promised.update(order.keys)
        for key in here:
            self._report_kept(key)
        self._find(self._state.objects.fetch(wanted))

    def _report_kept(self, key: ObjectKey) -> None:
        self._promised.discard(key)
        self._state.unsent.append(ObjectStored(key, 0, NO_STORE))

    # ---- the host's store ------------------------------------------------------------------------------------

    def on_store_status(self, status: StoreStatus, now: float) -> None:
        """The host's store is connected, and says what it has."""
        attached = StoreAttached(status.store, status.endpoint)
        if attached != self._state.host_store:
            self._state.host_store = attached
            self._state.unsent.append(attached)
        if status != self._store_status:
            self._store_status = status
            self._state.unsent.append(status)

    def on_store_lost(self, now: float) -> None:
        """It has died, and with it what it held."""
        self._state.host_store = None
        lost = self._state.objects.take_lost()
        held_tasks.forget_values(self._state, [key for key in lost if key.number < UPLOAD_NUMBER])
        self._backend.forget_objects(lost)
        for start in range(0, len(lost), LOST_PER_MESSAGE):
            self._state.unsent.append(ObjectsLost(tuple(lost[start : start + LOST_PER_MESSAGE])))

    def on_stored(self, key: ObjectKey, now: float) -> None:
        """It is in the host's store."""
        size = self._fetched.pop(key, None)
        if size is not None and not self._state.objects.is_wanted(key):
            self._drop_stored([key])
            self._state.unsent.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif size is not None and self._state.host_store is not None:
            self._promised.discard(key)
            self._state.unsent.append(ObjectStored(key, size, self._state.host_store.store))
        self._take_ready(self._state.objects.on_found(key))

    def on_not_stored(self, key: ObjectKey, relayed: bool, now: float) -> None:
        """The host's store does not have it; ``relayed``: nor could it get it from others."""
        self._fetched.pop(key, None)
        if self._state.objects.is_wanted(key):
            self._state.unsent.append(ObjectRequest(key, relayed))

    def on_stored_view(self, key: ObjectKey, view: memoryview | None, now: float) -> None:
        """The bytes of an object that was requested; None: the store does not have it."""
        relayed = self._relayed.pop(key, True)
        if view is None or relayed or self._state.host_store is None:
            self._answer_request(key, None if view is None else self._state.objects.begin(key, view))
        else:
            self._state.unsent.append(ObjectLocations(key, len(view), (self._state.host_store.endpoint,)))

    def _on_object_locations(self, locations: ObjectLocations, now: float) -> None:
        key = locations.key
        if not self._state.objects.is_wanted(key):
            self._state.unsent.append(ObjectCredit(key, CREDIT_WITHOUT_END))
        elif not self._cluster:
            self._state.unsent.append(ObjectRequest(key, relayed=True))
        else:
            self._fetched[key] = locations.size
            self._state.outbox.add(FetchStored(key, locations.size, locations.sources))

    def _drop_stored(self, keys: list[ObjectKey]) -> None:
        """One message to the store drops many objects."""
        last = self._state.outbox.last()
        if isinstance(last, DropStored):
            last.keys.extend(keys)
        else:
            self._state.outbox.add(DropStored(keys))

    def _release(self, keys: Sequence[ObjectKey]) -> None:
        self._promised.difference_update(keys)
        stored = [key for key in keys if self._state.objects.release(key)]
        if stored:
            self._drop_stored(stored)
        for key in keys:
            if key.number == 0:
                self._state.functions.pop(key.owner, None)
                self._state.serializers.pop(key.owner, None)
                environment = self._state.queue.environments.pop(key.owner, None)
                if environment is not None:
                    self._state.packages.forget(environment)
        self._backend.forget_objects(keys)

    # ---- packages of environments ----------------------------------------------------------------------------

    def on_packages_installed(self, requirements: tuple[str, ...], now: float) -> None:
        """Tasks may use these packages."""
        self._take_ready(self._state.objects.on_here(key_of(requirements)))

    def on_packages_failed(self, requirements: tuple[str, ...], text: str, now: float) -> None:
        """The tasks that wait for these packages fail. For later tasks it is tried again."""
        for run in self._state.objects.on_missing(key_of(requirements)):
            self._fail(run, Status.NO_WORKER, text)

    # ---- stacks of tasks --------------------------------------------------------------------------------------

    def _on_stack_request(self, request: StackRequest, now: float) -> None:
        number = self._backend.number_asked_for(request.session, request.task, request.worker)
        if number is None:
            self._state.unsent.append(
                StackReply(request.number, False, _IDLE_TEXT if request.worker else _NO_STACK_TEXT)
            )
        else:
            self._state.outbox.add(ReadStack(request.number, number))

    def on_stack(self, request: int, text: str | None, now: float) -> None:
        """The answer to ReadStack, as faulthandler writes it; None: the process did not answer."""
        reply = (
            StackReply(request, False, _SILENT_TEXT) if text is None else StackReply(request, True, shown_stack(text))
        )
        self._state.unsent.append(reply)

    # ---- profiles -----------------------------------------------------------------------------------------------

    def _on_profile_request(self, request: ProfileRequest, now: float) -> None:
        answer = self._profiles.on_request(request, now)
        if isinstance(answer, ProfileReply):
            self._state.unsent.append(answer)
        elif answer is not None:
            self._state.outbox.add(answer)

    def on_profile(self, number: int, tree: ProfileTree, now: float) -> None:
        """The samples of a profile that was to end."""
        reply = self._profiles.on_profile(number, tree)
        if reply is not None:
            self._state.unsent.append(reply)

    # ---- the output of tasks --------------------------------------------------------------------------------

    def on_output(self, number: int, sequence: int, stream: int, data: bytes, now: float) -> None:
        """A task has printed this, for its client."""
        named = self._backend.task_of(number, sequence)
        if named is not None:
            self._client_output.add(*named, stream, data)

    def _on_output_request(self, request: OutputRequest, now: float) -> None:
        pieces = self._backend.output_of(request.session, request.task, request.worker)
        self._state.unsent.append(OutputReply(request.number, True, "", tuple(pieces)))

    def on_warnings(self, number: int, sequence: int, data: bytes) -> None:
        """A task has raised warnings, which its client issues."""
        named = self._backend.task_of(number, sequence)
        if named is not None:
            self._client_output.add_warnings(*named, data)

    @property
    def is_full_of_output(self) -> bool:
        """Whether tasks that print for a client should wait."""
        return self._client_output.is_full

    def release_output(self, acknowledged: int) -> None:
        """The scheduler has received so much."""
        self._client_output.release(acknowledged)

    def _on_relay(self, relay: Relay, now: float) -> None:
        self._state.outbox.add(SendNested(relay.session, relay.frames))

    # ---- reports ---------------------------------------------------------------------------------------------

    def report(
        self, cpu_percent: float, rss_bytes: int, rss_free_bytes: int, workers: tuple[WorkerStatus, ...], now: float,
        running_tasks: tuple[RunningTask, ...] = (), memory_limit_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Send a status report with these figures of the host."""
        for effect in self._profiles.take_overdue(now):
            self._state.outbox.add(effect)
        queued = self._backend.queued
        self._heartbeats.report(
            cpu_percent, rss_bytes, rss_free_bytes, queued, workers, running_tasks, memory_limit_bytes, now
        )

    def _on_heartbeat_echo(self, echo: HeartbeatEcho, now: float) -> None:
        self._heartbeats.on_echo(echo, now)

    def ask_for_proof(self, now: float) -> None:
        self._heartbeats.ask_for_proof(now)

    # ---- what the shell fails at -------------------------------------------------------------------------------

    def on_not_taken_in(self, now: float) -> None:
        """A message of the scheduler was not, or not wholly, taken in: say what is here, so that it sends the rest."""
        self._epoch = 0
        self._say_hello(now)

    def on_not_carried_out(self, effect: Any, now: float) -> None:
        """Continue without the effect: nothing may wait for it."""
        if isinstance(effect, Send):
            self.on_not_taken_in(now)
        elif isinstance(effect, EndProfile):
            self.on_profile(effect.number, ProfileTree(), now)
        elif isinstance(effect, ReadStack):
            self.on_stack(effect.request, None, now)
        elif isinstance(effect, InstallPackages):
            self.on_packages_failed(effect.requirements, "The agent failed to install the packages of the task.", now)

    # ---- standing aside --------------------------------------------------------------------------------------

    def stand_aside(self) -> None:
        """Take no more tasks until ``rejoin``."""
        self.stands_aside = True
        self._state.unsent.append(Withdrawn((), leaving=True))

    def rejoin(self, now: float) -> None:
        """Take tasks again: join as an agent that the scheduler does not know."""
        if self.stands_aside:
            self.stands_aside = False
            self._epoch = 0
            if self._connected:
                self._say_hello(now)

    # ---- the end ---------------------------------------------------------------------------------------------

    def on_stop(self, now: float) -> None:
        """Leave in good order: start nothing more, give back what waits, let what runs end within the grace time."""
        self._begin_to_leave(now + self._settings.grace_seconds)

    def _on_drain(self, drain: Drain, now: float) -> None:
        """Leave in good order, and let what runs end."""
        text = "the scheduler drains this agent: it leaves when its running tasks have ended"
        self._state.outbox.add(Log("INFO", text))
        self._begin_to_leave(math.inf)

    def on_termination_notice(self, now: float) -> None:
        """The machine will be taken away: leave in good order, as far as there is time."""
        text = "the machine will be taken back: this agent leaves when its running tasks have ended"
        self._state.outbox.add(Log("WARNING", text))
        self._begin_to_leave(math.inf)

    def _on_end_process(self, order: EndProcess, now: float) -> None:
        """An operator wants the process of a worker to be replaced."""
        when = "is killed" if order.at_once else "is replaced when its task has ended"
        if self._backend.replace_process(order.worker, order.at_once):
            self._state.outbox.add(Log("WARNING", f"An operator asks for it: the process of {order.worker} {when}"))

    def _begin_to_leave(self, stop_at: float) -> None:
        if self._state.stop_at is not None and self._state.stop_at <= stop_at:
            return
        self._state.stop_at = stop_at
        self._state.accepting = False
        self._state.unsent.append(Withdrawn((), leaving=True))
        self.give_back()

    def give_back(self) -> None:
        """Waiting tasks: here already, sent before the scheduler knew, or left by a worker process that died."""
        columns = [*self._withdraw_everything(), *self._withdraw_waiting()]
        if columns:
            self._state.unsent.append(Withdrawn(tuple(columns), leaving=True))

    def _withdraw_everything(self) -> list[TaskColumn]:
        return [*self._backend.withdraw(1 << 62), *columns_of((), self._state.nodes.take_waiting())]

    def _withdraw_waiting(self) -> list[TaskColumn]:
        for run in self._state.objects.take_waiting():
            held_tasks.queue_run(self._state, run)
        return self._withdraw_everything()

    def _on_stop_message(self, stop: Stop, now: float) -> None:
        self.exit(0, "the cluster is shut down")

    def advance_stop(self, now: float) -> None:
        """Give back what waits; then running tasks end, and others get the values; then farewell, acknowledgements and
        the end. Nothing of this depends on the connection, which may be lost and made again meanwhile."""
        self.give_back()
        if self._state.stop_at is None or self._ended:
            return
        if self._state.queue.count:  # came after this agent had said that it takes no more
            self._state.unsent.append(Withdrawn(tuple(self._withdraw_everything())))
        if self._farewell_at is None:
            may_leave = self._may_leave_values() and self._backend.is_idle and self._has_said_all()
            if not may_leave and now < self._state.stop_at:
                return
            self._farewell_at = now
            self._state.goodbye_due = True
        elif not self._state.welcomed or not self._state.link.in_flight or now >= self._farewell_at + FAREWELL_SECONDS:
            self.exit(0, "stopped")

    def _has_said_all(self) -> bool:
        """Return whether the scheduler is told of all results in time. An agent that has lost its connection waits for
        the next one."""
        state = self._state
        return state.welcomed or not (state.finished or state.rows.waiting or state.retained)

    def _may_leave_values(self) -> bool:
        """Return whether the values that are here are with others, too, or cannot be. Until then, the scheduler is
        having them moved."""
        if self._may_leave or self._scheduler_minor < DEPARTURES_SINCE_MINOR:
            return True
        if not self._state.nodes and not self._state.objects.has_results:
            return True
        if not self._says_leaving:
            self._says_leaving = True
            self._state.unsent.append(Leaving())
        return False

    def _on_may_leave(self, answer: MayLeave, now: float) -> None:
        self._may_leave = self._says_leaving

    def exit(self, code: int, text: str) -> None:
        if not self._ended:
            self._ended = True
            self._state.outbox.add(Exit(code, text))

    # ---- time ------------------------------------------------------------------------------------------------

    def unusual_deadline(self, first: float | None) -> float | None:
        """Return the deadline while the agent is away or leaves."""
        if self._state.welcomed:
            first = _earlier(first, self._state.sent_at + PING_SECONDS)
            if self._state.acknowledge_at is not None:
                first = _earlier(first, self._state.acknowledge_at)
        else:
            if self._away_since is not None:
                first = _earlier(first, self._away_since + self._settings.death_timeout_seconds)
            if self._connected:
                first = _earlier(first, self._hello_again_at)
            if self._reconnect_at is not None:
                first = _earlier(first, self._reconnect_at)
        if self._farewell_at is not None:
            first = _earlier(first, self._farewell_at + FAREWELL_SECONDS)
        elif self._state.stop_at is not None and self._state.stop_at < math.inf:
            first = _earlier(first, self._state.stop_at)
        return first

    def on_deadline(self, now: float) -> None:
        self.turn(now)
        self._backend.on_deadline(now)
        if self._state.welcomed:
            self._heartbeats.keep_alive(now, self._has_nothing())
        elif self._away_since is not None and now >= self._away_since + self._settings.death_timeout_seconds:
            self.exit(1, f"no connection to the scheduler for {self._settings.death_timeout_seconds:g} seconds")
        elif self._connected and now >= self._hello_again_at:
            self._say_hello_again(now)
        elif self._reconnect_at is not None and now >= self._reconnect_at:
            self._reconnect_at = None
            self._state.outbox.add(Reconnect())

    def _has_nothing(self) -> bool:
        """No task, and nothing that anyone could still ask for."""
        state = self._state
        is_empty = not state.retained and state.objects.is_empty and not state.lent[0]
        return is_empty and self._backend.is_idle

    def send_unsent(self, now: float) -> None:
        """Send the messages that have gathered in addition to results; those made here join the others."""
        if self._state.given_back:
            self._state.unsent.append(Withdrawn(tuple(columns_of((), self._state.given_back))))
            self._state.given_back.clear()
        if self._state.unsent:
            for body in self._state.unsent:
                envelope = self._state.link.wrap(body)
                if isinstance(body, Output):
                    self._state.output_sizes[envelope.sequence] = len(body.data) + len(body.warnings)
                self._send(envelope, now)
            self._state.unsent.clear()
        if self._state.rows.waiting:
            self._state.finished.extend(self._state.rows.take())

    def say_goodbye(self, now: float) -> None:
        self._state.goodbye_due = False
        self._send(self._state.link.wrap(Goodbye()), now)

    def check(self) -> None:
        """Assert what must always hold."""
        self._state.link.check()
        self._backend.check()
        assert not self._state.retained or max(self._state.retained) <= self._state.link.sent
        assert not (self._state.welcomed and not self._epoch)


def _earlier(first: float | None, other: float) -> float:
    return other if first is None or other < first else first
