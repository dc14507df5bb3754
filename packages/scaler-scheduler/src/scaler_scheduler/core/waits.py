"""The reasons why tasks do not run, for monitors: all that wait, grouped by function and reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler_protocol.messages import UnsentCount
from scaler_protocol.monitor.messages import WaitGroup
from scaler_scheduler.core import explanation, unsent_calls
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.waiting_tasks import waiting_tasks

RUNS_LIMIT = 10_000
"""Runs of all queues together that are looked at; the tasks in further ones of a queue are one group."""

QUEUES_LIMIT = 200
"""Queues that are looked at, the longest ones; the tasks in further ones are one group."""

OTHERS = "other functions"
_OTHER_QUEUES = "Waits for workers with capabilities that few tasks need."
_STATES = (
    (TaskState.PENDING, "Waits for results of other tasks of its graph."),
    (TaskState.HELD, "Waits a second after the scheduler's restart, in case an agent already has it."),
    (TaskState.WAITING, "Waits outside the queue, which is full."),
)


@dataclass
class _Waits:
    now: float
    groups: dict[tuple[bytes, str], WaitGroup]

    def add(
        self,
        function: FunctionLoad | UnsentCount | None,
        reason: str,
        count: int,
        since: float,
        session: bytes = b"",
        task: int = 0,
    ) -> None:
        """``function`` is None for tasks of several functions."""
        digest = b"" if function is None else function.digest
        seconds = max(0.0, self.now - since)
        known = self.groups.get((digest, reason))
        if known is None:
            name, module = (OTHERS, "") if function is None else (function.name, function.module)
            self.groups[digest, reason] = WaitGroup(digest, name, reason, count, seconds, session, task, module)
        elif seconds > known.oldest_seconds:
            self.groups[digest, reason] = replace(
                known, count=known.count + count, oldest_seconds=seconds, session=session, task=task
            )
        else:
            self.groups[digest, reason] = replace(known, count=known.count + count)


def waits_of(state: SchedulerState, now: float) -> list[WaitGroup]:
    """Return all tasks that wait, grouped, the groups with the most tasks first."""
    waits = _Waits(now, {})
    _add_queued(state, waits)
    for client in state.clients.values():
        _add_others(client, waits)
    for agent in state.agents.values():
        if agent.load.outstanding and not agent.is_available and not agent.is_leaving and not agent.is_paused:
            reason = f"Is with {agent.title()}, which is silent; it runs again elsewhere when that agent is given up."
            waits.add(None, reason, agent.load.outstanding, agent.heard_at)
    return sorted(waits.groups.values(), key=lambda group: -group.count)


def _add_queued(state: SchedulerState, waits: _Waits) -> None:
    reserved = _add_reserved(state, waits)
    queues = [queue for queue in state.placement.classes.values() if queue.count]
    if len(queues) > QUEUES_LIMIT:
        queues.sort(key=lambda queue: -queue.count)
        count = sum(max(0, queue.count - reserved.get(queue, 0)) for queue in queues[QUEUES_LIMIT:])
        waits.add(None, _OTHER_QUEUES, count, waits.now)
        del queues[QUEUES_LIMIT:]
    runs = RUNS_LIMIT // max(1, len(queues))
    for queue in queues:
        found, left_out = waiting_tasks(queue, runs, reserved.get(queue, 0))
        left_out = max(0, left_out - reserved.get(queue, 0))
        for (client, function), (count, since, task, record) in found.items():
            reason = _reason(state, client, record)
            waits.add(function, reason, count, since, client.shown_id, task)
        if left_out and found:
            waits.add(None, reason, left_out, since)


def _add_reserved(state: SchedulerState, waits: _Waits) -> dict[QueueClass, int]:
    """Tasks that wait for the agent that has their objects; how many of each queue."""
    numbers: dict[QueueClass, int] = {}
    for agent in state.agents.values():
        reason = explanation.why_reserved(agent)
        for queue, reservations in agent.load.reserved.items():
            numbers[queue] = numbers.get(queue, 0) + len(reservations)
            for _, _, reservation in reservations[:RUNS_LIMIT]:
                function, since = reservation.record.function, reservation.record.entered_at
                waits.add(function, reason, 1, since, reservation.client.shown_id, reservation.task)
    return numbers


def _reason(state: SchedulerState, client: ClientPeer, record: RunRecord) -> str:
    text = explanation.why_queued(state, client, record)
    return text[0].upper() + text[1:]


def _add_others(client: ClientPeer, waits: _Waits) -> None:
    for state, reason in _STATES:
        count = client.table.columns.count(state)
        if count:
            waits.add(None, reason, count, waits.now, client.shown_id)
    for each in client.unsent:
        waits.add(each, unsent_calls.REASON, each.count, client.unsent_since, client.shown_id)
