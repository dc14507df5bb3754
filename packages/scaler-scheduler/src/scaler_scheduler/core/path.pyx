# cython: language_level=3
"""A task's way through the scheduler. See path.pyi for the contract."""

from libc.stdint cimport uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.allocator cimport Allocator
from scaler_scheduler.core.deliveries cimport Delivery
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.peers cimport AgentPeer, ClientPeer, Peer
from scaler_scheduler.core.queue_classes cimport QueueClass
from scaler_scheduler.core.run_records cimport MessageMemory, RunRecord
from scaler_scheduler.core.states cimport HELD, QUEUED

from scaler_protocol.effects import Send
from scaler_protocol.link import LinkGap
from scaler_protocol.messages import Envelope, Hello, Results, Tasks, WhoAreYou
from scaler_scheduler.core.coordination import on_results as end_requests_for_locks
from scaler_scheduler.core.dispatch import task_messages
from scaler_scheduler.core.settings import (
    CLIENT_ACKNOWLEDGEMENT_SECONDS,
    HOUSEKEEPING_PER_AGENT_SECONDS,
    HOUSEKEEPING_SECONDS,
)

cdef double ACKNOWLEDGEMENT_SECONDS = CLIENT_ACKNOWLEDGEMENT_SECONDS
cdef double HOUSE_SECONDS = HOUSEKEEPING_SECONDS
cdef double HOUSE_PER_AGENT_SECONDS = HOUSEKEEPING_PER_AGENT_SECONDS


cdef class Path:
    cdef readonly object settings
    cdef readonly dict clients
    cdef readonly dict agents
    cdef readonly dict functions
    cdef readonly dict function_loads
    cdef readonly dict serializers
    cdef readonly object totals
    cdef readonly Recorder events
    cdef readonly Allocator allocator
    cdef public bint is_stopping
    cdef readonly object _balancer
    cdef readonly object _lineage
    cdef readonly dict _touched
    cdef readonly dict _owing
    cdef readonly dict _waiting
    cdef readonly dict _cancelling
    cdef readonly dict _graph_clients
    cdef readonly dict _ignored
    cdef readonly list _effects
    cdef public object _next_tick_at
    cdef public object _acknowledge_at
    cdef public object _housekeeping_at
    cdef public object _quit_at
    cdef public object _warn_at
    cdef dict nested
    cdef dict lock_users
    cdef bint is_bounded
    cdef object options
    cdef QueueClass queue
    cdef bint is_graph

    def __init__(self, settings, totals, allocator, balancer, lineage, dict lock_users):
        self.settings = settings
        self.totals = totals
        self.events = totals.events
        self.allocator = allocator
        self._balancer = balancer
        self._lineage = lineage
        self.nested = lineage.children
        self.lock_users = lock_users
        self.is_bounded = settings.max_number_of_tasks_waiting >= 0
        self.clients, self.agents = {}, {}
        self.functions, self.function_loads, self.serializers = {}, {}, {}
        self._touched, self._owing, self._waiting, self._cancelling = {}, {}, {}, {}
        self._graph_clients, self._ignored, self._effects = {}, {}, []

    # ---- messages --------------------------------------------------------------------------------------------------

    def on_message(self, bytes peer, envelope, double now):
        cdef AgentPeer agent
        cdef ClientPeer client
        self.events.now = now
        body = envelope.body
        if type(body) is Hello:
            self._on_hello(peer, body, None, now)
            return
        agent = self.agents.get(peer)
        if agent is not None:
            self.from_agent(agent, envelope, body, now)
            return
        client = self.clients.get(peer)
        if client is not None and client.route is None:
            self.from_client(client, envelope, body, now)
        elif peer not in self._ignored:
            self._effects.append(Send(peer, Envelope(WhoAreYou())))

    def _on_client_message(self, ClientPeer client, envelope, double now):
        self.from_client(client, envelope, envelope.body, now)

    cdef from_client(self, ClientPeer client, envelope, body, double now):
        if not client.connected:
            self._answer(client.session, client.route, WhoAreYou(), now)
            return
        try:
            if not client.link.accept(envelope):
                return
        except LinkGap:
            client.is_broken = client.link.received == 0
            self._answer(client.session, client.route, WhoAreYou(), now)
            return
        if client.session not in self._owing and envelope.sequence:
            self.owe(client, now)
        if client.deliveries:
            self.arm_housekeeping(now)
        if type(body) is Tasks:
            self.on_tasks(client, body, now)
        else:
            self._on_client_body(client, body, now)

    cdef from_agent(self, AgentPeer agent, envelope, body, double now):
        sequence = envelope.sequence
        if not agent.connected or (not agent.attached and sequence > 1):
            self._effects.append(Send(agent.session, Envelope(WhoAreYou())))
            return
        agent.heard_at = now
        agent.excused_seconds = 0.0
        if agent.suspect:
            self._heard(agent, now)
        try:
            if not agent.link.accept(envelope):
                return
        except LinkGap:
            self._effects.append(Send(agent.session, Envelope(WhoAreYou())))
            return
        if sequence:
            self.arm_housekeeping(now)
        if type(body) is Results:
            self.on_results(agent, body, now)
        else:
            self._on_agent_body(agent, body, now)

    cdef owe(self, ClientPeer client, double now):
        self._owing[client.session] = client
        client.owing_since = now
        if self._acknowledge_at is None:
            self._acknowledge_at = now + ACKNOWLEDGEMENT_SECONDS

    def _arm_housekeeping(self, double now):
        self.arm_housekeeping(now)

    cdef arm_housekeeping(self, double now):
        if self._housekeeping_at is None:
            self._housekeeping_at = now + HOUSE_SECONDS + len(self.agents) * HOUSE_PER_AGENT_SECONDS

    # ---- tasks -----------------------------------------------------------------------------------------------------

    cdef on_tasks(self, ClientPeer client, body, double now):
        cdef list runs = body.runs
        cdef bint is_resubmitted = body.resubmitted
        cdef MessageMemory memory = None
        for run in runs:
            if run.session != client.session:
                self._expel(client, "A client may only submit tasks of its own session.", now)
                return
        if body.functions or body.serializers:
            if not self._define_all(client, body, now):
                return
        if body.parent is not None:
            self._adopt(client, body.parent)
        if runs:
            memory = MessageMemory(runs[0].frame_bytes)
        for run in runs:
            if not self.enter(client, run, memory, is_resubmitted, now):
                return
        if is_resubmitted:
            self._on_resubmitted(client, now)
        if client.parent is not None and self._is_stopped(client.parent):
            self._stop_nested(client, now)

    cdef bint enter(self, ClientPeer client, run, MessageMemory memory, bint is_resubmitted, double now) except -1:
        """False: the client is expelled."""
        cdef int state
        cdef FunctionLoad load
        cdef RunRecord record
        if <uint64_t> run.first_task < client.table.next_task:
            return self._on_used_numbers(client, run, now)
        options = run.options
        if client.depth and options.depth < client.depth:
            run = run.with_options(self._deepened(options, client.depth))
            options = run.options
        if options is not self.options:  # runs of one kind come in rows
            self.options, self.queue, self.is_graph = options, self._queue_for(options), options.graph > 0
        function = run.function
        load = self.function_loads.get(function)
        if load is None:
            load = self.function_loads[function] = FunctionLoad(function, run.function_name)
        record = RunRecord(run, load, self.queue, memory)
        if self.is_graph:
            self._enter_graph(client, record, is_resubmitted, now)
            return True
        state = HELD if is_resubmitted else self._entry_state(client, record) if self.is_bounded else QUEUED
        client.table.append(record, state)
        if state == QUEUED:
            self.queue.push(client, client.table, record.priority, record.first, record.stop)
        else:
            self._set_aside(client, record, state, now)
        return True

    def _forget_queue(self):
        """Queues were dropped, perhaps the one of the last run."""
        self.options = None

    # ---- results ---------------------------------------------------------------------------------------------------

    cdef on_results(self, AgentPeer agent, body, double now):
        cdef Delivery delivery = Delivery(agent, agent.link.received)
        delivery.hold()
        for run in <list> body.runs:
            self.accept(agent, run, delivery, now)
        delivery.let_go()
        agent.load.progress_at = now
        self.allocator.offer(agent)

    def _accept(self, AgentPeer agent, run, Delivery delivery, double now):
        self.accept(agent, run, delivery, now)

    cdef accept(self, AgentPeer agent, run, Delivery delivery, double now):
        cdef ClientPeer client = self.clients.get(run.session)
        if self.lock_users:
            end_requests_for_locks(self, run, now)
        if client is None:
            self._accept_of_nobody(agent, run, delivery, now)
            return
        self._touched[client.session] = client
        if self.nested:
            self._stop_children_of_stopped(run, now)
        outcome = client.table.accept(run, agent.load)
        if outcome is None or outcome[0] is None:
            client.forward(run, delivery)
        elif outcome[0]:
            client.forward(run.select(outcome[0]), delivery)
        if outcome is not None:
            self._accept_others(client, agent, run, delivery, outcome, now)

    # ---- the end of a drain ----------------------------------------------------------------------------------------

    def take_effects(self, double now):
        cdef list effects
        if self._next_tick_at is not None and now >= <double> self._next_tick_at:
            self.on_deadline(now)  # messages that never cease do not put off what is due
        if self._graph_clients:
            self._spread_news(now)
        if self._waiting:
            self._admit_waiting(now)
        if not self.is_stopping:
            self.dispatch(now)
        if self._touched:
            self.forward_results(now)
        if self._housekeeping_at is not None and now >= <double> self._housekeeping_at:
            self._keep_house(now)
        if self._cancelling:
            self._send_cancels(now)
        if self._acknowledge_at is not None and now >= <double> self._acknowledge_at:
            self._acknowledge_clients(now)
        if self.is_stopping:
            self._end_when_stopped(now)
        if self.events.ends:
            self.events.flush()
        effects, self._effects = self._effects, []
        return effects

    cdef dispatch(self, double now):
        cdef AgentPeer agent
        for agent in self.allocate(now):
            try:
                self.hand_over(agent, now)
            except Exception as error:
                self._on_receiver_fault(agent, error, now)
        if len(self.allocator.agents) > 1 or self._balancer.next_at is not None:
            for agent, withdraw in self._balancer.balance(self.allocator.agents, self.allocator.free, now):
                self.send(agent, withdraw, now)

    cdef list allocate(self, double now):
        """The agents that were given something. One for which that raises may have lost what it was given."""
        try:
            return self.allocator.allocate(now)
        except Exception as error:
            if self.allocator.serving is None:
                raise
            self._on_receiver_fault(self.allocator.serving, error, now)
            return [agent for agent in self.allocator.agents.values() if agent.outbox]

    cdef hand_over(self, AgentPeer agent, double now):
        """What it was given, as messages."""
        cdef AgentLoad load = agent.load
        if load.queued() == 0 and now > load.progress_at:
            load.progress_at = now
        if len(agent.outbox) == 1 and is_plain(agent, agent.outbox[0]):
            runs, agent.outbox = agent.outbox, []
            self.send(agent, Tasks(runs), now)
            return
        for body in task_messages(agent, self.functions, self.serializers):
            self.send(agent, body, now)

    cdef forward_results(self, double now):
        cdef dict touched = self._touched
        cdef ClientPeer client
        self._touched = {}
        for client in touched.values():
            try:
                self.forward_to(client, now)
            except Exception as error:
                self._on_receiver_fault(client, error, now)
        if not self._owing:
            self._acknowledge_at = None

    cdef forward_to(self, ClientPeer client, double now):
        for body, deliveries, size in client.take_results():
            client.remember(self.send(client, body, now), deliveries, size)
            self._owing.pop(client.session, None)
        if client.is_orphan and client.table.unfinished == 0:
            self._remove_client(client, now)

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _send(self, Peer peer, body, double now):
        return self.send(peer, body, now)

    def _transmit(self, Peer peer, envelope, double now):
        self.transmit(peer, envelope, now)

    cdef send(self, Peer peer, body, double now):
        envelope = peer.link.wrap(body)
        self.transmit(peer, envelope, now)
        return envelope

    cdef transmit(self, Peer peer, envelope, double now):
        peer.sent_at = now
        if peer.withheld is not None:
            envelope.acknowledged = min(envelope.acknowledged, peer.withheld)
        if not peer.connected:
            return
        if peer.route is None:
            self._effects.append(Send(peer.session, envelope))
        else:
            self._relay(peer.session, peer.route, envelope, now)

    # ---- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self):
        deadline = self._next_tick_at
        for time in (
            self._acknowledge_at, self._housekeeping_at, self._quit_at, self._warn_at, self._balancer.next_at,
            self.allocator.next_at,
        ):
            if time is not None and (deadline is None or <double> time < <double> deadline):
                deadline = time
        return deadline


cdef bint is_plain(AgentPeer agent, run):
    """Nothing need go with it: a message of its own."""
    return run.function in agent.known and not run.serializer
