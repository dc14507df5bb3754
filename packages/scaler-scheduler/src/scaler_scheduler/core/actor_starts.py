"""An actor that has not started goes before the tasks that wait for it.

A task that waits lends its slot to deeper tasks only. The call of an actor is deeper than the task that waits for it,
but the actor itself may have been made by a task, or a client, that is not. Then it would wait for a slot that only it
can free. So it becomes as deep as its deepest call. An agent that has it, but has not started it, must return it first:
the agent does not know of calls that wait here.

An actor may wait itself, until a lost result that its constructor needs has been made again. Then the tasks that make
it become as deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scaler_scheduler.core import lost_inputs, requeue, task_entry, withdrawals
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.task_facts import TaskFacts

_LOOKED_LIMIT = 10_000
"""Tasks that are looked at for one actor."""


def precede(state: SchedulerState, queue: QueueClass, now: float) -> None:
    """Calls wait in this queue, and their actor takes none yet."""
    session, task = state.actors.key_of(queue)
    client = state.clients.get(session)
    if client is None:
        return
    for each in _makers(client, task):
        known = client.table.columns.describe(each)
        if known is None or known.record.depth >= state.actors.depths[queue]:
            continue
        if known.state == TaskState.QUEUED:
            _deepen(state, client, each, state.actors.depths[queue])
        elif known.state == TaskState.ASSIGNED and state.actors.asked_for.get(queue, {}).get(each) != known.attempt:
            _take_back(state, queue, each, known, now)


def _makers(client: ClientPeer, task: int) -> Iterator[int]:
    """The task, unless it waits for results that are being made again: then the tasks that make these."""
    columns = client.table.columns
    waiting = [task]
    seen = {task}
    while waiting and len(seen) < _LOOKED_LIMIT:
        each = waiting.pop()
        if columns.state(each) != TaskState.PENDING:
            yield each
            continue
        graph = columns.record(each).graph
        inputs = lost_inputs.inputs_of(client, each) if graph is None else graph.inputs(each)
        missing = dict.fromkeys(lost_inputs.missing_of(client, inputs))
        waiting.extend(missing.keys() - seen)
        seen.update(missing)


def _deepen(state: SchedulerState, client: ClientPeer, task: int, depth: int) -> None:
    options = replace(client.table.columns.record(task).run.options, depth=depth)
    queue = task_entry.queue_for(state, client, options)
    record = client.table.deepen(task, queue)
    if record is not None:
        requeue.push_front(client, [(record, task, task + 1)])


def _take_back(state: SchedulerState, queue: QueueClass, task: int, known: TaskFacts, now: float) -> None:
    """Ask an agent where tasks wait for others, once for each attempt: the task may be about to start."""
    agent = state.agent_by_index[known.agent_index]
    if agent.load.lent and not agent.withdraw_pending:
        state.actors.asked_for.setdefault(queue, {})[task] = known.attempt
        withdrawals.ask_for_all(state, agent, now)
