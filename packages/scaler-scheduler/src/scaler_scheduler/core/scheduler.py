"""The scheduler's core: takes in messages, decides, and says what is to be sent.

The path of a task: ``Tasks`` from a client enters its table and the run queue (Cython, per run); ``take_effects`` allocates once per
drain; ``Results`` are checked against the table (Cython, per run) and forwarded as they are. Everything here is per message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scaler_protocol import codec
from scaler_protocol.codec import ResultRun
from scaler_protocol.handshake import refusal_for
from scaler_protocol.link import LinkGap
from scaler_protocol.messages import (
    Acknowledgement,
    AgentAttach,
    Blocked,
    Body,
    Cancel,
    Clear,
    Envelope,
    ExplainRequest,
    FunctionDefinition,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    Hello,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    Output,
    Ping,
    RefusalReason,
    Refused,
    Relay,
    RelayClosed,
    Results,
    ResultsReleased,
    Role,
    ShutdownReply,
    ShutdownRequest,
    Status,
    Stop,
    TaskColumn,
    TaskOptions,
    Tasks,
    Welcome,
    WhoAreYou,
    Withdrawn,
)
from scaler_protocol.monitor.messages import Snapshot

from scaler_scheduler.core import explanation, snapshot
from scaler_scheduler.core.agents import Agent, demand_of
from scaler_scheduler.core.allocator import Allocator
from scaler_scheduler.core.balancer import Balancer
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.dispatch import task_messages
from scaler_scheduler.core.effects import ClosePeer, Effect, Log, Quit, Send
from scaler_scheduler.core.objects import UPLOAD_NUMBER, ObjectStore
from scaler_scheduler.core.settings import (
    ALIVE_SECONDS,
    HOLD_SECONDS,
    PING_SECONDS,
    RECONNECT_SECONDS,
    HOUSEKEEPING_PER_AGENT_SECONDS,
    HOUSEKEEPING_SECONDS,
    STOP_SECONDS,
    SUSPECT_SECONDS,
    TICK_SECONDS,
    Settings,
)
from scaler_scheduler.core.states import DEATHS_LIMIT, LOSSES_LIMIT, TaskState
from scaler_scheduler.core.tasks import FunctionLoad, RunRecord, Totals
from scaler_scheduler.core.unclaimed import Unclaimed

PROTECTED_TEXT = "Scheduler is in protected mode. Can't shutdown"
LOST_TEXT = "The worker that had this task was lost."
_IGNORED_LIMIT = 10_000


class SchedulerCore:
    """One scheduler. See ``states`` for what every message does to a task in every state."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.settings = settings
        self.started_at = now
        self.clients: dict[bytes, Client] = {}
        self.agents: dict[bytes, Agent] = {}
        self.agent_by_index: dict[int, Agent] = {}
        self.functions: dict[bytes, FunctionDefinition] = {}
        self.function_loads: dict[bytes, FunctionLoad] = {}
        self.function_users: dict[bytes, int] = {}
        self.serializers: dict[bytes, FunctionDefinition] = {}
        self.totals = Totals()
        self.allocator = Allocator()
        self.objects = ObjectStore()
        self.unclaimed = Unclaimed()
        self.is_stopping = False
        self._balancer = Balancer(settings.load_balance_seconds, settings.load_balance_trigger_times)
        self._effects: list[Effect] = []
        self._nested: dict[tuple[bytes, int], list[Client]] = {}
        self._touched: dict[bytes, Client] = {}
        self._owing: dict[bytes, Client] = {}
        self._waiting: dict[bytes, Client] = {}
        self._ignored: dict[bytes, bool] = {}
        self._options: dict[tuple[TaskOptions, int], TaskOptions] = {}
        self._next_agent_index = 0
        self._next_tick_at: float | None = None
        self._housekeeping_at: float | None = None
        self._quit_at: float | None = None
        self._has_quit = False
        self._shutdown_by: dict[bytes, bool] = {}

    # ---- the contract of every core --------------------------------------------------------------------------------

    def on_connected(self, peer: bytes, now: float) -> None:
        """Connections are silent: a peer exists from its Hello on."""

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None:
        """One message from the connection of ``peer``."""
        body = envelope.body
        if isinstance(body, Hello):
            self._on_hello(peer, body, None, now)
        elif (agent := self.agents.get(peer)) is not None:
            self._on_agent_message(agent, envelope, now)
        elif (client := self.clients.get(peer)) is not None and client.route is None:
            self._on_client_message(client, envelope, now)
        elif peer not in self._ignored:
            self._effects.append(Send(peer, Envelope(WhoAreYou())))

    def on_malformed(self, peer: bytes, text: str, now: float) -> None:
        """What came from the connection of ``peer`` is no message: its session is over."""
        if peer in self._ignored:
            return
        self._effects.append(Log("WARNING", f"A message from {peer.hex()[:8]} is malformed: {text}"))
        self._refuse(peer, Refused(RefusalReason.MALFORMED, f"The message is malformed: {text}"), None)
        self._end_peer(peer, now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        """The connection of ``peer`` ended. It may come back: clients within their timeout, agents almost at once."""
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
                agent.lost_at = now + RECONNECT_SECONDS
            self.allocator.offer(agent)
            self._arm(now)

    def on_stop(self, now: float, grace_seconds: float) -> None:
        """Hand out nothing more; end when what runs has finished, or after ``grace_seconds``."""
        self.is_stopping = True
        self._quit_at = now + grace_seconds

    def on_deadline(self, now: float) -> None:
        """Time passed: look at all that is timed and due."""
        if self._next_tick_at is not None and now >= self._next_tick_at:
            self._next_tick_at = None
            self._tick(now)
        if self._quit_at is not None and now >= self._quit_at:
            self._quit()

    def next_deadline(self) -> float | None:
        """When to call ``on_deadline`` and ``take_effects`` at the latest."""
        times = [
            time
            for time in (self._next_tick_at, self._housekeeping_at, self._quit_at, self._balancer.next_at)
            if time is not None
        ]
        return min(times, default=None)

    def take_effects(self, now: float) -> list[Effect]:
        """Finish the drain: admit, allocate, balance, forward, acknowledge. Then what the shell is to do, in order."""
        if self._waiting:
            self._admit_waiting()
        if not self.is_stopping:
            self._dispatch(now)
        if self._touched:
            self._forward_results(now)
        if self._housekeeping_at is not None and now >= self._housekeeping_at:
            self._keep_house(now)
        self._acknowledge(now)
        if self.is_stopping:
            self._end_when_stopped(now)
        effects, self._effects = self._effects, []
        return effects

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
                assert agent.load.load_us == 0, agent.load.load_us
        assert not assigned, assigned

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _send(self, peer: Client | Agent, body: Body, now: float) -> Envelope:
        envelope = peer.link.wrap(body)
        self._transmit(peer, envelope, now)
        return envelope

    def _transmit(self, peer: Client | Agent, envelope: Envelope, now: float) -> None:
        if isinstance(peer, Agent):
            peer.sent_at = now
        elif peer.withheld is not None:
            envelope.acknowledged = min(envelope.acknowledged, peer.withheld)
        if not peer.connected:
            return
        if peer.route is None:
            self._effects.append(Send(peer.session, envelope))
        else:
            self._relay(peer.session, peer.route, envelope, now)

    def _relay(self, session: bytes, route: bytes, envelope: Envelope, now: float) -> None:
        agent = self.agents.get(route)
        if agent is not None:
            self._send(agent, Relay(session, tuple(bytes(frame) for frame in codec.encode(envelope))), now)

    def _answer(self, session: bytes, route: bytes | None, body: Body, now: float) -> None:
        """An unnumbered answer to a session that may have no link."""
        if route is None:
            self._effects.append(Send(session, Envelope(body)))
        else:
            self._relay(session, route, Envelope(body), now)

    def _log(self, text: str, level: str = "INFO") -> None:
        self._effects.append(Log(level, text))

    def _arm(self, now: float) -> None:
        if self._next_tick_at is None:
            self._next_tick_at = now + TICK_SECONDS

    # ---- hello -----------------------------------------------------------------------------------------------------

    def _on_hello(self, peer: bytes, hello: Hello, route: bytes | None, now: float) -> None:
        refused = self._refusal(peer, hello, route)
        if refused is not None:
            self._refuse(peer, refused, route)
            self._log(f"Refused {peer.hex()[:8]}: {refused.text}", "WARNING")
            return
        self._ignored.pop(peer, None)
        self._arm(now)
        known = self.agents.get(peer) or self.clients.get(peer)
        if known is not None and self._may_resume(known, hello, route):
            self._resume(known, hello, now)
            return
        if known is not None:
            self._end_peer(peer, now)
        if hello.role == Role.WORK:
            self._new_agent(hello, now)
        else:
            self._new_client(hello, route, now)

    def _refusal(self, peer: bytes, hello: Hello, route: bytes | None) -> Refused | None:
        if hello.session != peer:
            return Refused(RefusalReason.SESSION, "The session in Hello is not the routing id of its connection.")
        if route is not None:
            if hello.role == Role.WORK:
                return Refused(RefusalReason.ROLE, "A nested session is a client's.")
            return None
        refused = refusal_for(hello, address=self.settings.address, token=self.settings.token)
        if refused is None and hello.role == Role.OBSERVE:
            return Refused(RefusalReason.ROLE, "Monitors connect to the monitor address.")
        return refused

    def _refuse(self, peer: bytes, refused: Refused, route: bytes | None) -> None:
        if route is None:
            self._effects.append(Send(peer, Envelope(refused)))
            self._effects.append(ClosePeer(peer))
        else:
            self._relay(peer, route, Envelope(refused), 0.0)
        self._ignore(peer)

    def _ignore(self, peer: bytes) -> None:
        """What else it sends before its next Hello is dropped without a word."""
        while len(self._ignored) >= _IGNORED_LIMIT:
            del self._ignored[next(iter(self._ignored))]
        self._ignored[peer] = True

    def _may_resume(self, known: Client | Agent, hello: Hello, route: bytes | None) -> bool:
        is_agent = isinstance(known, Agent)
        same_kind = is_agent == (hello.role == Role.WORK)
        if is_agent and not known.attached and known.link.received:
            return False
        return same_kind and hello.epoch == self.settings.epoch and known.route == route

    def _welcome(self, hello: Hello, received: int, resumed: bool) -> Welcome:
        settings = self.settings
        return Welcome(
            session=settings.session,
            epoch=settings.epoch,
            received=received,
            resumed=resumed,
            protected=settings.protected,
            distribution_version=settings.version,
            python_version=settings.python_version,
            number=hello.number,
        )

    def _resume(self, peer: Client | Agent, hello: Hello, now: float) -> None:
        peer.connected = True
        received = peer.link.received
        if isinstance(peer, Agent):
            peer.lost_at = None
            self._heard(peer, now)
            self.allocator.offer(peer)
        else:
            peer.gone_at = None
            received = min(received, peer.withheld) if peer.withheld is not None else received
        self._answer(peer.session, peer.route, self._welcome(hello, peer.link.received, True), now)
        for envelope in peer.link.resume(hello.received):
            self._transmit(peer, envelope, now)

    def _new_agent(self, hello: Hello, now: float) -> None:
        agent = Agent(hello, self._next_agent_index, now)
        self._next_agent_index += 1
        self.agents[agent.session] = agent
        self.agent_by_index[agent.index] = agent
        self._answer(agent.session, None, self._welcome(hello, 0, False), now)

    def _new_client(self, hello: Hello, route: bytes | None, now: float) -> None:
        client = Client(hello, route, self.totals)
        self.clients[client.session] = client
        if hello.parent_session:
            self._adopt(client, hello)
        self._answer(client.session, route, self._welcome(hello, 0, False), now)

    def _adopt(self, client: Client, hello: Hello) -> None:
        """A nested client: its tasks are deeper than its parent task, and end with it."""
        client.depth = 1
        parent = self.clients.get(hello.parent_session)
        known = parent.table.describe(hello.parent_task) if parent is not None else None
        if known is None:
            return
        client.depth = known[5].depth + 1
        client.parent = (hello.parent_session, hello.parent_task, hello.parent_attempt)
        self._nested.setdefault(client.parent[:2], []).append(client)

    # ---- from agents -----------------------------------------------------------------------------------------------

    def _heard(self, agent: Agent, now: float) -> None:
        agent.heard_at = now
        if agent.suspect:
            agent.suspect = False
            self._log(f"Agent {agent.title()} is back")
            self.allocator.offer(agent)

    def _on_agent_message(self, agent: Agent, envelope: Envelope, now: float) -> None:
        if not agent.connected or (not agent.attached and envelope.sequence > 1):
            self._effects.append(Send(agent.session, Envelope(WhoAreYou())))
            return
        self._heard(agent, now)
        try:
            if not agent.link.accept(envelope):
                return
        except LinkGap:
            self._effects.append(Send(agent.session, Envelope(WhoAreYou())))
            return
        if envelope.sequence:
            self._arm_housekeeping(now)
        handler = _AGENT_HANDLERS.get(type(envelope.body))
        if handler is not None:
            handler(self, agent, envelope.body, now)

    def _on_attach(self, agent: Agent, body: AgentAttach, now: float) -> None:
        agent.attach(body, self.settings.per_worker_queue_size, now)
        self.allocator.add(agent)
        self._log(f"Agent {agent.title()} joined with {agent.load.slots} workers")
        for column in body.holds:
            self._claim(agent, column, now)
        self.allocator.offer(agent)

    def _claim(self, agent: Agent, column: TaskColumn, now: float) -> None:
        client = self.clients.get(column.session)
        attempts = column.attempts or (1,) * len(column.tasks)
        if client is None:
            self.unclaimed.add_holds(agent, column.session, column.tasks, attempts, now + HOLD_SECONDS)
            self._arm(now)
            return
        stale, unknown = client.table.claim(column.tasks, attempts, agent.load)
        self._cancel_at(agent, column.session, column.tasks, attempts, stale)
        if unknown:
            tasks, attempts = _pick(column.tasks, unknown), _pick(attempts, unknown)
            self.unclaimed.add_holds(agent, column.session, tasks, attempts, now + HOLD_SECONDS)
            self._arm(now)

    def _cancel_at(self, agent: Agent, session: bytes, tasks, attempts, indices: Iterable[int]) -> None:
        chosen = list(indices)
        if chosen:
            agent.cancel(session, [tasks[index] for index in chosen], [attempts[index] for index in chosen])

    def _on_results(self, agent: Agent, body: Results, now: float) -> None:
        delivery = Delivery(agent, agent.link.received)
        delivery.hold()
        for run in body.runs:
            self._accept(agent, run, delivery, now)
        delivery.let_go()
        agent.progress_at = now
        self.allocator.offer(agent)

    def _accept(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
        client = self.clients.get(run.session)
        is_fresh = now < agent.attached_at + HOLD_SECONDS
        if client is None:
            if is_fresh:
                self._keep_results(agent, run, delivery, now)
            return
        self._touched[client.session] = client
        outcome = client.table.accept(run, agent.load)
        if outcome is None:
            client.forward(run, delivery)
            return
        forward, special, unknown = outcome
        if forward is None:
            client.forward(run, delivery)
        elif forward:
            client.forward(run.select(forward), delivery)
        if unknown and is_fresh:
            self._keep_results(agent, run.select(unknown), delivery, now)
        for index, task, what in special:
            _SPECIAL[what](self, client, agent, run, index, task, now)

    def _keep_results(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
        delivery.hold()
        self.unclaimed.add_results(agent, run, delivery, now + HOLD_SECONDS)
        self._arm(now)

    def _on_large(self, client: Client, agent: Agent, run, index: int, task: int, now: float) -> None:
        client.large[task] = now
        if task in client.fetching:
            self._send(agent, ObjectRequest(ObjectKey(client.session, task)), now)

    def _on_discard(self, client: Client, agent: Agent, run, index: int, task: int, now: float) -> None:
        client.table.finish(task, Status.CANCELLED)
        client.row(task, Status.CANCELLED, attempt=run.attempt(index))
        self._send(agent, ObjectRelease((ObjectKey(client.session, task),)), now)

    def _on_retry(self, client: Client, agent: Agent, run, index: int, task: int, now: float) -> None:
        record = client.table.describe(task)[5]
        failures = client.failures[task] = client.failures.get(task, 0) + 1
        self._end_children(client.session, task, now)
        if failures <= record.retries:
            self._requeue(client, task)
            return
        client.forget(task)
        client.table.finish(task, run.status(index))
        client.row(task, run.status(index), bytes(run.payload(index)), run.attempt(index))

    def _on_died(self, client: Client, agent: Agent, run, index: int, task: int, now: float) -> None:
        record = client.table.describe(task)[5]
        certificates = client.certificates.setdefault(task, [])
        certificates.append(bytes(run.payload(index)) or b"{}")
        self._end_children(client.session, task, now)
        if record.rerun and client.table.died(task) < DEATHS_LIMIT:
            self._requeue(client, task)
            return
        payload = b"[" + b",".join(certificates) + b"]"
        client.forget(task)
        client.table.finish(task, Status.PROCESSOR_DIED)
        client.row(task, Status.PROCESSOR_DIED, payload, run.attempt(index))

    def _requeue(self, client: Client, task: int) -> None:
        record = client.table.requeue(task)
        record.queue.push(client, client.table, record.priority, task, task + 1, True)

    def _push(self, client: Client, ranges: list, front: bool) -> None:
        for record, first, stop in reversed(ranges) if front else ranges:
            record.queue.push(client, client.table, record.priority, first, stop, front)

    def _on_withdrawn(self, agent: Agent, body: Withdrawn, now: float) -> None:
        given = 0
        for column in body.columns:
            given += len(column.tasks)
            client = self.clients.get(column.session)
            if client is None:
                continue
            ranges, cancelled = client.table.withdrawn(column.tasks, column.attempts, agent.load)
            self._push(client, ranges, True)
            self._tell_cancelled(client, cancelled)
        if agent.withdraw_pending:
            self._balancer.answered(agent, given, now)
        self.allocator.offer(agent)

    def _tell_cancelled(self, client: Client, tasks: list[int]) -> None:
        for task in tasks:
            client.forget(task)
            client.row(task, Status.CANCELLED)
        if tasks:
            self._touched[client.session] = client

    def _on_heartbeat(self, agent: Agent, body: Heartbeat, now: float) -> None:
        agent.heartbeat = body
        self._send(agent, HeartbeatEcho(body.sent_at), now)

    def _on_blocked(self, agent: Agent, body: Blocked, now: float) -> None:
        agent.load.lent = body.lent_slots
        agent.load.deepest = body.deepest if body.lent_slots else -1
        self.allocator.offer(agent)

    def _on_relay(self, agent: Agent, body: Relay, now: float) -> None:
        session = body.session
        try:
            inner = codec.decode(list(body.frames))
        except codec.MalformedMessage as error:
            self._refuse(session, Refused(RefusalReason.MALFORMED, f"The message is malformed: {error}"), agent.session)
            self._end_nested(agent, session, now)
            return
        client = self.clients.get(session)
        if isinstance(inner.body, Hello):
            if session in self.agents or (client is not None and client.route != agent.session):
                refused = Refused(RefusalReason.SESSION, "This session is connected elsewhere.")
                self._relay(session, agent.session, Envelope(refused), now)
            else:
                self._on_hello(session, inner.body, agent.session, now)
        elif client is not None and client.route == agent.session:
            self._on_client_message(client, inner, now)
        elif session not in self._ignored:
            self._relay(session, agent.session, Envelope(WhoAreYou()), now)

    def _end_nested(self, agent: Agent, session: bytes, now: float) -> None:
        client = self.clients.get(session)
        if client is not None and client.route == agent.session:
            self._end_client(client, now)

    def _on_relay_closed(self, agent: Agent, body: RelayClosed, now: float) -> None:
        client = self.clients.get(body.session)
        self._ignored.pop(body.session, None)
        if client is not None and client.route == agent.session:
            self._orphan(client, now)

    def _orphan(self, client: Client, now: float) -> None:
        """Nobody listens to a nested client's session any more. Its tasks go on as its root client's, until they are done
        or the parent turns out to have died."""
        client.connected = False
        client.is_orphan = True
        client.drop_deliveries()
        if client.parent is None or client.table.unfinished == 0:
            self._end_client(client, now)

    def _on_agent_goodbye(self, agent: Agent, body: Goodbye, now: float) -> None:
        self._log(f"Agent {agent.title()} left")
        self._send_acknowledgement(agent, now)
        self._ignore(agent.session)
        self._lose_agent(agent, now, blameless=True)

    def _on_agent_chunk(self, agent: Agent, body: ObjectChunk | ObjectMissing, now: float) -> None:
        """A large result on its way to its client, or the news that it is gone; nothing is kept here."""
        client = self.clients.get(body.key.owner)
        if client is not None and client.is_reachable:
            self._send(client, body, now)

    def _on_agent_request(self, agent: Agent, body: ObjectRequest, now: float) -> None:
        key = body.key
        expected = key.owner in self.clients or key.owner in self.functions or key.owner in self.serializers
        self._send_all(self.objects.on_request(agent.session, key, expected), now)

    def _on_agent_credit(self, agent: Agent, body: ObjectCredit, now: float) -> None:
        self._send_all(self.objects.on_credit(agent.session, body), now)

    def _send_all(self, replies: list, now: float) -> None:
        for session, body in replies:
            peer = self.agents.get(session) or self.clients.get(session)
            if peer is not None:
                self._send(peer, body, now)

    def _on_output(self, agent: Agent, body: Output, now: float) -> None:
        client = self.clients.get(body.session)
        if client is not None and client.is_reachable:
            self._send(client, body, now)

    # ---- an agent ends ---------------------------------------------------------------------------------------------

    def _lose_agent(self, agent: Agent, now: float, blameless: bool = False) -> None:
        """It is gone for good: what it had is queued again, sessions that came through it are cut off."""
        del self.agents[agent.session]
        del self.agent_by_index[agent.index]
        agent.connected = False
        self.allocator.remove(agent)
        self.objects.forget_agent(agent.session)
        self.unclaimed.forget_agent(agent)
        nested = [client for client in self.clients.values() if client.route == agent.session]
        for client in list(self.clients.values()):
            self._take_from(client, agent, blameless, now)
        for client in nested:
            if client.session in self.clients:
                self._orphan(client, now)

    def _take_from(self, client: Client, agent: Agent, blameless: bool, now: float) -> None:
        if client.session not in self.clients:
            return
        ranges, died, cancelled = client.table.lose(agent.index, blameless, LOSSES_LIMIT, Status.WORKER_DIED)
        self._push(client, ranges, True)
        self._tell_cancelled(client, cancelled)
        for task in died:
            client.forget(task)
            client.row(task, Status.WORKER_DIED, LOST_TEXT.encode())
            self._touched[client.session] = client
        for _, first, stop in ranges:
            for task in client.large and [task for task in client.large if first <= task < stop]:
                del client.large[task]
        if self._nested:
            self._end_stale_children(client, now)

    # ---- from clients ----------------------------------------------------------------------------------------------

    def _on_client_message(self, client: Client, envelope: Envelope, now: float) -> None:
        if not client.connected:
            self._answer(client.session, client.route, WhoAreYou(), now)
            return
        try:
            if not client.link.accept(envelope):
                return
        except LinkGap:
            self._answer(client.session, client.route, WhoAreYou(), now)
            return
        if envelope.sequence:
            self._owing[client.session] = client
        if client.deliveries:
            self._arm_housekeeping(now)
        handler = _CLIENT_HANDLERS.get(type(envelope.body))
        if handler is not None:
            handler(self, client, envelope.body, now)

    def _on_tasks(self, client: Client, body: Tasks, now: float) -> None:
        if any(run.session != client.session for run in body.runs):
            self._expel(client, "A client may only submit tasks of its own session.", now)
            return
        for definition in body.functions:
            self._define(client, definition)
        for definition in body.serializers:
            self.serializers[definition.digest] = definition
        for run in body.runs:
            self._enter(client, run, body.resubmitted, client.link.received, now)
        if body.resubmitted:
            self._match_unclaimed(client, now)

    def _define(self, client: Client, definition: FunctionDefinition) -> None:
        digest = definition.digest
        if digest in client.functions:
            return
        client.functions[digest] = True
        self.functions[digest] = definition
        self.function_users[digest] = self.function_users.get(digest, 0) + 1

    def _enter(self, client: Client, run, resubmitted: bool, sequence: int, now: float) -> None:
        options = run.options
        if options.depth < client.depth:
            run = run.with_options(self._deepened(options, client.depth))
            options = run.options
        load = self.function_loads.get(run.function)
        if load is None:
            load = self.function_loads[run.function] = FunctionLoad(run.function, run.function_name)
        demand = demand_of(options.capabilities) if options.capabilities else ()
        record = RunRecord(run, load, self.allocator.queue_class(demand, min(options.depth, 63)))
        state = self._entry_state(client, record, resubmitted)
        if not client.table.append(record, state):
            return
        if state == TaskState.QUEUED:
            record.queue.push(client, client.table, record.priority, record.first, record.stop)
        elif state == TaskState.HELD:
            client.held.append((record.first, record.stop))
            client.hold_until = now + HOLD_SECONDS
        else:
            self._wait(client, record, sequence)

    def _entry_state(self, client: Client, record: RunRecord, resubmitted: bool) -> TaskState:
        if resubmitted:
            return TaskState.HELD
        limit = self.settings.max_number_of_tasks_waiting
        if limit < 0:
            return TaskState.QUEUED
        if client.waiting or self.allocator.queued + record.stop - record.first > limit:
            return TaskState.WAITING
        return TaskState.QUEUED

    def _wait(self, client: Client, record: RunRecord, sequence: int) -> None:
        """The queue is full: the tasks wait, and the client is not told that they arrived."""
        client.waiting.append((record.first, record.stop))
        self._waiting[client.session] = client
        if client.withheld is None:
            client.withheld = max(0, sequence - 1)

    def _admit_waiting(self) -> None:
        for client in list(self._waiting.values()):
            while client.waiting:
                room = max(1, self.settings.max_number_of_tasks_waiting) - self.allocator.queued
                if room <= 0:
                    return
                first, stop = client.waiting.popleft()
                if stop - first > room:
                    client.waiting.appendleft((first + room, stop))
                    stop = first + room
                self._push(client, client.table.ready(first, stop), False)
            del self._waiting[client.session]
            client.withheld = None
            client.must_acknowledge = True
            self._owing[client.session] = client

    def _deepened(self, options: TaskOptions, depth: int) -> TaskOptions:
        key = (options, depth)
        if key not in self._options:
            if len(self._options) > 1000:
                self._options.clear()
            self._options[key] = replace(options, depth=depth)
        return self._options[key]

    def _match_unclaimed(self, client: Client, now: float) -> None:
        holds, results = self.unclaimed.take(client.session)
        for agent, tasks, attempts in holds:
            self._claim(agent, TaskColumn(client.session, tasks, attempts), now)
            self.allocator.offer(agent)
        for agent, run, delivery in results:
            self._accept(agent, run, delivery, now)
            delivery.let_go()

    def _expel(self, client: Client, text: str, now: float) -> None:
        self._log(f"Client {client.session.hex()[:8]}: {text}", "WARNING")
        self._refuse(client.session, Refused(RefusalReason.MALFORMED, text), client.route)
        self._end_client(client, now)

    def _on_cancel(self, client: Client, body: Cancel, now: float) -> None:
        for column in body.columns:
            if column.session == client.session:
                self._cancel(client, column.tasks, now)

    def _cancel(self, client: Client, tasks: Iterable[int] | None, now: float) -> None:
        """Cancel some or (None) all tasks of a client, and the children of those that run."""
        ended, told, freed = client.table.cancel(tasks)
        for index, (numbers, attempts) in told.items():
            self._cancel_at(self.agent_by_index[index], client.session, numbers, attempts, range(len(numbers)))
            if self._nested:
                for task in numbers:
                    self._end_children(client.session, task, now)
        for index, numbers in freed.items():
            keys = tuple(ObjectKey(client.session, task) for task in numbers)
            self._send(self.agent_by_index[index], ObjectRelease(keys), now)
            for task in numbers:
                client.forget(task)
        self._tell_cancelled(client, ended)

    def _end_children(self, session: bytes, task: int, now: float) -> None:
        """The current attempt of a task was cancelled or died: so are the tasks it submitted."""
        for child in self._nested.get((session, task), [])[:]:
            self._end_client(child, now)

    def _end_stale_children(self, client: Client, now: float) -> None:
        for (session, task), children in list(self._nested.items()):
            known = client.table.describe(task) if session == client.session else None
            for child in children[:]:
                if known is not None and known[1] != child.parent[2]:
                    self._end_client(child, now)

    def _on_clear(self, client: Client, body: Clear, now: float) -> None:
        self._cancel(client, None, now)
        client.waiting.clear()
        client.held.clear()
        for key in list(client.objects):
            self._release_object(client, key, now)

    def _on_goodbye(self, client: Client, body: Goodbye, now: float) -> None:
        self._send_acknowledgement(client, now)
        self._ignore(client.session)
        self._end_client(client, now)

    def _on_client_chunk(self, client: Client, body: ObjectChunk, now: float) -> None:
        key = body.key
        if key.owner in self.clients and key.owner != client.session:
            self._expel(client, "A client may only upload objects of its own session.", now)
            return
        client.objects[key] = True
        self._send_all(self.objects.on_chunk(client.session, body), now)

    def _on_client_request(self, client: Client, body: ObjectRequest, now: float) -> None:
        key = body.key
        agent = self._result_holder(client, key)
        if agent is not None:
            client.fetching[key.number] = True
            self._send(agent, body, now)
        elif key.owner == client.session and client.table.state(key.number) != TaskState.ENDED:
            client.fetching[key.number] = True
        else:
            self._send(client, ObjectMissing(key, "The result is not there any more."), now)

    def _on_client_credit(self, client: Client, body: ObjectCredit, now: float) -> None:
        agent = self._result_holder(client, body.key)
        if agent is not None:
            self._send(agent, body, now)

    def _result_holder(self, client: Client, key: ObjectKey) -> Agent | None:
        if key.owner != client.session or key.number >= UPLOAD_NUMBER:
            return None
        known = client.table.describe(key.number)
        if known is None or known[0] != TaskState.DONE_LARGE:
            return None
        return self.agent_by_index.get(known[2])

    def _on_client_release(self, client: Client, body: ObjectRelease, now: float) -> None:
        results = []
        for key in body.keys:
            if key.owner == client.session and key.number < UPLOAD_NUMBER:
                results.append(key.number)
            else:
                self._release_object(client, key, now)
        if results:
            self._cancel(client, results, now)

    def _release_object(self, client: Client, key: ObjectKey, now: float) -> None:
        client.objects.pop(key, None)
        stored = self.objects.release(client.session, key)
        if stored is None:
            return
        for session in stored.holders:
            agent = self.agents.get(session)
            if agent is None:
                continue
            if session in stored.readers:
                self._send(agent, ObjectMissing(key, "Its owner has dropped it."), now)
            self._send(agent, ObjectRelease((key,)), now)

    def _on_explain(self, client: Client, body: ExplainRequest, now: float) -> None:
        task = body.task
        self._send(client, explanation.answer(task, self.explain(client.session, task)), now)

    def explain(self, session: bytes, task: int) -> str:
        """Where a task is, and why it is not further."""
        return explanation.explain(self, session, task)

    def _on_shutdown(self, client: Client, body: ShutdownRequest, now: float) -> None:
        if self.settings.protected:
            self._send(client, ShutdownReply(False, PROTECTED_TEXT), now)
            return
        self._send(client, ShutdownReply(True), now)
        self._shutdown_by[client.session] = True
        self._log("Scheduler: shutdown asked for by a client")
        self.is_stopping = True
        self._quit_at = now + STOP_SECONDS
        for agent in self.agents.values():
            self._send(agent, Stop(), now)

    # ---- a client ends ---------------------------------------------------------------------------------------------

    def _end_peer(self, peer: bytes, now: float) -> None:
        if peer in self.agents:
            self._lose_agent(self.agents[peer], now)
        elif peer in self.clients:
            self._end_client(self.clients[peer], now)

    def _end_client(self, client: Client, now: float) -> None:
        """It left or is given up: its tasks are cancelled, its objects dropped. A cancelled task that an agent still has is
        remembered by a client that nobody listens to, until the agent answered."""
        client.drop_deliveries()
        client.is_orphan = True
        client.connected = False
        client.gone_at = None
        self._cancel(client, None, now)
        client.rows.clear()
        for key in list(client.objects):
            self._release_object(client, key, now)
        self._waiting.pop(client.session, None)
        self._detach(client)
        for (session, _), children in list(self._nested.items()):
            for child in children[:] if session == client.session else ():
                self._end_client(child, now)
        if client.table.unfinished == 0:
            self._remove_client(client, now)

    def _detach(self, client: Client) -> None:
        if client.parent is None:
            return
        siblings = self._nested.get(client.parent[:2], [])
        if client in siblings:
            siblings.remove(client)
        if not siblings:
            self._nested.pop(client.parent[:2], None)
        client.parent = None

    def _remove_client(self, client: Client, now: float) -> None:
        self.clients.pop(client.session, None)
        self._touched.pop(client.session, None)
        self._owing.pop(client.session, None)
        self._detach(client)
        for digest in client.functions:
            self._drop_function(digest, now)

    def _drop_function(self, digest: bytes, now: float) -> None:
        self.function_users[digest] -= 1
        if self.function_users[digest]:
            return
        del self.function_users[digest]
        self.functions.pop(digest, None)
        self.function_loads.pop(digest, None)
        released = ObjectRelease((ObjectKey(digest, 0),))
        for agent in self.agents.values():
            if digest in agent.known:
                agent.known.discard(digest)
                self._send(agent, released, now)

    # ---- once per drain --------------------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> None:
        given = self.allocator.allocate()
        for agent in given:
            agent.progress_at = max(agent.progress_at, now if agent.load.queued() == 0 else agent.progress_at)
            for body in task_messages(agent, self.functions, self.serializers):
                self._send(agent, body, now)
        for agent, withdraw in self._balancer.balance(self.allocator.agents, self.allocator.queued, now):
            self._send(agent, withdraw, now)

    def _forward_results(self, now: float) -> None:
        touched, self._touched = self._touched, {}
        for client in touched.values():
            for body, deliveries, size in client.take_results():
                client.sent(self._send(client, body, now), deliveries, size)
            if client.is_orphan and client.table.unfinished == 0:
                self._remove_client(client, now)

    def _arm_housekeeping(self, now: float) -> None:
        """What agents need not know at once is told a little later, in one message for many."""
        if self._housekeeping_at is None:
            self._housekeeping_at = now + HOUSEKEEPING_SECONDS + len(self.agents) * HOUSEKEEPING_PER_AGENT_SECONDS

    def _keep_house(self, now: float) -> None:
        self._housekeeping_at = None
        for agent in self.agents.values():
            if agent.releases:
                sequences, agent.releases = tuple(agent.releases), []
                self._send(agent, ResultsReleased(sequences), now)
            elif agent.link.owes_acknowledgement:
                self._send(agent, Acknowledgement(), now)

    def _acknowledge(self, now: float) -> None:
        """Cancels collected for agents, then acknowledgements to those who were sent nothing else."""
        for agent in self.agents.values() if self._has_cancels() else ():
            if agent.cancels:
                columns = tuple(TaskColumn(session, tuple(tasks), tuple(attempts))
                                for session, (tasks, attempts) in agent.cancels.items())
                agent.cancels = {}
                self._send(agent, Cancel(columns), now)
        if self._owing:
            owing, self._owing = self._owing, {}
            for client in owing.values():
                if client.link.owes_acknowledgement or client.must_acknowledge:
                    self._send_acknowledgement(client, now)

    def _has_cancels(self) -> bool:
        return any(agent.cancels for agent in self.agents.values())

    def _send_acknowledgement(self, peer: Client | Agent, now: float) -> None:
        if isinstance(peer, Client):
            peer.must_acknowledge = False
        self._send(peer, Acknowledgement(), now)

    # ---- timed -----------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        for agent in list(self.agents.values()):
            self._look_at_agent(agent, now)
        for client in list(self.clients.values()):
            self._look_at_client(client, now)
        self._expire_unclaimed(now)
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
        if agent.connected and now - agent.sent_at >= PING_SECONDS - TICK_SECONDS / 2:
            self._send(agent, Ping(), now)

    def _agent_timeout(self, agent: Agent) -> float:
        return self.settings.worker_timeout_seconds if agent.attached else min(10.0, self.settings.worker_timeout_seconds)

    def _look_at_client(self, client: Client, now: float) -> None:
        if client.gone_at is not None and now - client.gone_at >= self.settings.client_timeout_seconds:
            self._log(f"Client {client.session.hex()[:8]} is gone: its tasks are cancelled", "WARNING")
            self._end_client(client, now)
            return
        if client.hold_until is not None and now >= client.hold_until:
            client.hold_until = None
            held, client.held = client.held, []
            for first, stop in held:
                self._push(client, client.table.ready(first, stop), False)
        if client.large:
            limit = now - self.settings.object_retention_seconds
            expired = [task for task, done_at in client.large.items() if done_at <= limit]
            if expired:
                self._cancel(client, expired, now)
        if client.is_orphan and client.table.unfinished == 0:
            self._remove_client(client, now)

    def _expire_unclaimed(self, now: float) -> None:
        """The clients of these did not come back in time: agents stop and forget them."""
        holds, results = self.unclaimed.expire(now)
        for agent, session, tasks, attempts in holds:
            agent.cancel(session, list(tasks), list(attempts))
        for delivery in results:
            delivery.let_go()

    # ---- ending ----------------------------------------------------------------------------------------------------

    def _end_when_stopped(self, now: float) -> None:
        if self._shutdown_by:
            waiting = any(self.clients[session].link.in_flight for session in self._shutdown_by if session in self.clients)
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

    # ---- for people ------------------------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """What monitors show; message counts and the process's own figures are the shell's to add."""
        return snapshot.snapshot_of(self, now)


def _pick(values, indices: list[int]) -> tuple[int, ...]:
    return tuple(values[index] for index in indices)


_Handler = Callable[[SchedulerCore, object, Envelope, float], None]

_AGENT_HANDLERS: dict[type, _Handler] = {
    AgentAttach: SchedulerCore._on_attach,
    Results: SchedulerCore._on_results,
    Withdrawn: SchedulerCore._on_withdrawn,
    Heartbeat: SchedulerCore._on_heartbeat,
    Blocked: SchedulerCore._on_blocked,
    Relay: SchedulerCore._on_relay,
    RelayClosed: SchedulerCore._on_relay_closed,
    ObjectChunk: SchedulerCore._on_agent_chunk,
    ObjectMissing: SchedulerCore._on_agent_chunk,
    ObjectRequest: SchedulerCore._on_agent_request,
    ObjectCredit: SchedulerCore._on_agent_credit,
    Output: SchedulerCore._on_output,
    Goodbye: SchedulerCore._on_agent_goodbye,
}

_CLIENT_HANDLERS: dict[type, _Handler] = {
    Tasks: SchedulerCore._on_tasks,
    Cancel: SchedulerCore._on_cancel,
    Clear: SchedulerCore._on_clear,
    ObjectChunk: SchedulerCore._on_client_chunk,
    ObjectRequest: SchedulerCore._on_client_request,
    ObjectCredit: SchedulerCore._on_client_credit,
    ObjectRelease: SchedulerCore._on_client_release,
    ExplainRequest: SchedulerCore._on_explain,
    ShutdownRequest: SchedulerCore._on_shutdown,
    Goodbye: SchedulerCore._on_goodbye,
}

_SPECIAL = {
    "large": SchedulerCore._on_large,
    "discard": SchedulerCore._on_discard,
    "retry": SchedulerCore._on_retry,
    "died": SchedulerCore._on_died,
}
