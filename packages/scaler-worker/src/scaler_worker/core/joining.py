"""Joining the cluster: from a new connection to Welcome, again after each loss of the connection.

Each connection begins with Hello. A scheduler that knows this agent resumes: it gets the messages that it has not
received. One that does not (a new epoch) is told what is held here, and gets every unreleased result again. Hello is
repeated while no answer comes, and an agent that is away for too long ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scaler_protocol.effects import Log
from scaler_protocol.forgotten_tasks import ForgottenTasks
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link, LinkGap
from scaler_protocol.messages import (
    COPIES_SINCE_MINOR,
    STARTING_AGENTS_SINCE_MINOR,
    ActorsReady,
    AgentAttach,
    AllReported,
    Blocked,
    Body,
    Challenge,
    DroppedTasks,
    Envelope,
    Hello,
    ObjectKey,
    ObjectRequest,
    ObjectStored,
    RefusalReason,
    Refused,
    Welcome,
    WhoAreYou,
    Withdrawn,
)
from scaler_worker.core.draining import OrderlyLeave
from scaler_worker.core.effects import Reconnect, RenewNested
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.heartbeat import Heartbeats
from scaler_worker.core.host_reports import HostReports
from scaler_worker.core.hot_path import send
from scaler_worker.core.needed_objects import NO_STORE, NeededObjects
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.state import AgentState

HELLO_SECONDS = 1.0
HELLO_LIMIT_SECONDS = 8.0
KEY_REFUSED_SECONDS = 2.0
"""Seconds until it connects again after its key was refused."""

REPORTED_SESSIONS_LIMIT = 500
"""The clients whose dropped tasks it reports, the last ones: many agents may report at once."""

TELL_AFTER_SECONDS = 3.0
"""A scheduler that is away for longer is worth a line in the log: it does not merely start again."""


class Joining:
    def __init__(
        self,
        settings: AgentSettings,
        hello: Hello,
        handshake: PeerHandshake,
        state: AgentState,
        backend: ExecutionBackend,
        objects: NeededObjects,
        reports: HostReports,
        heartbeats: Heartbeats,
        leaving: OrderlyLeave,
        now: float,
    ) -> None:
        """``hello``: the first message of a connection; its epoch and received are filled in here."""
        self._settings = settings
        self._hello = hello
        self._handshake = handshake
        self._state = state
        self._backend = backend
        self._objects = objects
        self._reports = reports
        self._heartbeats = heartbeats
        self._leaving = leaving
        self._epoch = 0
        self._forgotten = ForgottenTasks(REPORTED_SESSIONS_LIMIT)
        self._connected = False
        self._obstacle = ""
        self._has_told_absence = False
        self._reconnect_at: float | None = None
        self._hello_again_at = now
        self._hello_again_seconds = HELLO_SECONDS
        self._away_since: float | None = now
        self.stands_aside = False
        """The scheduler was told to give this agent no tasks, although it is not leaving."""

    # ---- the connection --------------------------------------------------------------------------------------

    def on_connected(self, token: bytes, now: float) -> None:
        """The transport is connected (again): send Hello. ``token``: both ends prove that they know it."""
        self._connected = True
        self._handshake.token = token
        self._hello_again_seconds = HELLO_SECONDS
        self._say_hello(now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        """The connection is lost. The transport connects again; running tasks continue."""
        self._connected = False
        self._leave(now)

    def on_key_refused(self, text: str, now: float) -> None:
        """The scheduler refused this key. It may accept it later."""
        self._connected = False
        self._leave(now)
        self._note_obstacle(text)
        self._reconnect_at = now + KEY_REFUSED_SECONDS

    def on_obstacle(self, text: str, now: float) -> None:
        """The transport knows why it cannot connect. It keeps trying."""
        self._note_obstacle(text)

    def _note_obstacle(self, text: str) -> None:
        """Log the text once, until the scheduler has welcomed this agent."""
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
        send(self._state, Envelope(self._handshake.begin(hello)), now)

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

    def _leave(self, now: float) -> None:
        if self._away_since is None:
            self._away_since = now
        self._state.welcomed = False

    def on_not_taken_in(self, now: float) -> None:
        """A message of the scheduler was not processed completely: begin a new session, and report what is here."""
        self._epoch = 0
        self._say_hello(now)

    # ---- answers to Hello ------------------------------------------------------------------------------------

    def on_challenge(self, challenge: Challenge, now: float) -> None:
        proved = self._handshake.answer(challenge) if self._connected and not self._state.welcomed else None
        if proved is not None:
            self._hello_again_at = now + self._hello_again_seconds
            send(self._state, Envelope(proved), now)

    def on_who_are_you(self, question: WhoAreYou, now: float) -> None:
        if self._leaving.is_farewell:  # the scheduler has taken in the farewell and forgotten this agent
            self._leaving.exit_stopped()
        else:
            self._say_hello(now)

    def on_refused(self, refused: Refused, now: float) -> None:
        if refused.reason == RefusalReason.MALFORMED and self._epoch:
            self._state.outbox.add(Log("ERROR", f"The scheduler closed the session: {refused.text}"))
            self._epoch = 0
            self._say_hello(now)
            return
        self._leaving.exit(1, f"the scheduler has refused this worker: {refused.text}")

    def on_welcome(self, welcome: Welcome, now: float) -> None:
        verdict = self._handshake.judge(welcome)
        if self._state.welcomed or verdict == "late":
            return  # it answers an earlier Hello: another answer is on its way
        if verdict == "forged":
            self._note_obstacle(self._handshake.forged_text)
            self._leave_connection()
            return
        self._obstacle = ""
        self._away_since = None
        self._tell_return()
        self._state.welcomed = True
        self._heartbeats.on_welcome()
        self._state.scheduler_minor = welcome.minor
        if self._settings.uses_store:
            self._objects.join_store(welcome.cluster)
        self._state.lease.end()
        self._state.lease.heard(now)
        if welcome.resumed and welcome.epoch == self._epoch:
            self._resume(welcome.received, now)
        else:
            self._epoch = welcome.epoch
            self._start(now)

    def _resume(self, received: int, now: float) -> None:
        """The scheduler knows this agent: send what it has not received."""
        for envelope in self._state.link.resume(received):
            send(self._state, envelope, now)
        self._backend.client_output.release(received)
        self._reports.resume()

    def _start(self, now: float) -> None:
        """The scheduler does not know this agent: tell it what is here."""
        self._leaving.restart()
        self._state.link = Link()
        self._backend.client_output.restart()
        self._return_results()
        self._state.unsent[:] = self._holdings()
        self._state.outbox.extend(RenewNested(session) for session in self._state.nested.sessions())
        self._reports.restart()
        if self._heartbeats.last is not None:
            self._state.unsent.append(replace(self._heartbeats.last, sent_at=now))
        self._state.report_ends = True

    def end_report(self, now: float) -> None:
        """The scheduler has been sent everything that is here, results included."""
        self._state.report_ends = False
        if self._state.scheduler_minor >= STARTING_AGENTS_SINCE_MINOR:
            send(self._state, self._state.link.wrap(AllReported()), now)

    def on_dropped_tasks(self, body: DroppedTasks, now: float) -> None:
        """The next scheduler must know of these tasks, whose client is away."""
        self._forgotten.take_in(body)

    def _return_results(self) -> None:
        """Send every result that is not released again, before those that are not sent yet."""
        state = self._state
        unreleased = [run for runs in state.retained.values() for run in runs]
        state.retained.clear()
        state.finished[:0] = [*state.objects.held_results(), *unreleased]
        state.finished.extend(state.nodes.held_runs())

    def _holdings(self) -> Iterator[Body]:
        """The messages that say who this agent is and what it has."""
        state, settings = self._state, self._settings
        yield AgentAttach(
            settings.name, self._hello.host, self._hello.pid, settings.worker_names, settings.capabilities,
            tuple(self._backend.holds()), settings.manager,
        )  # fmt: skip
        if state.scheduler_minor >= STARTING_AGENTS_SINCE_MINOR:
            yield from self._forgotten.messages()
        if state.host_store is not None:
            yield state.host_store
        if state.store_status is not None:
            yield state.store_status
        store = state.host_store.store if state.host_store is not None else NO_STORE
        for key, size, is_stored in (*state.objects.held_uploads(), *self._copies()):
            yield ObjectStored(key, size, store if is_stored else NO_STORE)
        for key in state.packages.ask(state.objects.restart()):
            yield ObjectRequest(key)
        if state.lent[0]:
            yield Blocked(*state.lent)
        ready = state.actors.live_columns()
        if ready:
            yield ActorsReady(tuple(ready))
        if state.stop_at is not None or self.stands_aside:
            yield Withdrawn((), leaving=True)

    def _copies(self) -> Iterator[tuple[ObjectKey, int, bool]]:
        """The copies of results that were fetched. Values of nodes are reported as results."""
        if self._state.scheduler_minor >= COPIES_SINCE_MINOR:
            runs = self._state.nodes.held_runs()
            reported = {ObjectKey(run.session, task) for run in runs for task in run.task_column}
            yield from (copy for copy in self._state.objects.held_copies() if copy[0] not in reported)

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

    # ---- time ------------------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """Times at which an agent that is not welcomed must do something."""
        if self._away_since is not None:
            yield self._away_since + self._settings.death_timeout_seconds
            if self._has_absence_to_tell:
                yield self._away_since + TELL_AFTER_SECONDS
        if self._connected:
            yield self._hello_again_at
        if self._reconnect_at is not None:
            yield self._reconnect_at

    def on_deadline(self, now: float) -> None:
        """The agent is not welcomed: end, say hello again or connect again, if it is time."""
        self._tell_absence(now)
        timeout_seconds = self._settings.death_timeout_seconds
        if self._away_since is not None and now >= self._away_since + timeout_seconds:
            self._leaving.exit(1, f"no connection to the scheduler for {timeout_seconds:g} seconds")
        elif self._connected and now >= self._hello_again_at:
            self._say_hello_again(now)
        elif self._reconnect_at is not None and now >= self._reconnect_at:
            self._reconnect_at = None
            self._state.outbox.add(Reconnect())

    @property
    def _has_absence_to_tell(self) -> bool:
        return bool(self._settings.address) and not (self._has_told_absence or self._obstacle)

    def _tell_absence(self, now: float) -> None:
        if self._away_since is None or now < self._away_since + TELL_AFTER_SECONDS or not self._has_absence_to_tell:
            return
        self._has_told_absence = True
        address = self._settings.address
        text = f"Waiting for the scheduler at {address}: none answers there. Check with: scaler doctor {address}"
        self._state.outbox.add(Log("WARNING", text))

    def _tell_return(self) -> None:
        if self._has_told_absence:
            self._state.outbox.add(Log("INFO", f"The scheduler at {self._settings.address} answers."))
        self._has_told_absence = False

    def check(self) -> None:
        assert not (self._state.welcomed and not self._epoch)
