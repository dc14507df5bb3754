# cython: language_level=3
"""The path of ordinary tasks and results through the scheduler. See hot_path.pyi for the contract."""

from libc.stdint cimport uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.agents cimport Agent
from scaler_scheduler.core.clients cimport ClientPeer
from scaler_scheduler.core.deliveries cimport Delivery
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.outbox cimport answer, send_over
from scaler_scheduler.core.run_records cimport MessageMemory, RunRecord
from scaler_scheduler.core.fair_shares cimport ShareGroup
from scaler_scheduler.core.state cimport SchedulerState
from scaler_scheduler.core.states cimport ASSIGNED, CANCELLING, HELD, QUEUED
from scaler_scheduler.core.task_columns cimport TaskColumns
from scaler_scheduler.core.totals cimport Totals

from scaler_protocol.effects import Send
from scaler_protocol.link import LinkGap
from scaler_protocol.messages import Envelope, Hello, Relay, Results, Tasks, WhoAreYou
from scaler_scheduler.core import (
    actor_calls,
    cancellation,
    faults,
    graph_progress,
    heartbeat,
    hello,
    housekeeping,
    locks,
    maps,
    named_values,
    nested_sessions,
    queue_bound,
    results,
    shutdown,
    starting_agents,
    task_entry,
    tick,
)
from scaler_scheduler.core.dispatch import task_messages
from scaler_scheduler.core.message_rules import AGENT_RULES, CLIENT_RULES
from scaler_scheduler.core.settings import (
    CLIENT_ACKNOWLEDGEMENT_SECONDS,
    HOUSEKEEPING_PER_AGENT_SECONDS,
    HOUSEKEEPING_SECONDS,
    HOUSEKEEPING_WITH_TASKS_SECONDS,
)

cdef double ACKNOWLEDGEMENT_SECONDS = CLIENT_ACKNOWLEDGEMENT_SECONDS
cdef double HOUSE_SECONDS = HOUSEKEEPING_SECONDS
cdef double HOUSE_PER_AGENT_SECONDS = HOUSEKEEPING_PER_AGENT_SECONDS
cdef double EARLY_SECONDS = HOUSEKEEPING_SECONDS - HOUSEKEEPING_WITH_TASKS_SECONDS


# ---- messages ------------------------------------------------------------------------------------------------------


def on_message(SchedulerState state, bytes peer, envelope, double now):
    cdef Agent agent
    cdef ClientPeer client
    state.events.now = now
    body = envelope.body
    if type(body) is Hello:
        hello.on_hello(state, peer, body, None, now)
        return
    agent = state.agents.get(peer)
    if agent is not None:
        from_agent(state, agent, envelope, body, now)
        return
    client = state.clients.get(peer)
    if client is not None and client.route is None:
        from_client(state, client, envelope, body, now)
    elif peer not in state.ignored:
        state.effects.append(Send(peer, Envelope(WhoAreYou())))


cdef from_client(SchedulerState state, ClientPeer client, envelope, body, double now):
    if not client.connection.is_open:
        answer(state, client.session, client.route, WhoAreYou(), now)
        return
    try:
        if not client.link.accept(envelope):
            return
    except LinkGap:
        client.is_broken = client.link.received == 0
        answer(state, client.session, client.route, WhoAreYou(), now)
        return
    if client.session not in state.clients_to_acknowledge and envelope.sequence:
        owe_acknowledgement(state, client, now)
    if client.deliveries:
        arm_housekeeping(state, now)
    if type(body) is Tasks:
        on_tasks(state, client, body, now)
        return
    rule = CLIENT_RULES.get(type(body))
    if rule is not None:
        rule(state, client, body, now)


cdef from_agent(SchedulerState state, Agent agent, envelope, body, double now):
    sequence = envelope.sequence
    if not agent.connection.is_open or (not agent.attached and sequence > 1):
        state.effects.append(Send(agent.session, Envelope(WhoAreYou())))
        return
    agent.heard_at = now
    agent.excused_seconds = 0.0
    if agent.suspect:
        heartbeat.on_heard(state, agent, now)
    try:
        if not agent.link.accept(envelope):
            return
    except LinkGap:
        state.effects.append(Send(agent.session, Envelope(WhoAreYou())))
        return
    if sequence:
        arm_housekeeping(state, now)
    if type(body) is Results:
        on_results(state, agent, body, now)
    elif type(body) is Relay:
        on_relay(state, agent, body, now)
    else:
        rule = AGENT_RULES.get(type(body))
        if rule is not None:
            rule(state, agent, body, now)


cdef on_relay(SchedulerState state, Agent agent, body, double now):
    """A message of a nested client."""
    client, envelope = nested_sessions.unwrap(state, agent, body, now)
    if client is None:
        return
    try:
        from_client(state, client, envelope, envelope.body, now)
    except Exception as error:
        faults.on_nested_message(state, agent, body.session, type(envelope.body).__name__, error, now)


cdef owe_acknowledgement(SchedulerState state, ClientPeer client, double now):
    state.clients_to_acknowledge[client.session] = client
    client.owing_since = now
    if state.acknowledge_at is None:
        state.acknowledge_at = now + ACKNOWLEDGEMENT_SECONDS


cdef arm_housekeeping(SchedulerState state, double now):
    if state.housekeeping_at is None:
        state.housekeeping_at = now + HOUSE_SECONDS + len(state.agents) * HOUSE_PER_AGENT_SECONDS


# ---- tasks ---------------------------------------------------------------------------------------------------------


cdef on_tasks(SchedulerState state, ClientPeer client, body, double now):
    cdef list runs = body.runs
    cdef bint is_resubmitted = body.resubmitted
    cdef MessageMemory memory = None
    for run in runs:
        if run.session != client.session:
            cancellation.end_with_reason(state, client, "A client may only submit tasks of its own session.", now)
            return
    if body.functions or body.serializers:
        if not task_entry.define_all(state, client, body, now):
            return
    if body.parent is not None:
        task_entry.adopt(state, client, body.parent)
    if runs:
        memory = MessageMemory(runs[0].frame_bytes)
    for run in runs:
        if not enter(state, client, run, memory, is_resubmitted, now):
            return
    if is_resubmitted:
        for agent, run, delivery in task_entry.on_resubmitted(state, client, now):
            accept(state, agent, run, delivery, now)
            (<Delivery> delivery).release()
    elif not client.has_stated:  # what it has from before a restart comes first
        client.states(now)
    if client.parent is not None and cancellation.is_cancelled_or_replaced(state, client.parent):
        cancellation.cancel_nested(state, client, now)


cdef bint enter(
    SchedulerState state, ClientPeer client, run, MessageMemory memory, bint is_resubmitted, double now
) except -1:
    """Take in a run of tasks. False: its session has ended."""
    cdef int entry
    cdef FunctionLoad load
    cdef RunRecord record
    if <uint64_t> run.first_task < client.table.columns.next_task:
        return task_entry.on_used_numbers(state, client, run, now)
    options = run.options
    if client.depth and options.depth < client.depth:
        run = run.with_options(task_entry.deepened(state, options, client.depth))
        options = run.options
    if options is not state.last_options:  # successive runs usually have the same options
        state.last_queue = task_entry.queue_for(state, client, options)
        state.last_options = options if options.rerun else None  # other queues belong to one client
        state.last_is_special = options.graph > 0 or options.actor > 0
    function = run.function
    load = state.function_loads.get(function)
    if load is None:
        load = state.function_loads[function] = FunctionLoad(
            function, run.function_name, task_entry.module_of(state, function)
        )
        state.function_totals.begin(load)
    if state.last_is_special:
        return task_entry.enter_special(state, client, run, load, state.last_queue, memory, is_resubmitted, now)
    record = RunRecord(run, load, state.last_queue, memory)
    if options.hosts_actor:  # clients send each in a run of its own
        state.actors.made[client.session, record.first] = None
    if options.map_number:
        maps.join(client, record, is_resubmitted)
    entry = HELD if is_resubmitted else queue_bound.entry_state(state, client, record) if state.is_bounded else QUEUED
    client.table.columns.append(record, entry)
    if entry == QUEUED:
        state.last_queue.push(client, client.table, record.priority, record.first, record.stop)
    else:
        task_entry.set_aside(state, client, record, entry, now)
    return True


# ---- results -------------------------------------------------------------------------------------------------------


cdef on_results(SchedulerState state, Agent agent, body, double now):
    cdef Delivery delivery = Delivery(agent, agent.link.received)
    delivery.hold()
    for run in <list> body.runs:
        accept(state, agent, run, delivery, now)
    delivery.release()
    agent.load.progress_at = now
    state.placement.offer(agent)


cdef accept(SchedulerState state, Agent agent, run, Delivery delivery, double now):
    cdef ClientPeer client = state.clients.get(run.session)
    if state.lock_requests_by_task:
        locks.on_results(state, run, now)
    if state.named_requests_by_task:
        named_values.on_results(state, run, now)
    if client is None:
        results.accept_without_client(state, agent, run, delivery, now)
        return
    state.clients_with_results[client.session] = client
    if state.nested_clients:
        results.cancel_children_at_limits(state, agent, run, now)
    outcome = client.table.accept(run, agent.load)
    if outcome is None or outcome[0] is None:
        client.forward(run, delivery)
    elif outcome[0]:
        client.forward(run.select(outcome[0]), delivery)
    if outcome is not None:
        results.accept_others(state, client, agent, run, delivery, outcome, now)


# ---- the end of a turn ---------------------------------------------------------------------------------------------


def take_effects(SchedulerState state, double now):
    cdef list effects
    cdef bint sends_tasks
    cdef double early_seconds
    if state.next_tick_at is not None and now >= <double> state.next_tick_at:
        tick.on_deadline(state, now)  # timers fire although messages keep coming
    if state.graph_clients:
        graph_progress.on_turn_end(state, now)
    if state.clients_waiting:
        queue_bound.admit_waiting(state, now)
    sends_tasks = not state.is_stopping and dispatch(state, now)
    if state.clients_with_results:
        forward_results(state, now)
    if state.clients_to_part:
        starting_agents.part(state, now)
    early_seconds = EARLY_SECONDS if sends_tasks else 0.0
    if state.housekeeping_at is not None and now >= <double> state.housekeeping_at - early_seconds:
        housekeeping.keep_house(state, now)
    if state.agents_with_cancels:
        housekeeping.send_cancels(state, now)
    if state.acknowledge_at is not None and now >= <double> state.acknowledge_at:
        housekeeping.acknowledge_clients(state, now)
    if state.is_stopping:
        shutdown.quit_when_done(state, now)
    if state.events.ends:
        state.events.flush()
    effects, state.effects = state.effects, []
    return effects


cdef bint dispatch(SchedulerState state, double now) except -1:
    """Send tasks to agents that have room. Return whether there were any."""
    cdef Agent agent
    cdef list served
    if state.actors_waiting:
        send_all_tasks(state, actor_calls.route(state, now), now)
    if state.introductions:
        starting_agents.admit(state)
    served = allocate(state, now)
    if state.introductions and starting_agents.introduce(state, now):
        served += allocate(state, now)
    send_all_tasks(state, served, now)
    if (<Totals> state.totals).unfinished == 0:
        state.balancer.next_at = None  # an idle scheduler looks at no agents
    elif len(state.placement.agents) > 1 or state.balancer.next_at is not None:
        for agent, withdraw in state.balancer.balance(
            state.placement.agents, state.placement.free, state.placement.scarce_waiting(), now
        ):
            send_over(state, agent.connection, withdraw, now)
    return len(served) > 0


cdef send_all_tasks(SchedulerState state, list agents, double now):
    cdef Agent agent
    for agent in agents:
        try:
            send_tasks(state, agent, now)
        except Exception as error:
            faults.on_receiver(state, agent, error, now)


cdef list allocate(SchedulerState state, double now):
    """The agents that were given tasks. An agent for which this raises may have lost its tasks."""
    if state.shares.worker_limits:
        count_running(state)
    try:
        return state.placement.allocate(now)
    except Exception as error:
        if state.placement.serving is None:
            raise
        faults.on_receiver(state, state.placement.serving, error, now)
        return [agent for agent in state.placement.agents.values() if agent.outbox]


cdef count_running(SchedulerState state):
    """Count what agents have of each group: some groups are limited."""
    cdef ClientPeer client
    cdef ShareGroup group
    cdef TaskColumns columns
    for group in state.shares.groups.values():
        group.running = 0
    for client in state.clients.values():
        columns = client.table.columns
        columns.share.group.running += columns.counts[ASSIGNED] + columns.counts[CANCELLING]


cdef send_tasks(SchedulerState state, Agent agent, double now):
    """Send an agent the tasks that it was given."""
    cdef AgentLoad load = agent.load
    if load.queued() == 0 and now > load.progress_at:
        load.progress_at = now
    if len(agent.outbox) == 1 and is_plain(agent, agent.outbox[0]):
        runs, agent.outbox = agent.outbox, []
        send_over(state, agent.connection, Tasks(runs), now)
        return
    for body in task_messages(agent, state.functions, state.serializers):
        send_over(state, agent.connection, body, now)


cdef bint is_plain(Agent agent, run):
    """The run needs neither a function nor a serializer with it, and is a message of its own."""
    return run.function in agent.known and not run.serializer


cdef forward_results(SchedulerState state, double now):
    cdef dict clients = state.clients_with_results
    cdef ClientPeer client
    state.clients_with_results = {}
    for client in clients.values():
        try:
            forward_to(state, client, now)
        except Exception as error:
            faults.on_receiver(state, client, error, now)
    if not state.clients_to_acknowledge:
        state.acknowledge_at = None


cdef forward_to(SchedulerState state, ClientPeer client, double now):
    for body, deliveries, size in client.take_results():
        client.remember(send_over(state, client.connection, body, now), deliveries, size)
        state.clients_to_acknowledge.pop(client.session, None)
    if client.is_orphan and client.table.columns.unfinished == 0:
        cancellation.remove_client(state, client, now)


# ---- time ----------------------------------------------------------------------------------------------------------


def next_deadline(SchedulerState state):
    deadline = state.next_tick_at
    for time in (
        state.acknowledge_at, state.housekeeping_at, state.quit_at, state.warn_at, state.balancer.next_at,
        state.placement.next_at,
    ):
        if time is not None and (deadline is None or <double> time < <double> deadline):
            deadline = time
    return deadline
