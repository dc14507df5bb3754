"""Counts are compared with the states of tasks, and a wrong count is corrected with a warning.

No defect is known that makes a count wrong. But a queue that counts too few tasks never dispatches the rest, and an
agent that counts too many gets no more, so a mistake would cost much and looking costs little. A census takes a
millisecond for a million tasks. With more tasks it comes less often, so that it takes a small and constant part of the
time.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.messages import Status
from scaler_scheduler.core import notices, requeue, task_endings
from scaler_scheduler.core.census import Census
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState

RECOUNT_SECONDS = 5.0
"""Between two censuses, at least."""

SECONDS_PER_MILLION_TASKS = 10.0
"""Delay of the next census for the number of tasks in this one."""

_SHOWN = 5


def on_tick(state: SchedulerState, now: float) -> None:
    """Count again when it is time."""
    if now < state.recount_at:
        return
    tasks = sum(client.table.columns.unfinished for client in state.clients.values())
    state.recount_at = now + RECOUNT_SECONDS + tasks / 1e6 * SECONDS_PER_MILLION_TASKS
    correct(state)
    if state.actors:
        state.actors.keep({queue for client in state.clients.values() for queue in client.table.columns.queues()})


def correct(state: SchedulerState) -> None:
    """Correct what is wrong, and log it."""
    wrong = find_wrong(state, True)
    if wrong:
        text = "; ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")
        notices.log(state, f"A count was wrong and has been corrected: {text}.", "WARNING")
        for agent in state.agents.values():
            state.placement.offer(agent)


def find_wrong(state: SchedulerState, corrects: bool) -> list[str]:
    """Describe the errors found, in words. ``corrects``: they are also corrected."""
    census = Census()
    wrong: list[str] = []
    for client in state.clients.values():
        name = client.session.hex()[:8]
        wrong += [f"client {name}: {text}" for text in client.table.recount(census, corrects)]
        wrong += client.amend(corrects)
    for queue in (*state.placement.classes.values(), *state.actors):
        wrong += census.amend_queue(queue, corrects)
    for agent in state.agents.values():
        wrong += census.amend_agent(agent.load, agent.capacity, corrects)
        wrong += agent.load.amend_reserved(corrects)
    wrong += census.amend_functions(list(state.function_loads.values()), corrects)
    wrong += [
        f"tasks are with agent {index}, which is not there" for index in census.unknown_agents(state.agent_by_index)
    ]
    wrong += [*_amend_total(state, corrects), *_amend_users(state, corrects)]
    return wrong


def _amend_total(state: SchedulerState, corrects: bool) -> Iterator[str]:
    """The number of tasks of all clients."""
    noted, counted = state.totals.unfinished, sum(client.table.columns.unfinished for client in state.clients.values())
    if noted != counted:
        yield f"{noted} tasks of all clients, {counted} counted"
        if corrects:
            state.totals.unfinished = counted


def _amend_users(state: SchedulerState, corrects: bool) -> Iterator[str]:
    """Return how many clients have each function and each serializer."""
    for users, name in ((state.function_users, "functions"), (state.serializer_users, "serializers")):
        counted: dict[bytes, int] = {}
        for client in state.clients.values():
            for digest in getattr(client, name):
                counted[digest] = counted.get(digest, 0) + 1
        if users != counted:
            noted, found = sum(users.values()), sum(counted.values())
            yield f"{len(users)} {name} of {noted} clients, {len(counted)} of {found} counted"
            if corrects:
                users.clear()
                users.update(counted)


def after_fault(state: SchedulerState, now: float) -> None:
    """Something raised halfway: counts may be wrong, tasks undecided, or queued tasks in no queue."""
    for client in list(state.clients.values()):
        _decide(state, client, now)
    correct(state)
    state.actors.empty()
    state.placement.rebuild([(client, client.table) for client in state.clients.values()])


def _decide(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Agents have given these tasks up, and nothing followed from it: they run again, unless that is forbidden."""
    for task in client.table.undecided():
        if client.table.columns.record(task).rerun:
            requeue.requeue(client, task)
        else:
            client.table.finish(task, Status.WORKER_DIED)
            task_endings.report_failed(state, client, task, Status.WORKER_DIED)
