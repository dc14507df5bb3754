"""An actor that has not started goes before the tasks that wait for it.

A task that waits lends its slot to deeper tasks only. The call of an actor is deeper than the task that waits for it,
but the actor itself may have been made by a task, or a client, that is not. Then it would wait for a slot that only it
can free. So it becomes as deep as its deepest call. An agent that has it, but has not started it, must return it first:
the agent does not know of calls that wait here.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_scheduler.core import requeue, task_entry, withdrawals
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.task_facts import TaskFacts


def precede(state: SchedulerState, queue: QueueClass, now: float) -> None:
    """Calls wait in this queue, and their actor takes none yet."""
    session, task = state.actors.key_of(queue)
    client = state.clients.get(session)
    known = client.table.columns.describe(task) if client is not None else None
    if client is None or known is None or known.record.depth >= state.actors.depths[queue]:
        return
    if known.state == TaskState.QUEUED:
        _deepen(state, client, task, state.actors.depths[queue])
    elif known.state == TaskState.ASSIGNED and state.actors.asked_for.get(queue) != known.attempt:
        _take_back(state, queue, known, now)


def _deepen(state: SchedulerState, client: ClientPeer, task: int, depth: int) -> None:
    options = replace(client.table.columns.record(task).run.options, depth=depth)
    queue = task_entry.queue_for(state, client, options)
    record = client.table.deepen(task, queue)
    if record is not None:
        requeue.push_front(client, [(record, task, task + 1)])


def _take_back(state: SchedulerState, queue: QueueClass, known: TaskFacts, now: float) -> None:
    """Ask an agent where tasks wait for others, once for each attempt: the actor may be about to start."""
    agent = state.agent_by_index[known.agent_index]
    if agent.load.lent and not agent.withdraw_pending:
        state.actors.asked_for[queue] = known.attempt
        withdrawals.ask_for_all(state, agent, now)
