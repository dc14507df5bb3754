"""The client's side of its session with a scheduler, as a deterministic state machine.

Tasks are collected into runs. An idle session (nothing sent is unacknowledged) sends the open batch at once. While
messages are under way, further tasks join the batch, which leaves when an acknowledgement arrives or when it is full.
The session keeps everything that is unfinished, and states it again to a scheduler that has restarted (another epoch).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scaler.core.completion import Completion
from scaler.core.coordination import Claims
from scaler.core.definitions import Definitions
from scaler.core.effects import CompareSoftware, Effect, IssueWarnings, WriteOutput
from scaler.core.endings import TaskEndings
from scaler.core.kept_objects import KeptObjects
from scaler.core.large_results import LargeResults
from scaler.core.named_calls import NamedCalls
from scaler.core.operator_cancels import OperatorCancels
from scaler.core.outcome import CANCELLED, DISCONNECTED, Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler.core.questions import Questions
from scaler.core.runs import ClosedRanges, Function
from scaler.core.scheduler_link import SCHEDULER, SchedulerLink
from scaler.core.sending import Sender, restated_runs
from scaler.core.starting_agents import StartingAgentNames
from scaler.core.submissions import Submissions
from scaler.core.unsent_calls import UnsentCallCounts
from scaler.core.unstarted_cancels import UnstartedCancels
from scaler_protocol.codec import split
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import (
    OBJECTS_STORED_SINCE_MINOR,
    UPLOAD_NUMBER,
    Body,
    Cancel,
    CancelRefused,
    Challenge,
    Clear,
    ClusterInfoReply,
    ControlReply,
    Envelope,
    Explanation,
    Goodbye,
    Hello,
    HostSoftware,
    LockReply,
    NamedReply,
    ObjectChunk,
    ObjectCredit,
    ObjectLocations,
    ObjectMissing,
    ObjectRequest,
    Output,
    OutputReply,
    ProfileReply,
    Refused,
    Results,
    ShutdownReply,
    StackReply,
    StartingAgents,
    Status,
    TaskName,
    Tasks,
    Welcome,
    WhoAreYou,
)

if TYPE_CHECKING:
    from scaler_protocol.codec import TaskRun

__all__ = ["SCHEDULER", "Session"]


class Session:
    """One client. Not thread-safe: its shell holds a lock. Task ids are its own counter; 0 is not an id.

    Each part has one responsibility: ``submissions`` builds runs, ``ranges`` has the unfinished ones, ``endings`` ends
    their tasks, ``large`` has the results that are still elsewhere, ``objects`` what tasks use, ``questions`` the
    requests to the scheduler, ``unstarted_cancels`` those to cancel what has not started, ``claims`` the locks,
    ``named`` the requests for values that are shared by name, and ``unsent_calls`` counts those that are held."""

    def __init__(
        self,
        hello: Hello,
        *,
        timeout_seconds: float,
        heartbeat_interval_seconds: float,
        serializer: Function | None,
        now: float,
        wall_offset_seconds: float | None = None,
        handshake: PeerHandshake | None = None,
        address: str = "",
    ) -> None:
        """``wall_offset_seconds``: what the clocks of all hosts show, less ``now``; None if heartbeats need not come
        together with those of others. ``handshake``: how the scheduler proves its identity; None if something else
        protects the connection. ``address``: the scheduler's, for log lines."""
        self.session = hello.session
        self.is_nested = bool(hello.parent_session)
        self._outgoing = outgoing = Outgoing()
        self._connection = SchedulerLink(
            hello,
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=heartbeat_interval_seconds,
            now=now,
            wall_offset_seconds=wall_offset_seconds,
            handshake=handshake,
            address="" if self.is_nested else address,
            outgoing=outgoing,
        )
        self.ranges = ClosedRanges()
        self.objects = KeptObjects(self.session, outgoing)
        self.questions = Questions(outgoing)
        self.claims = Claims(outgoing)
        self.named = NamedCalls(outgoing)
        self.unsent_calls = UnsentCallCounts(outgoing)
        self.unstarted_cancels = UnstartedCancels(self.session, outgoing)
        completion = Completion(self.ranges, self.objects)
        self.large = LargeResults(self.session, outgoing, completion)
        self._operator_cancels = OperatorCancels(self.session)
        self.endings = TaskEndings(
            self.session, self.ranges, outgoing, self.objects, self.large, completion, self._operator_cancels
        )
        self._definitions = Definitions(serializer, outgoing, self.objects, self.ranges)
        self.submissions = Submissions(
            self.session, self._connection, outgoing, self.ranges, self._definitions, completion
        )
        self._sender = Sender(self.session, self._connection, outgoing, self.objects, self._definitions)
        self._has_environment = serializer is not None and bool(serializer.definition.environment)
        self._starting_agents = StartingAgentNames()
        self._clear_when_welcomed = False
        self._taken: list[Effect] = []
        self._greetings = self._make_greetings()
        self._handlers = self._make_handlers()

    def _make_greetings(self) -> dict[type, Callable[[Any, float], None]]:
        """Messages outside the numbered link."""
        return {
            Welcome: self._on_welcome,
            Refused: self._on_refused,
            WhoAreYou: lambda body, now: self._connection.say_hello(now),
            Challenge: self._connection.on_challenge,
        }

    def _make_handlers(self) -> dict[type, Callable[[Any, float], None]]:
        return {
            Results: self.endings.on_results,
            ObjectChunk: self.large.on_chunk,
            ObjectLocations: self._on_locations,
            ObjectMissing: self.large.on_missing,
            ObjectRequest: self.objects.on_request,
            ObjectCredit: self.objects.on_credit,
            Explanation: self.questions.on_explanation,
            ClusterInfoReply: self.questions.on_cluster_info,
            ShutdownReply: self.questions.on_shutdown_reply,
            ControlReply: self.questions.on_control_reply,
            ProfileReply: self.questions.on_profile_reply,
            StackReply: self.questions.on_stack_reply,
            OutputReply: self.questions.on_output_reply,
            Output: self._on_output,
            HostSoftware: self._on_software,
            LockReply: self.claims.on_reply,
            NamedReply: self.named.on_reply,
            CancelRefused: self.unstarted_cancels.on_refused,
            Cancel: self._operator_cancels.on_cancel,
            StartingAgents: self._on_starting_agents,
        }

    def _on_starting_agents(self, body: StartingAgents, now: float) -> None:
        self._starting_agents.on_named(body)
        self._connection.acknowledge_soon()  # tasks wait for it

    def _on_locations(self, locations: ObjectLocations, now: float) -> None:
        is_upload = locations.key.number >= UPLOAD_NUMBER
        (self.objects if is_upload else self.large).on_locations(locations, now)

    # ---- the contract of every core --------------------------------------------------------------------------------

    def on_connected(self, now: float, token: bytes = b"") -> None:
        """There is a connection, perhaps again: greet the scheduler. ``token``: the secret that both ends prove to
        know."""
        self._connection.on_connected(now, token)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        self._connection.on_lost(now)

    def on_connection_ended(self, now: float) -> None:
        """There is no connection, and none comes unless the session asks for it."""
        self._connection.on_ended(now)

    def on_obstacle(self, text: str) -> None:
        """``text`` says why there is no connection, if that is known. Tasks that fail at the timeout report it."""
        self._connection.on_obstacle(text)

    def on_key_refused(self, text: str, now: float) -> None:
        """The scheduler does not accept this key, or someone on the path says so. It may accept the key later."""
        if self._connection.on_key_refused(text, now):
            self._give_up(text, now)

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None:
        body = envelope.body
        greeting = self._greetings.get(type(body))
        if greeting is not None:
            greeting(body, now)
            return
        connection = self._connection
        if not connection.welcomed:
            return
        link, sequence = connection.link, envelope.sequence
        if sequence > link.received + 1:
            connection.say_hello(now)
            return
        link.acknowledge(envelope.acknowledged)
        uploads = self._outgoing.uploads
        if uploads.pieces_under_way:
            uploads.note_acknowledged(envelope.acknowledged, now)
        handler = self._handlers.get(type(body))
        if handler is not None and (not sequence or sequence > link.received):
            handler(body, now)
        if link is connection.link:
            link.accept(envelope)  # last: an interrupted message counts as not received

    def on_deadline(self, now: float) -> None:
        connection = self._connection
        if connection.refusal:
            self._give_up(connection.refusal, now)
            return
        if self._is_waiting and connection.is_overdue(now):
            self._give_up(connection.overdue_text, now)
        self._sender.on_deadline(now)
        connection.on_deadline(now)

    def next_deadline(self) -> float | None:
        connection = self._connection
        if connection.welcomed:
            due = connection.deadline_while_welcomed()
            if self.unsent_calls.is_changed:
                due = min(due, self.unsent_calls.due or 0.0)  # 0: the next turn says when
            cancels_due, graph_due = self._sender.cancels_due, self.submissions.graph_due
            if cancels_due is not None and cancels_due < due:
                due = cancels_due
            return due if graph_due is None or due < graph_due else graph_due
        if connection.refusal:  # what was asked since then fails at once
            return connection.lost_since if self._is_waiting or not self.questions.is_blank else None
        return connection.deadline_while_away(self._is_waiting)

    def take_effects(self, now: float) -> list[Effect]:
        connection, outgoing = self._connection, self._outgoing
        if self.objects.dropped or self.large.dropped:
            self.objects.forget_dropped()
            self.large.forget_dropped()
        if connection.welcomed:
            if self.submissions.open_runs:
                if outgoing.releases:  # a task that names a released value leaves before the release
                    self.submissions.close_batch()
                else:
                    self.submissions.close_when_due()
            if self.submissions.graphs:
                self.submissions.close_graphs(now)
            if self.unsent_calls.is_changed:
                self.unsent_calls.tell_when_due(now)
            self._sender.send(now)
            connection.acknowledge_when_due(now)
        self._taken, outgoing.effects = outgoing.effects, []
        return self._taken

    def on_interrupted(self, now: float) -> None:
        """A signal handler raised an exception while a method of this session ran or while its effects were carried
        out. The last effects are carried out again, which is harmless, and the scheduler repeats the messages that were
        not received completely."""
        self._outgoing.effects[:0] = [effect for effect in self._taken if not isinstance(effect, WriteOutput)]
        self.submissions.mend()
        self._connection.on_interrupted(now)

    def check(self) -> None:
        self._connection.check()
        self._outgoing.uploads.check()
        self.endings.check()
        self.large.check()
        self.objects.check()
        self.claims.check()
        self.named.check()
        self.submissions.check()

    # ---- facts for the client --------------------------------------------------------------------------------------

    @property
    def welcomed(self) -> bool:
        return self._connection.welcomed

    @property
    def refusal(self) -> str:
        """The reason why the scheduler refused this client; empty if it did not."""
        return self._connection.refusal

    @property
    def cluster(self) -> bytes:
        return self._connection.cluster

    @property
    def has_unfinished(self) -> bool:
        return bool(self.ranges or self.submissions.open_runs)

    @property
    def is_blank(self) -> bool:
        """True if no task, object, question or message is pending, so that another client may reuse this session."""
        kept = self.objects.uploads or self.objects.dropped or self.large.fetches or self.large.dropped
        asked = self.unstarted_cancels or self.named or not (self.questions.is_blank and self.claims.is_blank)
        return self.welcomed and not (asked or self.has_unfinished or kept or self._outgoing or self.unsent_calls)

    @property
    def _is_waiting(self) -> bool:
        return bool(self.has_unfinished or self.questions or self.large.fetches or self.claims or self.named)

    # ---- verbs of the client ---------------------------------------------------------------------------------------

    def live_in(self, parent: TaskName) -> None:
        """Messages that are sent from now on are sent by the task ``parent``. A name without a session changes
        nothing."""
        self._connection.live_in(parent)

    def explain(self, task: int, sink: Sink) -> None:
        """Ask the scheduler where the task is and what it waits for."""
        self._sender.state_cancels()
        self.questions.explain(task, sink)

    def clear(self) -> None:
        """Cancel all tasks and drop all objects."""
        self._end_all(CANCELLED)
        if self._connection.epoch:
            self._outgoing.waiting.append(Clear())

    def quit(self, now: float) -> None:
        """Leave the scheduler. Everything unfinished is cancelled."""
        self._end_all(CANCELLED)
        self._outgoing.urgent.clear()
        self.questions.end_all(Outcome(Status.CANCELLED, b""))
        self.claims.lose_all()
        self.named.end_all()
        if self.welcomed:
            self._connection.send(Goodbye(), now)

    # ---- greetings -------------------------------------------------------------------------------------------------

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        connection, uploads = self._connection, self._outgoing.uploads
        if not connection.accepts(welcome):
            return
        is_known_elsewhere = bool(connection.epoch) and not welcome.resumed
        unheard = connection.enter(welcome, now)
        if welcome.resumed:
            uploads.resume(welcome.received, now)
        else:
            uploads.restart()
        self.claims.on_welcome(welcome.minor)
        self.named.on_welcome(welcome.minor)
        self._sender.takes_many = welcome.minor >= OBJECTS_STORED_SINCE_MINOR
        self.unstarted_cancels.on_welcome(welcome.minor, welcome.resumed)
        if is_known_elsewhere:
            self._state_again(unheard, welcome.minor)
        if self._clear_when_welcomed:
            self._clear_when_welcomed = False
            self._outgoing.waiting.appendleft(Clear())
        self.questions.on_welcome(welcome.minor)
        self.unsent_calls.on_welcome(welcome.minor, welcome.resumed)

    def _state_again(self, unheard: list[Body], minor: int) -> None:
        """Tell a scheduler that knows nothing of this session about its objects, then about the tasks that an earlier
        scheduler had not finished, and about the cancels that it had not acknowledged, since agents may still have
        those tasks. ``unheard``: the messages that it did not receive. ``minor``: the version of the scheduler."""
        outgoing = self._outgoing
        self.submissions.end_graph()
        cancels = _cancelled_by([*unheard, *outgoing.urgent]) + outgoing.cancels
        waiting = [body for body in outgoing.waiting if isinstance(body, list)]
        outgoing.waiting.clear()
        outgoing.urgent = deque(self.questions.restart(outgoing.urgent))
        outgoing.urgent.extend(self.claims.restatements())
        outgoing.urgent.extend(self.named.restatements())
        outgoing.cancels, self._sender.cancels_due = cancels, None
        outgoing.releases.clear()
        self._definitions.sent.clear()
        self.objects.restart()
        self.large.restart()
        runs: list[TaskRun] = []
        for entry in self.ranges.values():
            if entry.left:
                self._definitions.define(entry.shape.function)
                runs.extend(restated_runs(entry))
        outgoing.waiting.extend(self._starting_agents.restatements(minor))
        outgoing.waiting.extend(self._definitions.restatements())
        outgoing.waiting.extend(Tasks(group, resubmitted=True) for group in split(runs))
        outgoing.waiting.extend(waiting)
        outgoing.waiting.extend(self.questions.repetitions())

    def _on_refused(self, refused: Refused, now: float) -> None:
        self._connection.refusal = refused.text
        self._give_up(refused.text, now)

    # ---- the end of everything -------------------------------------------------------------------------------------

    def _give_up(self, text: str, now: float) -> None:
        """Fail everything that is unfinished. A later request starts a new wait."""
        outcome = Outcome(DISCONNECTED, text.encode())
        self._end_all(outcome)
        self.questions.end_all(outcome)
        self._outgoing.urgent.clear()
        self.unsent_calls.repeat()
        if self.refusal:
            self.claims.lose_all(text)
            self.named.end_all(text)
        else:
            self.claims.give_up(outcome)
            self.named.disconnect(outcome)
        self._connection.restart_wait(now)
        self._clear_when_welcomed = bool(self._connection.epoch)

    def _end_all(self, outcome: Outcome) -> None:
        """End every task with ``outcome`` at once. Results that arrive later are dropped."""
        self.endings.end_all(self.submissions.take_open_runs(), outcome)
        self.unstarted_cancels.refuse_all()
        self.objects.clear()
        outgoing = self._outgoing
        outgoing.releases.clear()
        outgoing.cancels, self._sender.cancels_due = [], None
        outgoing.waiting.clear()
        self._definitions.sent.clear()

    def _on_output(self, output: Output, now: float) -> None:
        if output.warnings:
            self._outgoing.effects.append(IssueWarnings(output.warnings))
        if output.data:
            self._outgoing.effects.append(WriteOutput(output.stream, output.data))

    def _on_software(self, software: HostSoftware, now: float) -> None:
        self._outgoing.effects.append(CompareSoftware(software, self._has_environment))


def _cancelled_by(bodies: list[Any]) -> list[int]:
    cancels = [body for body in bodies if isinstance(body, Cancel) and not body.unstarted_only]
    return [task for body in cancels for column in body.columns for task in column.tasks]
