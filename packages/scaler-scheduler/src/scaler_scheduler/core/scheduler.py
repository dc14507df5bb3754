"""The scheduler's core: takes in messages, decides, and says what is to be sent.

The path of a task: ``Tasks`` from a client enters its table and the run queue (Cython, per run); ``take_effects``
allocates once per drain; ``Results`` are checked against the table (Cython, per run) and forwarded as they are.
Everything here is per message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scaler_protocol.messages import (
    Acknowledgement,
    Cancel,
    Output,
    Ping,
    RefusalReason,
    Refused,
    ResultsReleased,
)
from scaler_protocol.monitor.messages import Snapshot
from scaler_scheduler.core import audit, coordination, faults, limits, pauses, snapshot, stated_cancels
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.dispatch import in_messages
from scaler_scheduler.core.effects import Quit
from scaler_scheduler.core.from_agents import FromAgents
from scaler_scheduler.core.settings import (
    ALIVE_SECONDS,
    ATTACH_SECONDS,
    CLIENT_ACKNOWLEDGEMENT_SECONDS,
    PATIENCE_SECONDS,
    PING_SECONDS,
    RECONNECT_SECONDS,
    RELIEF_SECONDS,
    SHORT_TASK_US,
    STALL_RECONNECT_SECONDS,
    STALL_SECONDS,
    STOP_SECONDS,
    SUSPECT_SECONDS,
    TICK_SECONDS,
)
from scaler_scheduler.core.states import TaskState

_Peer = TypeVar("_Peer", Agent, Client)

RELEASES_PER_MESSAGE = 50_000


class SchedulerCore(FromAgents):
    """One scheduler. See ``states`` for what every message does to a task in every state."""

    def on_connected(self, peer: bytes, now: float) -> None:
        """Connections are silent: a peer exists from its Hello on."""

    def on_malformed(self, peer: bytes, text: str, now: float) -> None:
        """What came from the connection of ``peer`` is no message: its session is over."""
        if peer in self._ignored:
            return
        self._warn(self._malformed, f"A message from {peer.hex()[:8]} is malformed: {text}", now)
        self._refuse(peer, Refused(RefusalReason.MALFORMED, f"The message is malformed: {text}"), None)
        self._end_peer(peer, now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        """The connection of ``peer`` ended. It may come back: clients within their timeout, agents almost at once."""
        self.events.now = now
        self._ignored.pop(peer, None)
        client = self.clients.get(peer)
        if client is not None and client.connected and client.route is None:
            client.connected = False
            client.gone_at = now
            self._arm(now)
        agent = self.agents.get(peer)
        if agent is not None and agent.connected:
            agent.connected = False
            if now - agent.heard_at < ALIVE_SECONDS:
                agent.lost_at = now + (STALL_RECONNECT_SECONDS if self._has_stalled(now) else RECONNECT_SECONDS)
            self.allocator.offer(agent)
            self._arm(now)

    def _has_stalled(self, now: float) -> bool:
        """Whether the scheduler itself stood still just now: when its peers were last heard, it cannot say."""
        self._note_stall(now)
        return now - self._stalled_at < ALIVE_SECONDS

    def _note_stall(self, now: float) -> float:
        """How long it has stood still, if a tick is so late that it has."""
        late_seconds = 0.0 if self._next_tick_at is None else now - self._next_tick_at
        if late_seconds <= STALL_SECONDS:
            return 0.0
        self._stalled_at = now
        return late_seconds

    def on_stop(self, now: float, grace_seconds: float) -> None:
        """Hand out nothing more; end when what runs has finished, or after ``grace_seconds``."""
        self.is_stopping = True
        self._quit_at = now + grace_seconds

    def on_deadline(self, now: float) -> None:
        """Time passed: look at all that is timed and due."""
        self.events.now = now
        if self._next_tick_at is not None and now >= self._next_tick_at:
            paused_seconds = self._note_stall(now)
            if paused_seconds:
                pauses.put_off(self, paused_seconds, now)
            self._next_tick_at = None
            self._tick(now)
        if self._quit_at is not None and now >= self._quit_at:
            self._quit()
        if self._warn_at is not None and now >= self._warn_at:
            self._warn_of_repetitions(now)

    def on_fault(self, peer: bytes, kind: str, error: Exception, now: float) -> None:
        """A message of ``peer`` raised: it costs its sender the session."""
        faults.on_message(self, peer, kind, error, now)

    def on_unsendable(self, peer: bytes, error: Exception, now: float) -> None:
        """What was to be sent to ``peer`` could not be encoded."""
        known = self.agents.get(peer) or self.clients.get(peer)
        if known is not None:
            faults.on_receiver(self, known, error, now)

    def check(self) -> None:
        """Assert every invariant; for tests."""
        wrong = audit.find_wrong(self, False)
        assert not wrong, wrong
        self.objects.check()
        self._lineage.check(self.clients)
        for peer in (*self.clients.values(), *self.agents.values()):
            peer.link.check()
        self.coordination.check()

    def snapshot(self, now: float) -> Snapshot:
        """What monitors show; message counts and the process's own figures are the shell's to add."""
        return snapshot.snapshot_of(self, now)

    def _keep_house(self, now: float) -> None:
        self._housekeeping_at = None
        due = [agent for agent in self.agents.values() if agent.releases or agent.link.owes_acknowledgement]
        self._for_each(due, self._keep_house_of, now)

    def _keep_house_of(self, agent: Agent, now: float) -> None:
        if agent.releases:
            sequences, agent.releases = agent.releases, []
            for start in range(0, len(sequences), RELEASES_PER_MESSAGE):
                self._send(agent, ResultsReleased(tuple(sequences[start : start + RELEASES_PER_MESSAGE])), now)
        elif agent.link.owes_acknowledgement:
            self._send(agent, Acknowledgement(), now)

    def _for_each(self, peers: list[_Peer], step: Callable[[_Peer, float], None], now: float) -> None:
        """Those that are still there when it is their turn: one may end with another. One for which it raises pays for
        that."""
        for peer in peers:
            if (self.agents.get(peer.session) or self.clients.get(peer.session)) is peer:
                try:
                    step(peer, now)
                except Exception as error:
                    self._on_receiver_fault(peer, error, now)

    def _send_cancels(self, now: float) -> None:
        """What was collected for agents in this drain."""
        agents = list(self._cancelling.values())
        self._cancelling.clear()
        self._for_each(agents, self._send_cancels_to, now)

    def _send_cancels_to(self, agent: Agent, now: float) -> None:
        cancels, agent.cancels = agent.cancels, {}
        for columns in in_messages(cancels):
            self._send(agent, Cancel(columns), now)

    def _acknowledge_clients(self, now: float) -> None:
        """A client with a batch open waits for this; most often a result carries it within the delay."""
        self._acknowledge_at = None
        for client in list(self._owing.values()):
            due = client.owing_since + CLIENT_ACKNOWLEDGEMENT_SECONDS
            if now < due:
                self._acknowledge_at = due
                return
            del self._owing[client.session]
            if client.link.owes_acknowledgement:
                self._send_acknowledgement(client, now)

    def _tick(self, now: float) -> None:
        try:
            self._look_at_all(now)
        finally:
            if self.agents or self.clients or self.unclaimed:
                self._arm(now)

    def _look_at_all(self, now: float) -> None:
        self._for_each(list(self.agents.values()), self._look_at_agent, now)
        self._for_each(list(self.clients.values()), self._look_at_client, now)
        self._expire_unclaimed(now)
        coordination.on_tick(self, now)
        if self.objects.unstated:
            self._send_all(self.objects.expire(now, self._stated_by), now)
        if self.objects.awaited:
            patience_seconds = max(self.settings.client_timeout_seconds, PATIENCE_SECONDS)
            self._send_all(self.objects.lose_patience(now, patience_seconds), now)
        self._keep_house(now)
        limits.on_tick(self, now)
        audit.on_tick(self, now)

    def _look_at_agent(self, agent: Agent, now: float) -> None:
        silent_seconds = now - agent.heard_at - agent.excused_seconds
        if (agent.lost_at is not None and now >= agent.lost_at) or silent_seconds >= self._agent_timeout(agent):
            self._log(f"Agent {agent.title()} is lost", "WARNING")
            self._lose_agent(agent, now)
            return
        if silent_seconds >= SUSPECT_SECONDS and not agent.suspect:
            agent.suspect = True
            self._log(f"Agent {agent.title()} has been silent for {silent_seconds:.1f} s", "WARNING")
            self.allocator.offer(agent)
        if silent_seconds >= RELIEF_SECONDS and not agent.is_relieved:
            agent.is_relieved = True
            self._relieve(agent, now)
        if agent.connected and now - agent.sent_at >= PING_SECONDS - TICK_SECONDS / 2:
            self._send(agent, Ping(), now)

    def _relieve(self, agent: Agent, now: float) -> None:
        """Queue the short tasks of a silent agent again. Longer ones may be running there, and stay. When it is back it
        is told to cancel what it still has of them."""
        for client in list(self.clients.values()):
            tasks, attempts = client.table.short_tasks(agent.index, SHORT_TASK_US)
            if tasks:
                ranges, _ = client.table.withdrawn(tasks, attempts, agent.load)
                self._push(client, ranges, True)
                agent.cancel(client.session, tasks, attempts)

    def _agent_timeout(self, agent: Agent) -> float:
        limit = self.settings.worker_timeout_seconds
        return limit if agent.attached else min(limit, ATTACH_SECONDS)

    def _look_at_client(self, client: Client, now: float) -> None:
        if client.gone_at is not None and now - client.gone_at >= self.settings.client_timeout_seconds:
            self._log(f"Client {client.session.hex()[:8]} is gone: its tasks are cancelled", "WARNING")
            self._end_client(client, now)
            return
        if client.hold_until is not None and now >= client.hold_until:
            client.hold_until = None
            client.table.end_holds()
            held, client.held = client.held, []
            for first, stop in held:
                self._push(client, client.table.ready(first, stop), False)
        if client.output_left_out_bytes and client.connected and not client.is_paused:
            self._send(client, Output(client.session, 0, 1, client.take_note_of_left_out()), now)  # to its stdout
        stated_cancels.forget(client, now)
        if client.unwanted:
            self._drop_unwanted(client, now)
        for task in [task for task in client.fetching if client.table.state(task) == TaskState.ENDED]:
            client.forget(task)  # it ran again, and ended otherwise
        if client.large:
            limit = now - self.settings.object_retention_seconds
            expired = [task for task, at in client.large.items() if at <= limit and task not in client.fetching]
            if expired:
                self._cancel(client, expired, now)
        if client.is_orphan and client.table.unfinished == 0:
            self._remove_client(client, now)

    def _expire_unclaimed(self, now: float) -> None:
        """The clients of these did not come back in time: agents stop and forget them."""
        holds, results = self.unclaimed.expire(now)
        for agent, session, tasks, attempts in holds:
            agent.cancel(session, list(tasks), list(attempts))
        for agent, run, delivery in results:
            self._refuse_unknown(agent, run, range(run.count), now)
            delivery.let_go()

    def _end_when_stopped(self, now: float) -> None:
        if self._shutdown_by:
            waiting = any(
                self.clients[session].link.in_flight for session in self._shutdown_by if session in self.clients
            )
            if not self.agents and not waiting:
                self._quit()
        elif not any(agent.load.outstanding for agent in self.agents.values()):
            if not any(client.connected and client.link.in_flight for client in self.clients.values()):
                self._quit()
            else:
                self._quit_at = min(self._quit_at or now + STOP_SECONDS, now + STOP_SECONDS)

    def _quit(self) -> None:
        self._quit_at = None
        if not self._has_quit:
            self._has_quit = True
            self._effects.append(Quit())
