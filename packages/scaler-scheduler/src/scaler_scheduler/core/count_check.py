"""Counts are compared with the states of tasks, and a wrong count is corrected with a warning.

No defect is known that makes a count wrong. But a queue that counts too few tasks never dispatches the rest, and an
agent that counts too many gets no more, so a mistake would cost much and looking costs little. A census takes a
millisecond for a million tasks. With more tasks it comes less often, so that it takes a small and constant part of the
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scaler_protocol.messages import Status
from scaler_scheduler.core import actor_reports, notices, requeue, task_endings
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
    if state.actors.made:
        actor_reports.forget_ended(state)
    if state.actors:
        state.actors.keep({queue for client in state.clients.values() for queue in client.table.columns.queues()})


def correct(state: SchedulerState) -> None:
    """Correct the wrong counts, and log them."""
    wrong = _compare(state, Census(corrects=True))
    if wrong:
        text = "; ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")
        notices.log(state, f"A count was wrong and has been corrected: {text}.", "WARNING")
        for agent in state.agents.values():
            state.placement.offer(agent)


def find_wrong(state: SchedulerState) -> list[str]:
    """Return a sentence for each count that is wrong, and correct none."""
    return _compare(state, Census())


def _compare(state: SchedulerState, census: Census) -> list[str]:
    """Take the census, and compare all counts with it. Return a sentence for each that was wrong."""
    for client in state.clients.values():
        census.subject = f"client {client.session.hex()[:8]}: "
        client.table.recount(census)
        client.compare_bytes(census)
    census.subject = ""
    for queue in (*state.placement.classes.values(), *state.actors):
        census.compare_queue(queue)
    for agent in state.agents.values():
        census.compare_agent(agent.load, agent.capacity)
        census.compare_reserved(agent.load)
    census.compare_functions(list(state.function_loads.values()))
    for index in census.unknown_agents(state.agent_by_index):
        census.must_correct(f"tasks are with agent {index}, which is not there")  # nothing here can correct this
    _compare_total(state, census)
    _compare_users(census, state.function_users, [client.functions for client in state.clients.values()], "functions")
    _compare_users(
        census, state.serializer_users, [client.serializers for client in state.clients.values()], "serializers"
    )
    return census.wrong


def _compare_total(state: SchedulerState, census: Census) -> None:
    """Compare the number of tasks of all clients."""
    noted, counted = state.totals.unfinished, sum(client.table.columns.unfinished for client in state.clients.values())
    if noted != counted and census.must_correct(f"{noted} tasks of all clients, {counted} counted"):
        state.totals.unfinished = counted


def _compare_users(census: Census, users: dict[bytes, int], of_clients: Iterable[Iterable[bytes]], name: str) -> None:
    """Compare the number of clients that have each definition of one kind."""
    counted = dict(Counter(digest for digests in of_clients for digest in digests))
    if users != counted and census.must_correct(
        f"{len(users)} {name} of {sum(users.values())} clients, {len(counted)} of {sum(counted.values())} counted"
    ):
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
