"""The reasons why tasks do not run, for monitors: all that wait, grouped by function, client and reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from scaler_protocol.monitor.messages import WaitGroup
from scaler_protocol.monitor.reasons import (
    LIMIT_TAKEN_BY_ACTORS,
    MISSING_CAPABILITIES,
    NO_AVAILABLE_WORKER,
    NO_WORKERS,
    RESULTS_MISSING,
    kind_of,
)
from scaler_scheduler.core import explanation, unsent_calls
from scaler_scheduler.core.agents import Agent, shown_demand
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.share_reports import shares_of
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.waiting_tasks import tasks_outside_queues, waiting_tasks

RUNS_LIMIT = 10_000
"""Maximum number of runs, of all queues together, that are examined. The tasks in further runs of a queue are one
group."""

REASONS_LIMIT = 200
"""Queues, the longest first, whose reasons are told in full. Of further ones, only whether a worker can run them."""

QUEUES_LIMIT = 2_000
"""Maximum number of queues that are examined, the longest first. The tasks in further queues are one group."""

OFFERS_LOOKS_LIMIT = 100_000
"""The same number is smaller if workers have so many different capabilities that more than this would be compared."""

FURTHER_LIMIT = 20
"""Groups that stand for all those without room."""

OUTSIDE_LIMIT = 100_000
"""Maximum number of runs of few tasks, of all clients together, that are searched for tasks outside queues. Tasks in
further runs are one group for each client and state."""

PLACES_LIMIT = 20_000
"""Maximum number of clients and ranges of queues that are examined for places in queues, for all groups together."""

OTHERS = "other functions"
_OTHER_QUEUES = "Waits for workers with capabilities that few tasks need."
_KINDS = {
    NO_WORKERS: NO_WORKERS.capitalize(),
    MISSING_CAPABILITIES: MISSING_CAPABILITIES.capitalize(),
    NO_AVAILABLE_WORKER: f"{NO_AVAILABLE_WORKER.capitalize()} paused, draining or silent",
    LIMIT_TAKEN_BY_ACTORS: LIMIT_TAKEN_BY_ACTORS.capitalize(),
    RESULTS_MISSING: RESULTS_MISSING.capitalize(),
    "": "Waits",
}
"""The beginnings of sentences that stand for several reasons."""

_REASONS = {
    TaskState.PENDING: f"{RESULTS_MISSING.capitalize()}.",
    TaskState.HELD: "Waits for some seconds after the scheduler's restart, in case an agent already has it.",
    TaskState.WAITING: "Waits outside the queue, which is full.",
}


_client_and_function = attrgetter("digest", "function", "session", "module")


def _client_alone(group: WaitGroup) -> tuple[bytes, str, bytes, str]:
    return b"", OTHERS, group.session, ""


def _neither(group: WaitGroup) -> tuple[bytes, str, bytes, str]:
    return b"", OTHERS, b"", ""


@dataclass
class _Found:
    """``client`` and ``record``: of the example, if it is queued."""

    group: WaitGroup
    client: ClientPeer | None = None
    record: RunRecord | None = None


@dataclass
class _Waits:
    now: float
    found: dict[tuple[bytes, bytes, str, str], _Found]

    def add(self, group: WaitGroup, client: ClientPeer | None = None, record: RunRecord | None = None) -> None:
        """Groups of the same function, client, capabilities and reason are one."""
        key = group.digest, group.session, group.demand, group.reason
        known = self.found.get(key)
        if known is None:
            self.found[key] = _Found(group, client, record)
            return
        count = known.group.count + group.count
        group, known.group = _with_priorities_of(group, known.group), _with_priorities_of(known.group, group)
        if group.oldest_seconds > known.group.oldest_seconds:
            self.found[key] = _Found(replace(group, count=count), client, record)
        else:
            known.group = replace(known.group, count=count)

    def add_some(self, reason: str, count: int, since: float, session: bytes = b"") -> None:
        """Tasks of several functions."""
        self.add(WaitGroup(b"", OTHERS, reason, count, max(0.0, self.now - since), session))

    def add_of_function(
        self, function: FunctionLoad, reason: str, count: int, since: float, client: ClientPeer, task: int,
        record: RunRecord, priorities: tuple[int, int], *, is_queued: bool = False,
    ) -> None:  # fmt: skip
        """``priorities``: the lowest and the highest one."""
        group = WaitGroup(
            function.digest, function.name, reason, count, max(0.0, self.now - since), client.shown_id, task,
            function.module, shown_demand(record.demand), "", record.priority, *priorities,
        )  # fmt: skip
        self.add(group, client if is_queued else None, record)


def _with_priorities_of(group: WaitGroup, other: WaitGroup) -> WaitGroup:
    """Return the group, with priorities that include those of the other one."""
    lowest = min(group.lowest_priority, other.lowest_priority)
    highest = max(group.highest_priority, other.highest_priority)
    if (lowest, highest) == (group.lowest_priority, group.highest_priority):
        return group
    return replace(group, lowest_priority=lowest, highest_priority=highest)


def waits_of(state: SchedulerState, now: float, limit: int) -> tuple[list[WaitGroup], int]:
    """Return at most ``limit`` groups, those with the most tasks first, and how many groups there are."""
    waits = _Waits(now, {})
    _add_queued(state, waits)
    room = OUTSIDE_LIMIT
    for client in state.clients.values():
        room = _add_outside_queues(client, waits, room)
    for agent in state.agents.values():
        if agent.load.outstanding and not agent.is_available and not agent.is_leaving and not agent.is_paused:
            reason = f"Is with {agent.title()}, which is silent; it runs again elsewhere when that agent is given up."
            waits.add_some(reason, agent.load.outstanding, agent.heard_at)
    found = sorted(waits.found.values(), key=lambda each: -each.group.count)
    return list(_placed(state, _shortened(found, limit))), len(found)


def _shortened(found: list[_Found], limit: int) -> list[_Found]:
    """Return at most ``limit`` groups with all tasks. Those without room are added up by kind of reason, and also by
    client and function if these are few."""
    if len(found) <= limit:
        return found
    room = min(FURTHER_LIMIT, limit // 2)
    rest = [each.group for each in found[limit - room :]]
    for known in (_client_and_function, _client_alone, _neither):
        further = _added_up(rest, known)
        if len(further) <= room:
            break
    return found[: limit - room] + [_Found(each) for each in further]


def _added_up(groups: list[WaitGroup], known: Callable[[WaitGroup], tuple[bytes, str, bytes, str]]) -> list[WaitGroup]:
    """``known``: what the members of a sum have in common, other than the kind of their reason: digest, function,
    session and module."""
    kinds: dict[str, str] = {}
    parts: dict[tuple[str, tuple[bytes, str, bytes, str]], list[WaitGroup]] = {}
    for each in groups:
        kind = kinds.get(each.reason)
        if kind is None:
            kind = kinds[each.reason] = kind_of(each.reason)
        parts.setdefault((kind, known(each)), []).append(each)
    return [_sum_of(part, kind, *common) for (kind, common), part in parts.items()]


def _sum_of(groups: list[WaitGroup], kind: str, digest: bytes, function: str, session: bytes, module: str) -> WaitGroup:
    if len(groups) == 1:
        return groups[0]
    is_one = len({each.reason for each in groups}) == 1
    reason = groups[0].reason if is_one else f"{_KINDS[kind]}: {len(groups)} more reasons."
    count, oldest = sum(each.count for each in groups), max(each.oldest_seconds for each in groups)
    lowest, highest = min(each.lowest_priority for each in groups), max(each.highest_priority for each in groups)
    return WaitGroup(
        digest, function, reason, count, oldest, session, module=module, priority=lowest, lowest_priority=lowest,
        highest_priority=highest,
    )  # fmt: skip


def _placed(state: SchedulerState, found: list[_Found]) -> Iterator[WaitGroup]:
    """The groups with the places of their examples in the queues, as long as these are found quickly."""
    shares = shares_of(state)
    room = PLACES_LIMIT
    for each in found:
        place = ""
        if each.client is not None and each.record is not None:
            cost = each.record.queue.count_ranges(each.client.table)
            if cost <= room:
                room -= cost
                place = explanation.more_of_queued(state, shares, each.client, each.group.task, each.record)
        yield replace(each.group, place=place) if place else each.group


def _add_queued(state: SchedulerState, waits: _Waits) -> None:
    reserved = _add_reserved(state, waits)
    queues = [queue for queue in state.placement.classes.values() if queue.count]
    offers = []
    if len(queues) > REASONS_LIMIT:
        queues.sort(key=lambda queue: -queue.count)
        offers = _different_offers(state)
        limit = min(QUEUES_LIMIT, REASONS_LIMIT + OFFERS_LOOKS_LIMIT // (len(offers) + 1))
        _add_without_look(waits, queues, limit, reserved)
    runs = RUNS_LIMIT // max(1, len(queues))
    for place, queue in enumerate(queues):
        found, left_out = waiting_tasks(queue, runs, reserved.get(queue, 0))
        left_out = max(0, left_out - reserved.get(queue, 0))
        reasons: dict[ClientPeer, str] = {}  # the same for all functions
        for (client, function), (count, since, task, record, lowest, highest) in found.items():
            if client not in reasons:
                is_told = place < REASONS_LIMIT
                reasons[client] = _reason(state, client, record) if is_told else _short_reason(offers, record)
            reason = reasons[client]
            priorities = lowest, highest
            waits.add_of_function(function, reason, count, since, client, task, record, priorities, is_queued=True)
        if left_out and found:
            waits.add_some(reason, left_out, since)


def _add_reserved(state: SchedulerState, waits: _Waits) -> dict[QueueClass, int]:
    """Tasks that wait for the agent that has their objects; how many of each queue."""
    numbers: dict[QueueClass, int] = {}
    for agent in state.agents.values():
        reason = explanation.why_reserved(agent)
        for queue, reservations in agent.load.reserved.items():
            numbers[queue] = numbers.get(queue, 0) + len(reservations)
            for _, _, reservation in reservations[:RUNS_LIMIT]:
                record = reservation.record
                waits.add_of_function(
                    record.function, reason, 1, record.entered_at, reservation.client, reservation.task, record,
                    (record.priority, record.priority),
                )  # fmt: skip
    return numbers


def _add_without_look(waits: _Waits, queues: list[QueueClass], limit: int, reserved: dict[QueueClass, int]) -> None:
    """Add the tasks of the queues beyond the limit as one group, and leave these queues out."""
    count = sum(max(0, queue.count - reserved.get(queue, 0)) for queue in queues[limit:])
    del queues[limit:]
    if count:
        waits.add_some(_OTHER_QUEUES, count, waits.now)


def _different_offers(state: SchedulerState) -> list[Agent]:
    """Return an agent for each combination of capabilities that workers have."""
    agents = state.placement.agents.values()
    return list({frozenset(agent.capabilities.items()): agent for agent in agents}.values())


def _short_reason(offers: list[Agent], record: RunRecord) -> str:
    if offers and not any(agent.can_serve(record.demand) for agent in offers):
        return f"{MISSING_CAPABILITIES.capitalize()} ({shown_demand(record.demand)})."
    return _OTHER_QUEUES if offers else f"{NO_WORKERS.capitalize()}."


def _reason(state: SchedulerState, client: ClientPeer, record: RunRecord) -> str:
    text = explanation.why_queued(state, client, record)
    return text[0].upper() + text[1:]


def _add_outside_queues(client: ClientPeer, waits: _Waits, room: int) -> int:
    """Return what is left of ``room``."""
    found, left_out, room = tasks_outside_queues(client.table.columns, room)
    for (state, function), (count, since, task, record, lowest, highest) in found.items():
        reason = _REASONS[TaskState(state)]
        waits.add_of_function(function, reason, count, since, client, task, record, (lowest, highest))
    for state, count in left_out.items():
        waits.add_some(_REASONS[TaskState(state)], count, waits.now, client.shown_id)
    for each in client.unsent:
        seconds = max(0.0, waits.now - client.unsent_since)
        shown = each.digest, each.name, unsent_calls.REASON, each.count, seconds, client.shown_id, 0, each.module
        waits.add(WaitGroup(*shown))
    return room
