"""The limit of queued tasks: which tasks may enter the queue, and when the others follow.

The bound only applies to tasks that no running task waits for. A running task can wait for the tasks of its own
sessions only, so these pass the bound: whatever runs can end, at any depth, and the queue empties. Nodes of graphs pass
it as well, because their inputs may be behind it.
"""

from __future__ import annotations

from scaler_protocol.messages import TaskName
from scaler_scheduler.core import outbox, requeue
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS, TaskState

_WITH_AN_AGENT = (*ON_HOSTS, TaskState.HELD)


def entry_state(state: SchedulerState, client: ClientPeer, record: RunRecord) -> TaskState:
    """Return the state in which tasks enter: QUEUED, or WAITING outside the queue."""
    if client.parent is not None and _occupies_worker(state, client.parent):
        return TaskState.QUEUED
    limit = state.settings.max_number_of_tasks_waiting
    if client.waiting or state.placement.queued + record.stop - record.first > limit:
        return TaskState.WAITING
    return TaskState.QUEUED


def _occupies_worker(state: SchedulerState, name: TaskName) -> bool:
    """Return whether a task may be running. A task of an unknown session may be, because the scheduler may have been
    restarted."""
    owner = state.clients.get(name.session)
    return owner is None or owner.table.columns.state(name.task) in _WITH_AN_AGENT


def hold_back(state: SchedulerState, client: ClientPeer, record: RunRecord) -> None:
    """The queue is full: the tasks wait, and their arrival is not acknowledged."""
    client.waiting.append((record.first, record.stop))
    state.clients_waiting[client.session] = client
    if client.connection.withheld is None:
        client.connection.withheld = max(0, client.link.received - 1)


def admit_waiting(state: SchedulerState, now: float) -> None:
    """Let waiting tasks enter the queue at the end of a turn while it has room, one run of each client in turn."""
    limit = max(1, state.settings.max_number_of_tasks_waiting)
    while state.clients_waiting:
        room = limit - state.placement.queued
        if room <= 0:
            return
        session, client = next(iter(state.clients_waiting.items()))
        del state.clients_waiting[session]
        _admit_one_run(state, client, room)
        if client.waiting:
            state.clients_waiting[session] = client
        else:
            client.connection.withheld = None
            outbox.acknowledge(state, client, now)


def _admit_one_run(state: SchedulerState, client: ClientPeer, room: int) -> None:
    """Let the first run of a client enter, or as much of it as there is room for."""
    if not client.waiting:
        return
    first, stop = client.waiting.popleft()
    if stop - first > room:
        client.waiting.appendleft((first + room, stop))
        stop = first + room
    requeue.push(client, client.table.ready(first, stop))
