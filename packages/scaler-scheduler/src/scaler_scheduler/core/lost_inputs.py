"""Tasks outside graphs whose inputs, large results of earlier tasks, were lost before they were read.

A task whose agent could not get an object has not started, so it may run again even with ``rerun=False``. While one of
its inputs is being made again, it waits outside the queue: in the queue it would be assigned and fail again and again,
and tasks of higher priority than those that make the input would keep the workers from making it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import UPLOAD_NUMBER, ObjectKey, Status
from scaler_scheduler.core import faults, requeue, timers
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import LOSSES_LIMIT, TaskState

_UNMADE = (
    b"A result that this call needs was lost with its host or object store, and its call did not make it again. Submit "
    b"both calls again."
)
_HERE = (TaskState.DONE_LARGE, TaskState.STORED)
_NEVER = (TaskState.ENDED, TaskState.FREED)


def inputs_of(client: ClientPeer, task: int) -> tuple[int, ...]:
    """Return the earlier tasks of the client whose large results a task names."""
    run = client.table.columns.record(task).run
    keys = [slot for slot in run.slots(task - run.first_task) if isinstance(slot, ObjectKey)]
    own = {key.number for key in keys if key.owner == client.session and key.number < UPLOAD_NUMBER}
    return tuple(sorted(own))


def missing_of(client: ClientPeer, inputs: Iterable[int]) -> list[int]:
    """Return those of these tasks whose results no agent has."""
    return [each for each in inputs if client.table.columns.state(each) not in _HERE]


def on_missing(
    state: SchedulerState, client: ClientPeer, agent: Agent, run: ResultRun, index: int, task: int, now: float
) -> None:
    """An agent could not get an object that a task needs. The task runs again if all its inputs are there or are being
    made again; otherwise it fails with what the agent says."""
    inputs = inputs_of(client, task)
    missing = missing_of(client, inputs)
    if not inputs or _count_miss(client, task) >= LOSSES_LIMIT or not _will_come(client, task, missing):
        _fail(state, client, task, bytes(run.payload(index)), run.attempt(index))
    elif missing:
        state.lost_inputs.setdefault(client.session, {}).setdefault(inputs, []).append(task)
        client.table.await_inputs(task)
        timers.arm_tick(state, now)
    else:
        requeue.requeue(client, task)


def _count_miss(client: ClientPeer, task: int) -> int:
    """Count that a task could not be given its inputs; how often that was. Its lost agents count with it, unless the
    task makes an actor: then only these use up the restarts."""
    if not client.table.columns.record(task).hosts_actor:
        return client.table.count_loss(task)
    misses = client.failures[task] = client.failures.get(task, 0) + 1
    return misses


def _will_come(client: ClientPeer, task: int, missing: list[int]) -> bool:
    """Return whether all these results are being made again. Clients may name any task, but no task waits for itself or
    for a later one."""
    return all(each < task and client.table.columns.state(each) not in _NEVER for each in missing)


def _fail(state: SchedulerState, client: ClientPeer, task: int, payload: bytes, attempt: int = 0) -> None:
    client.forget(task)
    client.table.finish(task, Status.OBJECT_MISSING)
    client.row(task, Status.OBJECT_MISSING, payload, attempt)
    state.clients_with_results[client.session] = client


def on_tick(state: SchedulerState, now: float) -> None:
    """Look at all tasks that wait for lost inputs."""
    for session in [session for session in state.lost_inputs if session not in state.clients]:
        del state.lost_inputs[session]
    faults.for_each(state, [state.clients[session] for session in state.lost_inputs], _look_at_client, now)


def _look_at_client(state: SchedulerState, client: ClientPeer, now: float) -> None:
    found = state.lost_inputs.pop(client.session)
    waiting = {inputs: _look_at(state, client, inputs, tasks) for inputs, tasks in found.items()}
    waiting = {inputs: tasks for inputs, tasks in waiting.items() if tasks}
    if waiting:
        state.lost_inputs[client.session] = waiting


def _look_at(state: SchedulerState, client: ClientPeer, inputs: tuple[int, ...], tasks: list[int]) -> list[int]:
    """Return those of these tasks, which need the same inputs, that still wait."""
    tasks = [task for task in tasks if client.table.awaits_inputs(task)]
    missing = missing_of(client, inputs)
    if not missing:
        requeue.push_front(client, client.table.inputs_made(tasks))
        return []
    if any(client.table.columns.state(each) in _NEVER for each in missing):
        for task in tasks:
            _fail(state, client, task, _UNMADE)
            if state.events.is_on:
                state.events.failed(client.table.columns.number, task, Status.OBJECT_MISSING, _UNMADE)
        return []
    return tasks


def check(state: SchedulerState) -> None:
    """Assert that each task that awaits inputs is known here."""
    for session, client in state.clients.items():
        if client.table.columns.count(TaskState.PENDING):
            known = {task for tasks in state.lost_inputs.get(session, {}).values() for task in tasks}
            waiting = [task for task in client.table.unfinished_tasks() if client.table.awaits_inputs(task)]
            assert known.issuperset(waiting), (session, waiting)
