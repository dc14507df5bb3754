"""AgentCore: one host's part in the cluster, without the processes in which its tasks run.

Tasks arrive, wait for their objects, wait for a process and run; results are kept until the scheduler says that their
clients have them. The core is the state of the agent and these rules, each with the state that no one else needs:

| Rules | Subject |
|---|---|
| ``hot_path`` | messages of tasks, results, the end of each turn |
| ``joining`` | from a new connection to Welcome |
| ``accepted_tasks`` | tasks that need more than their function; cancels and withdrawals |
| ``needed_objects`` | objects that tasks here need |
| ``requested_objects`` | objects that others have requested |
| ``heartbeat``, ``host_reports`` | what the scheduler hears of this host |
| ``count_check`` | counts that must agree with the tasks here |
| ``operator_requests`` | what operators and clients ask about the tasks of this host |
| ``draining`` | from the order to leave to the end |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import (
    Cancel,
    Challenge,
    Drain,
    DroppedTasks,
    EndProcess,
    HeartbeatEcho,
    Hello,
    KeepValues,
    MayLeave,
    ObjectChunk,
    ObjectCredit,
    ObjectLocations,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    Output,
    OutputRequest,
    ProfileRequest,
    Refused,
    Relay,
    ResultsReleased,
    RunningTask,
    StackRequest,
    Stop,
    Welcome,
    WhoAreYou,
    Withdraw,
    Withdrawn,
    WorkerStatus,
)
from scaler_protocol.profile import ProfileTree
from scaler_worker.core.accepted_tasks import AcceptedTasks
from scaler_worker.core.columns import columns_of
from scaler_worker.core.count_check import CountCheck
from scaler_worker.core.draining import OrderlyLeave
from scaler_worker.core.effects import EndProfile, InstallPackages, ReadStack, SendNested
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.heartbeat import Heartbeats
from scaler_worker.core.host_reports import HostReports
from scaler_worker.core.hot_path import PING_SECONDS, SCHEDULER, AgentHotPath, send
from scaler_worker.core.joining import Joining
from scaler_worker.core.needed_objects import NeededObjects
from scaler_worker.core.operator_requests import OperatorRequests
from scaler_worker.core.requested_objects import RequestedObjects
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.state import AgentState

__all__ = ["SCHEDULER", "AgentCore"]

BAD_INPUT_CODE = 2


class AgentCore:
    """The part of an agent that does not depend on where its tasks run, which is the responsibility of its ``backend``.
    It hands the events of the shell, and the questions of the hot path (``AgentRules``), to its rules."""

    def __init__(
        self,
        settings: AgentSettings,
        hello: Hello,
        state: AgentState,
        backend: ExecutionBackend,
        now: float,
        handshake: PeerHandshake | None = None,
    ) -> None:
        """``hello``: the first message of a connection. ``handshake``: how the scheduler proves its identity; None:
        something else protects the connection."""
        self._state = state
        self._backend = backend
        self._client_output = backend.client_output
        self._heartbeats = Heartbeats(state)
        self._counts = CountCheck(state, backend)
        self._reports = HostReports(state)
        self._objects = NeededObjects(state, backend)
        self._requested = RequestedObjects(state)
        self._tasks = AcceptedTasks(state, backend, self._objects)
        self._operators = OperatorRequests(state, backend)
        self._leaving = OrderlyLeave(state, backend, settings.grace_seconds)
        self._joining = Joining(
            settings, hello, handshake or PeerHandshake(), state, backend, self._objects, self._reports,
            self._heartbeats, self._leaving, now,
        )  # fmt: skip
        self._connect_hot_path(AgentHotPath(state, backend, self, self._greetings(), self._handlers()))
        self._connect_rules()

    def _connect_hot_path(self, hot_path: AgentHotPath) -> None:
        self.turn, self.on_message = hot_path.turn, hot_path.on_message
        self.take_effects, self.next_deadline = hot_path.take_effects, hot_path.next_deadline

    def _connect_rules(self) -> None:
        """The events that one of the rules handles alone."""
        joining, leaving, objects = self._joining, self._leaving, self._objects
        self.on_connected, self.on_peer_lost, self.on_gap = joining.on_connected, joining.on_peer_lost, joining.on_gap
        self.on_key_refused, self.on_obstacle = joining.on_key_refused, joining.on_obstacle
        self.on_not_taken_in, self.end_report = joining.on_not_taken_in, joining.end_report
        self.stand_aside, self.rejoin = joining.stand_aside, joining.rejoin
        self.accept, self.refuse = self._tasks.accept, self._tasks.refuse
        self.on_store_status, self.on_store_lost = objects.on_store_status, objects.on_store_lost
        self.on_stored, self.on_not_stored = objects.on_stored, objects.on_not_stored
        self.on_stored_view = self._requested.on_stored_view
        self.on_packages_installed, self.on_packages_failed = objects.on_packages_installed, objects.on_packages_failed
        self.on_stack, self.on_profile = self._operators.on_stack, self._operators.on_profile
        self.on_software_read, self.on_logged = self._reports.on_software_read, self._reports.on_logged
        self.ask_for_proof = self._heartbeats.ask_for_proof
        self.on_stop, self.on_termination_notice = leaving.on_stop, leaving.on_termination_notice
        self.advance_stop, self.give_back, self.exit = leaving.advance_stop, leaving.give_back, leaving.exit
        self.say_goodbye = leaving.say_goodbye
        self.release_output = self._client_output.release

    def _greetings(self) -> dict[type, Callable[[Any, float], None]]:
        """The messages that may come before the connection is established."""
        return {
            Welcome: self._joining.on_welcome,
            Challenge: self._joining.on_challenge,
            WhoAreYou: self._joining.on_who_are_you,
            Refused: self._joining.on_refused,
        }

    def _handlers(self) -> dict[type, Callable[[Any, float], None]]:
        """The messages of an established connection, apart from those of the hot path."""
        return {
            Cancel: self._tasks.on_cancel,
            DroppedTasks: self._joining.on_dropped_tasks,
            Withdraw: self._tasks.on_withdraw,
            ResultsReleased: self._tasks.on_results_released,
            HeartbeatEcho: self._heartbeats.on_echo,
            Relay: self._on_relay,
            ObjectChunk: self._objects.on_object_chunk,
            ObjectRequest: self._requested.on_object_request,
            ObjectCredit: self._requested.on_object_credit,
            ObjectMissing: self._objects.on_object_missing,
            ObjectLocations: self._objects.on_object_locations,
            ObjectRelease: self._objects.on_object_release,
            KeepValues: self._objects.on_keep_values,
            MayLeave: self._leaving.on_may_leave,
            StackRequest: self._operators.on_stack_request,
            OutputRequest: self._operators.on_output_request,
            ProfileRequest: self._operators.on_profile_request,
            Stop: self._leaving.on_stop_message,
            Drain: self._leaving.on_drain,
            EndProcess: self._operators.on_end_process,
        }

    @property
    def stands_aside(self) -> bool:
        """The scheduler was told to give this agent no tasks, although it is not leaving."""
        return self._joining.stands_aside

    # ---- the output of tasks --------------------------------------------------------------------------------

    def on_output(self, number: int, sequence: int, stream: int, data: bytes, now: float) -> None:
        """A task has printed this, for its client."""
        named = self._backend.task_of(number, sequence)
        if named is not None:
            self._client_output.add(*named, stream, data)

    def on_warnings(self, number: int, sequence: int, data: bytes) -> None:
        """A task has raised warnings, which its client issues."""
        named = self._backend.task_of(number, sequence)
        if named is not None:
            self._client_output.add_warnings(*named, data)

    @property
    def is_full_of_output(self) -> bool:
        """Whether tasks that print for a client should wait."""
        return self._client_output.is_full

    def _on_relay(self, relay: Relay, now: float) -> None:
        self._state.outbox.add(SendNested(relay.session, relay.frames))

    # ---- reports ---------------------------------------------------------------------------------------------

    def report(
        self, cpu_percent: float, rss_bytes: int, rss_free_bytes: int, workers: tuple[WorkerStatus, ...], now: float,
        running_tasks: tuple[RunningTask, ...] = (), memory_limit_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Send a status report with these figures of the host."""
        self._operators.end_overdue_profiles(now)
        self._counts.on_report(now)
        queued = self._backend.queued
        self._heartbeats.report(
            cpu_percent, rss_bytes, rss_free_bytes, queued, workers, running_tasks, memory_limit_bytes, now
        )

    # ---- what the shell fails at -------------------------------------------------------------------------------

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

    # ---- time ------------------------------------------------------------------------------------------------

    def unusual_deadline(self, first: float | None) -> float | None:
        """Return the deadline while the agent is away or leaves."""
        deadlines = self._connected_deadlines() if self._state.welcomed else self._joining.deadlines()
        of_tasks = () if first is None else (first,)
        return min((*of_tasks, *deadlines, *self._leaving.deadlines()), default=None)

    def _connected_deadlines(self) -> Iterator[float]:
        yield self._state.sent_at + PING_SECONDS
        if self._state.acknowledge_at is not None:
            yield self._state.acknowledge_at

    def on_deadline(self, now: float) -> None:
        self.turn(now)
        self._backend.on_deadline(now)
        if self._state.welcomed:
            self._heartbeats.keep_alive(now, self._has_nothing())
        else:
            self._joining.on_deadline(now)

    def _has_nothing(self) -> bool:
        """Return whether the agent has no task, and nothing that a peer could still request."""
        state = self._state
        is_empty = not state.retained and state.objects.is_empty and not state.lent[0]
        return is_empty and self._backend.is_idle

    # ---- the end of a turn -----------------------------------------------------------------------------------

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
                send(self._state, envelope, now)
            self._state.unsent.clear()
        if self._state.rows.waiting:
            self._state.finished.extend(self._state.rows.take())

    def check(self) -> None:
        """Assert every invariant; for tests."""
        self._state.link.check()
        self._backend.check()
        assert not self._state.retained or max(self._state.retained) <= self._state.link.sent
        self._joining.check()
