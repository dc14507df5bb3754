"""Tasks that this host holds and that do not run: those in the queue, and nodes of graphs that wait for values."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import ObjectKey, Status, TaskColumn
from scaler_worker.core.actors import ENDED_TEXT
from scaler_worker.core.nodes import Named
from scaler_worker.core.state import AgentState

STOPPED_TEXT = "The worker was stopped while the task was running. Look at what it has done before you submit it again."

# ---- nodes of graphs -------------------------------------------------------------------------------------------


def add_nodes(state: AgentState, run: TaskRun, lacks_objects: bool) -> list[ObjectKey]:
    """Accept nodes of a graph. Returns the values that must be requested."""
    ready, fetch, freed, back = state.nodes.add(run, lacks_objects)
    state.freed.extend(freed)
    state.given_back.extend(back)
    _queue(state, ready)
    state.objects.give_up_values(run.session, run.first_task, run.first_task + run.count)
    return state.objects.fetch(fetch) if fetch else []


def objects_here(state: AgentState, run: TaskRun) -> None:
    """The last object that ``run`` waited for has arrived."""
    _queue(state, state.nodes.objects_here(run) if run.options.graph else (run,))


def value_arrived(state: AgentState, key: ObjectKey) -> bool:
    """False: no node waits for it."""
    ready = state.nodes.arrived(key)
    _queue(state, ready or ())
    return ready is not None


def keep_values(state: AgentState, kept: list[tuple[TaskRun, int, int, bytes]]) -> None:
    """Nodes have ended (run, task, status, payload): their values stay here, and nodes that waited for them may run."""
    ready, back = state.nodes.harvested(kept)
    state.given_back.extend(back)
    _queue(state, ready)


def correct_counts(state: AgentState) -> list[str]:
    """Correct the wrong counts of the queue and of nodes. Returns a sentence for each."""
    wrong, ready = state.nodes.correct_counts()
    wrong += state.queue.correct_counts()
    _queue(state, ready)
    return wrong


def forget_values(state: AgentState, keys: list[ObjectKey]) -> None:
    """Large values of nodes are lost."""
    for key in keys:
        if key.owner in state.nodes:
            _, _, _, back = state.nodes.cancel(key.owner, (key.number,), (0,))
            state.given_back.extend(back)


def value_missing(state: AgentState, key: ObjectKey) -> None:
    """Give back the nodes that wait for a value that no host has."""
    state.given_back.extend(state.nodes.missing(key))


def without_nodes(state: AgentState, runs: Iterable[TaskRun]) -> list[Named]:
    """Remove the nodes among ``runs``, which leave this host. Returns the nodes that waited here for their values and
    must leave, too."""
    back: list[Named] = []
    for run in runs:
        if run.options.graph:
            back.extend(state.nodes.gone(run.session, range(run.first_task, run.first_task + run.count)))
    return back


def _queue(state: AgentState, runs: Iterable[TaskRun]) -> None:
    for run in runs:
        queue_run(state, run)


def queue_run(state: AgentState, run: TaskRun) -> None:
    """All that the run needs is here: it waits for a worker process, or for that of its actor."""
    if not run.options.actor:
        state.queue.push(run)
    elif not state.actors.add_call(run):
        fail_run(state, run, Status.WORKER_DIED, ENDED_TEXT)


# ---- endings ---------------------------------------------------------------------------------------------------


def fail_run(state: AgentState, run: TaskRun, status: Status, payload: bytes) -> None:
    """All tasks of the run, which is in no queue any more, end with this result."""
    state.rows.add_run(run, status, payload)
    if run.options.actor:
        state.actors.drop_call(run)
    state.given_back.extend(without_nodes(state, [run]))


def cancel(state: AgentState, column: TaskColumn) -> dict[tuple[int, int], None]:
    """End the tasks of ``column`` that wait. Returns the tasks and attempts that may be running."""
    if column.session in state.nodes:
        column = _cancel_nodes(state, column)
    wanted = dict.fromkeys(zip(column.tasks, column.attempts or (0,) * len(column.tasks), strict=False))
    if not wanted:
        return wanted
    removed = state.queue.remove(column.session, wanted)
    removed += state.objects.remove_waiting(column.session, wanted)
    removed += state.actors.remove(column.session, wanted)
    for task, attempt in removed:
        state.rows.add(column.session, task, attempt, Status.CANCELLED)
        wanted.pop((task, attempt), None)
    if column.session in state.nodes:
        state.given_back.extend(state.nodes.gone(column.session, [task for task, _ in removed]))
    return wanted


def free_copies(state: AgentState, column: TaskColumn) -> None:
    """Free the values that no node of a graph needs, of which tasks outside the graph have fetched copies: their
    attempt is 0."""
    for task, attempt in zip(column.tasks, column.attempts, strict=False):
        key = ObjectKey(column.session, task)
        if attempt == 0 and state.objects.is_copy(key):
            state.freed.append(key)


def _cancel_nodes(state: AgentState, column: TaskColumn) -> TaskColumn:
    """End the nodes that wait for values, and free values. Returns the other tasks."""
    attempts = column.attempts or (0,) * len(column.tasks)
    waited, elsewhere, large, back = state.nodes.cancel(column.session, column.tasks, attempts)
    for task, attempt in waited:
        state.rows.add(column.session, task, attempt, Status.CANCELLED)
    state.freed.extend(large)
    state.given_back.extend(back)
    return TaskColumn(column.session, tuple(task for task, _ in elsewhere), tuple(each for _, each in elsewhere))
