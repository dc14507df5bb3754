"""The unusual properties of tasks that a client submits: definitions, nested clients, graphs, resubmission."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import Status, TaskName, TaskOptions, Tasks
from scaler_scheduler.core import (
    cancellation,
    claims,
    definitions,
    once_holds,
    queue_bound,
    recording,
    share_membership,
    starting_agents,
    task_endings,
    timers,
)
from scaler_scheduler.core.agents import Agent, demand_of
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.holds import Holds
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import MessageMemory, RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import DEPTH_LIMIT, TaskState

_DEEPENED_LIMIT = 1000


def define_all(state: SchedulerState, client: ClientPeer, body: Tasks, now: float) -> bool:
    """Store the functions and serializers that come with tasks. False: its session has ended."""
    if not all(definitions.is_named_by_content(each) for each in (*body.functions, *body.serializers)):
        cancellation.end_with_reason(
            state, client, "A function is not named by its digest, or is too large for a message.", now
        )
        return False
    for definition in body.functions:
        definitions.define(state, client, definition)
    for definition in body.serializers:
        definitions.define_serializer(state, client, definition)
    return True


def on_resubmitted(state: SchedulerState, client: ClientPeer, now: float) -> list[tuple[Agent, ResultRun, Delivery]]:
    """The client resubmits tasks after a restart. Returns the results that agents have kept for it."""
    client.states(now)
    return claims.on_client_returned(state, client, now)


def module_of(state: SchedulerState, function: bytes) -> str:
    """Return the module in which the function with this digest is defined; empty if it is not known."""
    definition = state.functions.get(function)
    return "" if definition is None else definition.module


def adopt(state: SchedulerState, client: ClientPeer, parent: TaskName) -> None:
    """A nested client lives in ``parent`` from now on: its tasks are deeper than that task, and stop with it. After a
    restart of the scheduler the nested client may be the first to mention the task."""
    state.lineage.move_up(client.session, client.parent)
    state.lineage.remove(client)
    if parent.session == client.session:
        return
    owner = state.clients.get(parent.session)
    known = owner.table.columns.describe(parent.task) if owner is not None else None
    client.depth = min(1 + (parent.depth if known is None else known.record.depth), DEPTH_LIMIT)
    state.lineage.add(client, parent)
    if owner is not None:
        share_membership.inherit(state, client, owner)
        recording.note_nested(state, client, client.table.columns.next_task)


def on_used_numbers(state: SchedulerState, client: ClientPeer, run: TaskRun, now: float) -> bool:
    """A run begins with a number that was used before. False: its session has ended. A client that was
    interrupted while it sent a message may send its runs twice, so a complete second copy is dropped. No other run may
    begin below a used number, because numbers only increase."""
    if run.first_task + run.count <= client.table.columns.next_task:
        return True
    cancellation.end_with_reason(
        state, client, f"Task numbers only increase, but {run.first_task} was used before.", now
    )
    return False


def set_aside(state: SchedulerState, client: ClientPeer, record: RunRecord, entry: int, now: float) -> None:
    """Tasks that are not queued yet: they wait for reports of agents, or for room in the queue."""
    if entry == TaskState.HELD:
        _holds_of(client, record).add(record.first, record.stop, now)
        if not record.rerun:
            once_holds.fail_dropped(state, client, record.first, record.stop)
    else:
        queue_bound.hold_back(state, client, record)


def _holds_of(client: ClientPeer, record: RunRecord) -> Holds:
    """Return what these tasks wait with. ``actor_calls`` decides on calls of actors."""
    return client.holds if record.rerun or record.is_call else client.once_holds


def enter_special(
    state: SchedulerState,
    client: ClientPeer,
    run: TaskRun,
    load: FunctionLoad,
    queue: QueueClass,
    memory: MessageMemory,
    resubmitted: bool,
    now: float,
) -> bool:
    """Enter nodes of a graph, or calls of an actor. False: its session has ended."""
    options = run.options
    if options.graph and not (options.actor or options.hosts_actor):
        enter_graph(state, client, RunRecord(run, load, queue, memory), resubmitted, now)
    elif options.graph or options.hosts_actor:
        cancellation.end_with_reason(
            state, client, "An actor, or a call of it, is neither a node of a graph nor both.", now
        )
        return False
    else:
        owner = options.actor_session or client.session
        queue = state.actors.queue_of(owner, options.actor)
        if owner != client.session:
            state.actors.called_by_others.setdefault((owner, options.actor), now)
        enter_calls(state, client, RunRecord(run, load, queue, memory), resubmitted, now)
    return True


def enter_calls(state: SchedulerState, client: ClientPeer, record: RunRecord, resubmitted: bool, now: float) -> None:
    """Enter calls of an actor. They pass the bound of the queue, because the actor has its slot."""
    client.has_called = True
    state.actors.note_depth(record.queue, record.depth)
    if resubmitted:
        client.table.columns.append(record, TaskState.HELD)
        set_aside(state, client, record, TaskState.HELD, now)
        state.actors.kept[record.queue] = None
        return
    client.table.columns.append(record, TaskState.QUEUED)
    record.queue.push(client, client.table, record.priority, record.first, record.stop)
    state.actors.waiting[record.queue] = None


def enter_graph(state: SchedulerState, client: ClientPeer, record: RunRecord, resubmitted: bool, now: float) -> None:
    """Enter nodes of a graph. They pass the bound of the queue, because their inputs may be behind it."""
    state.graph_clients[client.session] = client
    is_entered = client.table.nodes.append_graph(record, TaskState.HELD if resubmitted else TaskState.QUEUED)
    if resubmitted:
        (client.holds if record.rerun else client.once_holds).extend(now)
        timers.arm_tick(state, now)
    if not is_entered:
        for task in range(record.first, record.stop):
            task_endings.report_failed(state, client, task, Status.OBJECT_MISSING)


def queue_for(state: SchedulerState, client: ClientPeer, options: TaskOptions) -> QueueClass:
    """Return the queue of a client's tasks with these options."""
    demand = demand_of(options.capabilities) if options.capabilities else ()
    depth = min(max(options.depth, 0), DEPTH_LIMIT)
    may_start_again = options.rerun and (not options.hosts_actor or options.retries > 0)
    if may_start_again or options.actor:
        return state.placement.queue_class(demand, depth)
    return starting_agents.queue_of(state, client, demand, depth)


def deepened(state: SchedulerState, options: TaskOptions, depth: int) -> TaskOptions:
    """Return the options of a nested task: those that its client gave, with the client's depth."""
    key = (options, depth)
    if key not in state.deepened_options:
        if len(state.deepened_options) > _DEEPENED_LIMIT:
            state.deepened_options.clear()
        state.deepened_options[key] = replace(options, depth=depth)
    return state.deepened_options[key]
