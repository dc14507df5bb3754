"""The states of a task in the scheduler, and what each event does in each of them.

``TASKS`` and ``NODES`` are the tables of transitions. ``scripts/states`` writes them for compiled code (states.pxd,
transitions.pxd) and for readers (docs/internals/task-states.md), which also explains the rules that no table shows.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class TaskState(enum.IntEnum):
    """One byte in the task table."""

    ENDED = 0
    """The task is not in the table: it has ended, or never existed."""
    WAITING = 1
    """Outside the queue, which is full."""
    HELD = 2
    """Stated again by a client after a restart of the scheduler: an agent may have it."""
    QUEUED = 3
    """No agent has it; an agent may be given it."""
    ASSIGNED = 4
    """The task is with an agent."""
    CANCELLING = 5
    """The task is with an agent that was told to cancel it."""
    DONE_LARGE = 6
    """Succeeded; its agent keeps the large result until the client releases it."""
    DECIDING = 7
    """Only while one message is handled: the task left its agent, and what becomes of it is being decided."""
    PENDING = 8
    """A node of a graph that waits for its inputs, or another task that waits until lost results that it needs have
    been made again."""
    STORED = 9
    """A node of a graph that succeeded; an agent keeps its value for its dependants."""
    FREED = 10
    """A node of a graph that succeeded; its value is no longer anywhere."""


ON_HOSTS = (TaskState.ASSIGNED, TaskState.CANCELLING)
"""The states of unfinished tasks that an agent has."""

UNASSIGNED = (TaskState.HELD, TaskState.QUEUED, TaskState.PENDING)
"""The states of tasks that monitors count as waiting. WAITING is not among them: a task that does not fit into a
bounded queue still counts as its client's."""

FINISHED = (TaskState.ENDED, TaskState.DONE_LARGE, TaskState.STORED, TaskState.FREED)
"""The states of tasks that have run, and of those that do not exist."""


class TaskEvent(enum.IntEnum):
    """An event of a task. Results count only if the task is still with their agent, in the same attempt."""

    READY = 0
    """The queue has room again, or the hold after a restart is over."""
    ALLOCATED = 1
    """The placement chose an agent. A node may be PENDING when all missing inputs are assigned to that agent."""
    CLAIMED = 2
    """An agent states that it holds the task, in the attempt that the table has for it, if any."""
    CLAIMED_BY_OTHER = 3
    """An agent states that it holds the task, and the table has another agent or attempt for it."""
    SUCCEEDED = 4
    """The function returned, and the result is small or comes with the message."""
    SUCCEEDED_LARGE = 5
    """The function returned, and the result stays with the agent."""
    DIED = 6
    """The worker process that ran the task died."""
    FAILED_WITH_RETRIES = 7
    """The function raised, and the task has retries."""
    FAILED = 8
    """The task failed in any other way."""
    INPUT_MISSING = 9
    """The agent could not get an object that the task names, so the task has not started."""
    STOPPED = 10
    """The agent cancelled the task."""
    WITHDRAWN = 11
    """The agent gave the task back unstarted."""
    AGENT_LOST = 12
    """The agent is lost, and the task may run again."""
    AGENT_LOST_FINALLY = 13
    """The agent is lost, and the task may not run again or has lost too many agents."""
    VALUE_LOST = 14
    """The agent no longer has the value, and the task may run again."""
    VALUE_LOST_FINALLY = 15
    """The agent no longer has the value, and the task may not run again or has lost too many agents."""
    CANCELLED_BY_CLIENT = 16
    """The client cancels the task, releases its result, clears all tasks or leaves."""
    ABANDONED = 17
    """The session begins again: answers to its cancels would be mistaken for answers to later tasks."""
    RUNS_AGAIN = 18
    """The rules decided that the task runs again."""
    GIVEN_UP = 19
    """The rules decided that the task ends."""
    AWAITS_INPUTS = 20
    """The rules decided that the task waits until lost results that it needs have been made again."""
    INPUTS_MADE = 21
    """The lost results that the task needs have been made again."""
    INPUTS_ARRIVED = 22
    """In a graph: the value of the last missing input is there."""
    INPUT_LOST = 23
    """In a graph: the value of an input is lost."""
    DROPPED = 24
    """In a graph: an input of the node ended without a value, or the graph is over."""
    VALUE_UNNEEDED = 25
    """In a graph: neither the client nor an unfinished node needs the value any more."""
    VALUE_NEEDED = 26
    """In a graph: an unfinished node needs the value again."""
    GRAPH_OVER = 27
    """In a graph: all results for the client have reached it, or never will."""


GRAPH_EVENTS = (
    TaskEvent.INPUTS_ARRIVED,
    TaskEvent.INPUT_LOST,
    TaskEvent.DROPPED,
    TaskEvent.VALUE_UNNEEDED,
    TaskEvent.VALUE_NEEDED,
    TaskEvent.GRAPH_OVER,
)
"""Events that other nodes of the graph cause. No message brings them."""


class Action(enum.IntEnum):
    """The consequences of an event, in addition to the new state."""

    NOTHING = 0
    """The event is dropped, or the new state is all."""
    KEEP_UNKNOWN = 1
    """Keep it if the agent has just attached or has reported the task: the client of the task may still come."""
    FORWARD = 2
    """Forward the result to the client."""
    KEEP_LARGE = 3
    """Forward the result to the client; its agent keeps the value."""
    DISCARD = 4
    """Tell the agent to free the value, and end the task as cancelled."""
    REFUSE = 5
    """Tell the agent to free the value: the result does not count."""
    DECIDE_DEATH = 6
    """Decide by the number of deaths whether the task runs again."""
    DECIDE_RETRY = 7
    """Decide by the number of failures whether the task runs again."""
    REQUEUE = 8
    """Queue the task again, before the others."""
    WAIT = 9
    """The task runs again when its inputs are there."""
    GIVE_UP = 10
    """The task ends with a failure that the client is told."""
    TELL_CANCELLED = 11
    """The client is told that the task is cancelled."""
    CANCEL_AT_AGENT = 12
    """The agent is told to cancel the task."""
    FREE_AT_AGENT = 13
    """The agent is told to free the value."""
    DELIVER = 14
    """The client no longer needs the value; dependants may."""
    DECIDE_INPUT = 15
    """Decide by the inputs whether the task waits for them, runs again or fails."""
    DECIDE_STOPPED = 16
    """Decide whether the client has asked for that, or an earlier scheduler: then the task may run again."""


class Transition(NamedTuple):
    """The state after an event, and what follows from it."""

    state: TaskState
    action: Action = Action.NOTHING


class ResultDecision(NamedTuple):
    """A row of a run of results that does not simply end its task."""

    row: int
    task: int
    action: Action


class ResultOutcome(NamedTuple):
    """The decisions of a table on a run of results: the rows to forward (None: all), those to decide, those of unknown
    tasks."""

    forward: list[int] | None
    decisions: list[ResultDecision]
    unknown: list[int]


Table = dict[TaskEvent, dict[TaskState, Transition]]

_ENDED = TaskState.ENDED
_WAITING = TaskState.WAITING
_HELD = TaskState.HELD
_QUEUED = TaskState.QUEUED
_ASSIGNED = TaskState.ASSIGNED
_CANCELLING = TaskState.CANCELLING
_DONE_LARGE = TaskState.DONE_LARGE
_DECIDING = TaskState.DECIDING
_PENDING = TaskState.PENDING
_STORED = TaskState.STORED
_FREED = TaskState.FREED

_UNKNOWN = Transition(_ENDED, Action.KEEP_UNKNOWN)
_END = Transition(_ENDED, Action.FORWARD)
_DEATH = Transition(_DECIDING, Action.DECIDE_DEATH)
_RETRY = Transition(_DECIDING, Action.DECIDE_RETRY)
_INPUT = Transition(_DECIDING, Action.DECIDE_INPUT)
_STOPPED = Transition(_DECIDING, Action.DECIDE_STOPPED)
_CANCELLED = Transition(_ENDED, Action.TELL_CANCELLED)
_CANCEL = Transition(_CANCELLING, Action.CANCEL_AT_AGENT)
_LARGE = Transition(_DONE_LARGE, Action.KEEP_LARGE)
_REQUEUED = Transition(_QUEUED, Action.REQUEUE)
_FAILED = Transition(_ENDED, Action.GIVE_UP)
_WAITS = Transition(_PENDING, Action.WAIT)


def _stale(state: TaskState) -> Transition:
    return Transition(state, Action.CANCEL_AT_AGENT)


TASKS: Table = {
    TaskEvent.READY: {_WAITING: Transition(_QUEUED), _HELD: Transition(_QUEUED)},
    TaskEvent.ALLOCATED: {_QUEUED: Transition(_ASSIGNED)},
    TaskEvent.CLAIMED: {
        _WAITING: _stale(_WAITING), _HELD: Transition(_ASSIGNED), _QUEUED: _stale(_QUEUED),
        _PENDING: _stale(_PENDING), _ENDED: _UNKNOWN,
    },
    TaskEvent.CLAIMED_BY_OTHER: {
        _WAITING: _stale(_WAITING), _HELD: Transition(_ASSIGNED), _QUEUED: _stale(_QUEUED),
        _ASSIGNED: _stale(_ASSIGNED), _CANCELLING: _stale(_CANCELLING), _DONE_LARGE: _stale(_DONE_LARGE),
        _DECIDING: _stale(_DECIDING), _PENDING: _stale(_PENDING), _ENDED: _UNKNOWN,
    },
    TaskEvent.SUCCEEDED: {_HELD: _END, _ASSIGNED: _END, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.SUCCEEDED_LARGE: {
        _WAITING: Transition(_WAITING, Action.REFUSE), _QUEUED: Transition(_QUEUED, Action.REFUSE),
        _PENDING: Transition(_PENDING, Action.REFUSE),
        _HELD: _LARGE, _ASSIGNED: _LARGE, _CANCELLING: Transition(_DECIDING, Action.DISCARD), _ENDED: _UNKNOWN,
    },
    TaskEvent.DIED: {_HELD: _DEATH, _ASSIGNED: _DEATH, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.FAILED_WITH_RETRIES: {_HELD: _RETRY, _ASSIGNED: _RETRY, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.FAILED: {_HELD: _END, _ASSIGNED: _END, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.INPUT_MISSING: {_HELD: _INPUT, _ASSIGNED: _INPUT, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.STOPPED: {_ASSIGNED: _STOPPED, _CANCELLING: _END, _ENDED: _UNKNOWN},
    TaskEvent.WITHDRAWN: {_ASSIGNED: _REQUEUED, _CANCELLING: _CANCELLED},
    TaskEvent.AGENT_LOST: {
        _ASSIGNED: _REQUEUED, _CANCELLING: _CANCELLED, _DONE_LARGE: _REQUEUED, _DECIDING: _REQUEUED,
    },
    TaskEvent.AGENT_LOST_FINALLY: {
        _ASSIGNED: _FAILED, _CANCELLING: _CANCELLED, _DONE_LARGE: _FAILED, _DECIDING: _FAILED,
    },
    TaskEvent.VALUE_LOST: {_DONE_LARGE: Transition(_DONE_LARGE, Action.REQUEUE)},
    TaskEvent.VALUE_LOST_FINALLY: {_DONE_LARGE: Transition(_DONE_LARGE, Action.GIVE_UP)},
    TaskEvent.CANCELLED_BY_CLIENT: {
        _WAITING: _CANCELLED, _HELD: _CANCELLED, _QUEUED: _CANCELLED, _ASSIGNED: _CANCEL,
        _DONE_LARGE: Transition(_ENDED, Action.FREE_AT_AGENT), _DECIDING: _CANCELLED,
        _PENDING: _CANCELLED,
    },
    TaskEvent.ABANDONED: {_ASSIGNED: Transition(_ENDED), _CANCELLING: Transition(_ENDED)},
    TaskEvent.RUNS_AGAIN: {_ASSIGNED: _REQUEUED, _DONE_LARGE: _REQUEUED, _DECIDING: _REQUEUED},
    TaskEvent.GIVEN_UP: {
        _WAITING: Transition(_ENDED), _HELD: Transition(_ENDED), _QUEUED: Transition(_ENDED),
        _ASSIGNED: Transition(_ENDED), _CANCELLING: Transition(_ENDED), _DONE_LARGE: Transition(_ENDED),
        _DECIDING: Transition(_ENDED), _PENDING: Transition(_ENDED),
    },
    TaskEvent.AWAITS_INPUTS: {_DECIDING: _WAITS},
    TaskEvent.INPUTS_MADE: {_PENDING: _REQUEUED},
    **{event: {} for event in GRAPH_EVENTS},
}  # fmt: skip
"""Tasks outside graphs. A pair that is missing changes nothing."""

NODES: Table = {
    **TASKS,
    TaskEvent.READY: {_WAITING: Transition(_QUEUED), _HELD: Transition(_PENDING)},
    TaskEvent.ALLOCATED: {_QUEUED: Transition(_ASSIGNED), _PENDING: Transition(_ASSIGNED)},
    TaskEvent.CLAIMED: {**TASKS[TaskEvent.CLAIMED], _FREED: _stale(_FREED)},
    TaskEvent.CLAIMED_BY_OTHER: {
        **TASKS[TaskEvent.CLAIMED_BY_OTHER], _STORED: _stale(_STORED), _FREED: _stale(_FREED),
    },
    TaskEvent.SUCCEEDED: {
        **TASKS[TaskEvent.SUCCEEDED],
        _HELD: Transition(_STORED, Action.FORWARD), _ASSIGNED: Transition(_STORED, Action.FORWARD),
    },
    TaskEvent.SUCCEEDED_LARGE: {_HELD: _LARGE, _ASSIGNED: _LARGE, _CANCELLING: Transition(_ENDED), _ENDED: _UNKNOWN},
    TaskEvent.INPUT_MISSING: TASKS[TaskEvent.FAILED],
    TaskEvent.WITHDRAWN: {_ASSIGNED: _WAITS, _CANCELLING: _CANCELLED},
    TaskEvent.AGENT_LOST: {
        _ASSIGNED: _WAITS, _CANCELLING: _CANCELLED, _DONE_LARGE: _WAITS, _DECIDING: _WAITS, _STORED: _WAITS,
    },
    TaskEvent.AGENT_LOST_FINALLY: {
        _ASSIGNED: _FAILED, _CANCELLING: _CANCELLED, _DONE_LARGE: _FAILED, _DECIDING: _FAILED, _STORED: _FAILED,
    },
    TaskEvent.VALUE_LOST: {_DONE_LARGE: _WAITS, _STORED: Transition(_PENDING)},
    TaskEvent.VALUE_LOST_FINALLY: {
        _DONE_LARGE: Transition(_DONE_LARGE, Action.GIVE_UP), _STORED: Transition(_ENDED),
    },
    TaskEvent.CANCELLED_BY_CLIENT: {
        **TASKS[TaskEvent.CANCELLED_BY_CLIENT], _DONE_LARGE: Transition(_STORED, Action.DELIVER),
    },
    TaskEvent.RUNS_AGAIN: {_ASSIGNED: _WAITS, _DONE_LARGE: _WAITS, _DECIDING: _WAITS},
    TaskEvent.AWAITS_INPUTS: {},
    TaskEvent.INPUTS_MADE: {},
    TaskEvent.INPUTS_ARRIVED: {_PENDING: Transition(_QUEUED)},
    TaskEvent.INPUT_LOST: {_QUEUED: Transition(_PENDING)},
    TaskEvent.DROPPED: {
        _WAITING: _CANCELLED, _HELD: _CANCELLED, _QUEUED: _CANCELLED, _PENDING: _CANCELLED, _ASSIGNED: _CANCEL,
    },
    TaskEvent.VALUE_UNNEEDED: {
        _STORED: Transition(_FREED, Action.FREE_AT_AGENT),
        _PENDING: Transition(_FREED), _QUEUED: Transition(_FREED), _HELD: Transition(_FREED),
    },
    TaskEvent.VALUE_NEEDED: {_FREED: Transition(_PENDING)},
    TaskEvent.GRAPH_OVER: {_FREED: Transition(_ENDED)},
}  # fmt: skip
"""Nodes of graphs, whose inputs are not there: a node whose inputs are there is QUEUED where it would be PENDING, and a
node that is not needed is FREED instead. Intermediate nodes are STORED where others are DONE_LARGE. A STORED value that
is lost does not count as a lost agent: only ``rerun=False`` keeps its node from running again."""


def transition(table: Table, event: TaskEvent, state: TaskState) -> Transition:
    """The transition of a task in a state when an event occurs."""
    return table[event].get(state, Transition(state))


DEPTH_LIMIT = 4095
"""Tasks nested deeper than this are handled as if nested exactly this deep: agents reach their limit of worker
processes before."""

LENT_LIMIT = 1_000_000
"""The largest number of lent slots that an agent is believed to have."""

DEATHS_LIMIT = 3
"""A task whose worker process died this often ends with PROCESSOR_DIED."""

LOSSES_LIMIT = 20
"""A task that has lost this many agents ends with WORKER_DIED, and one that could not be given its inputs this often
ends with OBJECT_MISSING. Both count together."""
