"""Cancellation of tasks, and the end of a client's session, which cancels its tasks.

A task is cancelled together with the tasks that it has submitted, and this may end the sessions of clients inside it.
``unstarted_cancels`` cancels only tasks that have not started, ``stated_cancels`` tasks that the scheduler does not
know since its restart. The verbs are those of docs/glossary.md:

| Function | What ends | Cause |
|---|---|---|
| ``cancel``, ``cancel_rows`` | tasks | their client cancels them, or its session ends |
| ``cancel_nested``, ``cancel_children`` | tasks of nested clients | the task around them is cancelled, failed or lost |
| ``cancel_children_of_execution`` | tasks of nested clients | an agent stops one execution of the task around them |
| ``orphan`` | the connection of a nested client | it closed; the tasks continue |
| ``end_client`` | a session | goodbye, timeout |
| ``end_with_reason`` | a session | the client broke the protocol or exceeded a limit; it is told why |
| ``abandon`` | a session | another one begins under its id |
| ``remove_client`` | the last trace of an ended session | no agent has a task of it any more |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler_protocol.messages import ObjectKey, ObjectRelease, RefusalReason, Refused, TaskName
from scaler_scheduler.core import (
    definitions,
    dropped_tasks,
    locks,
    named_values,
    notices,
    object_release,
    outbox,
    recording,
    share_membership,
    task_endings,
    values,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState


def cancel(state: SchedulerState, client: ClientPeer, tasks: Sequence[int] | None, now: float) -> None:
    """Cancel some tasks of a client, or all of them (None), and the tasks that running ones have submitted."""
    ended, told, freed = client.table.cancel(tasks)
    for index, (numbers, attempts) in told.items():
        state.agent_by_index[index].cancel(client.session, numbers, attempts)
        if state.lineage:
            for task in numbers:
                cancel_children(state, client.session, task, now)
    for index, numbers in freed.items():
        keys = tuple(ObjectKey(client.session, task) for task in numbers)
        outbox.send(state, state.agent_by_index[index], ObjectRelease(keys), now)
        for task in numbers:
            client.forget(task)
    task_endings.report_cancelled(state, client, ended)


def cancel_rows(
    agent: Agent, session: bytes, tasks: Sequence[int], attempts: Sequence[int], indices: Iterable[int]
) -> None:
    """Have an agent stop those of the tasks that ``indices`` name."""
    chosen = list(indices)
    if chosen:
        agent.cancel(session, [tasks[index] for index in chosen], [attempts[index] for index in chosen])


def cancel_children(state: SchedulerState, session: bytes, task: int, now: float) -> None:
    """The current attempt of a task was cancelled or failed: the tasks that it submitted are cancelled."""
    for child in state.lineage.of_task(session, task):
        cancel_nested(state, child, now)


def cancel_children_of_execution(
    state: SchedulerState, agent: Agent, session: bytes, task: int, attempt: int, now: float
) -> None:
    """An agent stops one execution of a task, or has stopped it: the tasks that were submitted in it are cancelled.
    After a restart of the scheduler, two agents may have the same attempt. Clients on Symphony's hosts connect
    themselves."""
    for child in state.lineage.of_task(session, task):
        is_here = child.route is None or child.route == agent.session
        if is_here and child.parent is not None and child.parent.attempt == attempt:
            cancel_nested(state, child, now)


def cancel_stale_children(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Cancel the tasks of nested clients in tasks that are being cancelled or have started again elsewhere."""
    for child in state.lineage.of_client(client.session):
        if child.parent is not None and is_cancelled_or_replaced(state, child.parent):
            cancel_nested(state, child, now)


def cancel_nested(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Cancel the tasks of a nested client, and the tasks that these have submitted: in a loop and not in a recursion,
    because clients choose how deep they nest."""
    if client in state.nested_to_cancel:
        return
    state.nested_to_cancel.append(client)
    if len(state.nested_to_cancel) > 1:
        return
    try:
        for each in state.nested_to_cancel:  # which grows meanwhile
            _cancel_one(state, each, now)
    finally:
        state.nested_to_cancel.clear()


def _cancel_one(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Cancel the tasks of one nested client. Its session continues, because its worker process will run other tasks."""
    if not client.connection.is_open:
        end_client(state, client, now)
        return
    cancel(state, client, None, now)
    client.waiting.clear()
    client.holds.clear()
    client.once_holds.clear()
    for child in state.lineage.of_client(client.session):
        cancel_nested(state, child, now)


def is_cancelled_or_replaced(state: SchedulerState, parent: TaskName) -> bool:
    """Return whether this execution of a task is being cancelled, or a later one has replaced it."""
    client = state.clients.get(parent.session)
    known = client.table.columns.describe(parent.task) if client is not None else None
    return known is not None and (known.state == TaskState.CANCELLING or known.attempt > parent.attempt)


def abandon(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Another session begins under the same id: answers of agents to cancels of the old one must not be taken for
    answers to cancels of the new one."""
    client.table.abandon({index: agent.load for index, agent in state.agent_by_index.items()})
    remove_client(state, client, now)
    for agent in state.agents.values():
        state.placement.offer(agent)


def end_with_reason(state: SchedulerState, client: ClientPeer, text: str, now: float) -> None:
    """End the session of a client that broke the protocol, and tell it why."""
    notices.log(state, f"Client {client.session.hex()[:8]}: {text}", "WARNING")
    outbox.refuse(state, client.session, Refused(RefusalReason.MALFORMED, text), client.route)
    end_client(state, client, now)


def orphan(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Nothing takes the results of a nested client any more. Its tasks continue as tasks of its root client, until they
    have ended or the parent turns out to have died."""
    client.connection.is_open = False
    client.is_orphan = client.is_broken = True
    client.drop_deliveries()
    locks.on_session_ended(state, client.session, now)
    named_values.on_session_ended(state, client.session)
    cancel(state, client, client.table.actors(), now)
    is_alone = client.parent is None or client.parent.session not in state.clients
    if is_alone or client.table.columns.unfinished == 0:
        end_client(state, client, now)


def end_client(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """A client left or is given up: its tasks are cancelled and its objects released. Until agents have answered, the
    client stays in the state to account for cancelled tasks that they still have."""
    dropped_tasks.note_given_up(state, client, now)
    client.drop_deliveries()
    client.is_orphan = client.is_broken = True
    client.connection.is_open = False
    client.gone_at = None
    locks.on_session_ended(state, client.session, now)
    named_values.on_session_ended(state, client.session)
    cancel(state, client, None, now)
    client.rows.clear()
    object_release.release_objects(state, client, list(client.objects), now)
    state.clients_waiting.pop(client.session, None)
    state.lineage.remove(client)
    for child in state.lineage.of_client(client.session):
        cancel_nested(state, child, now)
    if client.table.columns.unfinished == 0:
        remove_client(state, client, now)


def remove_client(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Forget a client whose session has ended and whose tasks have all ended."""
    if state.clients.get(client.session) is not client:
        return  # it ended with its parent meanwhile
    del state.clients[client.session]
    client.table.columns.leave()
    state.ended_clients.add(client)
    state.absent.note_left(client.session, now)
    share_membership.leave(state, client)
    locks.on_session_ended(state, client.session, now)
    named_values.on_session_ended(state, client.session)
    recording.note_client_left(state, client)
    state.clients_with_results.pop(client.session, None)
    state.clients_to_acknowledge.pop(client.session, None)
    state.introductions.pop(client.session, None)
    if client.known_agents.demands:
        state.placement.forget_owner(client.known_agents)
    state.clients_to_part.pop(client.session, None)
    state.lineage.move_up(client.session, client.parent)
    state.lineage.remove(client)
    values.forget_reader(state, client.session, now)
    if client.has_stored or client.table.nodes.has_large:
        object_release.forget_owner(state, client.session, now)
    definitions.drop_functions(state, list(client.functions), now)
    definitions.drop_serializers(state, client, now)
