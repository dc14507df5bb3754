"""The scheduler's core: takes in messages, decides, and says what is to be sent.

The path of a task: ``Tasks`` from a client enters its table and the run queue (Cython, per run); ``take_effects``
allocates once per drain; ``Results`` are checked against the table (Cython, per run) and forwarded as they are.
Everything here is per message.
"""

from __future__ import annotations

from scaler_protocol.messages import (
    Acknowledgement,
    Cancel,
    Output,
    Ping,
    RefusalReason,
    Refused,
    ResultsReleased,
    TaskColumn,
)
from scaler_protocol.monitor.messages import Snapshot
from scaler_scheduler.core import snapshot
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.effects import Quit
from scaler_scheduler.core.from_agents import FromAgents
from scaler_scheduler.core.objects import ASK_ANOTHER_SECONDS
from scaler_scheduler.core.outcomes import held_values
from scaler_scheduler.core.settings import (
    ALIVE_SECONDS,
    ATTACH_SECONDS,
    CLIENT_ACKNOWLEDGEMENT_SECONDS,
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

    def _note_stall(self, now: float) -> None:
        if self._next_tick_at is not None and now - self._next_tick_at > STALL_SECONDS:
            self._stalled_at = now

    def on_stop(self, now: float, grace_seconds: float) -> None:
        """Hand out nothing more; end when what runs has finished, or after ``grace_seconds``."""
        self.is_stopping = True
        self._quit_at = now + grace_seconds

    def on_deadline(self, now: float) -> None:
        """Time passed: look at all that is timed and due."""
        self.events.now = now
        if self._next_tick_at is not None and now >= self._next_tick_at:
            self._note_stall(now)
            self._next_tick_at = None
            self._tick(now)
        if self._quit_at is not None and now >= self._quit_at:
            self._quit()
        if self._warn_at is not None and now >= self._warn_at:
            self._warn_of_repetitions(now)

    def check(self) -> None:
        """Assert every invariant; for tests."""
        queued: dict = {}
        assigned: dict[int, int] = {}
        for client in self.clients.values():
            client.table.check()
            client.link.check()
            for queue, number in client.table.queued_by_class().items():
                queued[queue] = queued.get(queue, 0) + number
            for index, number in client.table.assigned_by_agent().items():
                assigned[index] = assigned.get(index, 0) + number
        self.allocator.check(queued)
        for agent in self.agents.values():
            agent.link.check()
            assert agent.load.outstanding == assigned.pop(agent.index, 0), agent.title()
            if agent.load.outstanding == 0:
                assert agent.load.load_us == agent.load.moving_us == 0, (agent.load.load_us, agent.load.moving_us)
        assert not assigned, assigned

    def snapshot(self, now: float) -> Snapshot:
        """What monitors show; message counts and the process's own figures are the shell's to add."""
        return snapshot.snapshot_of(self, now)

    def _keep_house(self, now: float) -> None:
        self._housekeeping_at = None
        for agent in self.agents.values():
            if agent.releases:
                sequences, agent.releases = tuple(agent.releases), []
                self._send(agent, ResultsReleased(sequences), now)
            elif agent.link.owes_acknowledgement:
                self._send(agent, Acknowledgement(), now)

    def _send_cancels(self, now: float) -> None:
        """What was collected for agents in this drain."""
        for agent in self._cancelling.values():
            columns = tuple(
                TaskColumn(session, tuple(tasks), tuple(attempts))
                for session, (tasks, attempts) in agent.cancels.items()
            )
            agent.cancels = {}
            self._send(agent, Cancel(columns), now)
        self._cancelling.clear()

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
        for agent in list(self.agents.values()):
            self._look_at_agent(agent, now)
        for client in list(self.clients.values()):
            self._look_at_client(client, now)
        self._expire_unclaimed(now)
        if self.objects.unstated:
            self._send_all(self.objects.expire(now, self._stated_by), now)
        if self.objects.awaited:
            patience_seconds = max(self.settings.client_timeout_seconds, ASK_ANOTHER_SECONDS)
            self._send_all(self.objects.lose_patience(now, patience_seconds), now)
        self._keep_house(now)
        if self.agents or self.clients or self.unclaimed:
            self._arm(now)

    def _look_at_agent(self, agent: Agent, now: float) -> None:
        silent_seconds = now - agent.heard_at
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
            values = held_values(run)
            self._cancel_at(agent, run.session, run.task_column, run.attempt_column, values)
            self._refuse_large(agent, run, values, now)
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
