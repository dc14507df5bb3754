"""Which tasks may enter a queue whose length is bounded, and when the others may.

The bound holds back only tasks that no worker waits for. A task that occupies a worker may wait for the tasks of its
own sessions and for nothing else, so these pass the bound: whatever runs can end, at any depth, and the queue empties.
Nodes of graphs pass it as well, because their inputs may be behind it.
"""

from __future__ import annotations

from scaler_protocol.messages import TaskName
from scaler_scheduler.core import outbox, requeue
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState

_WITH_AN_AGENT = (TaskState.ASSIGNED, TaskState.CANCELLING, TaskState.HELD)


def entry_state(state: SchedulerState, client: Client, record: RunRecord) -> TaskState:
    """QUEUED, or WAITING outside the queue."""
    if client.parent is not None and _occupies_worker(state, client.parent):
        return TaskState.QUEUED
    limit = state.settings.max_number_of_tasks_waiting
    if client.waiting or state.allocator.queued + record.stop - record.first > limit:
        return TaskState.WAITING
    return TaskState.QUEUED


def _occupies_worker(state: SchedulerState, name: TaskName) -> bool:
    """Whether a task may be running. One of a session that is not there may be: the scheduler has been restarted."""
    owner = state.clients.get(name.session)
    return owner is None or owner.table.state(name.task) in _WITH_AN_AGENT


def hold_back(state: SchedulerState, client: Client, record: RunRecord) -> None:
    """The queue is full: the tasks wait, and the client is not told that they arrived."""
    client.waiting.append((record.first, record.stop))
    state.clients_waiting[client.session] = client
    if client.withheld is None:
        client.withheld = max(0, client.link.received - 1)


def admit_waiting(state: SchedulerState, now: float) -> None:
    """There may be room in the queue: those that wait enter it, a run of each client in turn."""
    limit = max(1, state.settings.max_number_of_tasks_waiting)
    while state.clients_waiting:
        room = limit - state.allocator.queued
        if room <= 0:
            return
        session, client = next(iter(state.clients_waiting.items()))
        del state.clients_waiting[session]
        _admit_one_run(state, client, room)
        if client.waiting:
            state.clients_waiting[session] = client
        else:
            client.withheld = None
            outbox.acknowledge(state, client, now)


def _admit_one_run(state: SchedulerState, client: Client, room: int) -> None:
    if not client.waiting:
        return
    first, stop = client.waiting.popleft()
    if stop - first > room:
        client.waiting.appendleft((first + room, stop))
        stop = first + room
    requeue.push(state, client, client.table.ready(first, stop), False)
