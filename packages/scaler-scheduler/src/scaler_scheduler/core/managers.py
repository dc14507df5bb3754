"""Worker managers: they report what they run, and are told how many workers to run.

| Event | Consequence |
|---|---|
| a manager reports, once a second | it is told how many workers the tasks need, within its bounds |
| its bounds are 0: it keeps a number of workers itself | monitors show what it reports |
| fewer are needed than run | its agents without tasks are drained: first those without values of tasks |
| only agents with values are left to drain | one at a time is drained, if another agent can keep its values |
| it does not say that it leaves, or may leave and stays | the next one has its turn |
| it says goodbye, or its connection is lost | its agents remain; nothing is started or drained until it reports again |
| another one has its name | it gets no order until that one reports again, and is then refused |
| the one that had its name is silent for some seconds, or its connection is lost | it has the name |

A manager has the session of an agent that never attaches, so it has no tasks. Agents name the manager that started
them (``AgentAttach.manager``). Nothing is kept of a manager that is gone: its next report says everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scaler_protocol.limits import WORKERS_LIMIT
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    ManagerOrder,
    ManagerReport,
    RefusalReason,
    Refused,
)
from scaler_scheduler.core import draining, notices, outbox, recording, scaling, session_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.supplies import Demand, RecentlyBusy, RecentNeeds, Supply, WorkerManager
from scaler_scheduler.core.waiting_tasks import waiting_tasks

RUNS_LIMIT, FEWEST_RUNS = 10_000, 50
"""Runs of all queues together that are looked at, but for the fewest of each one. The tasks in further runs of a queue
are assumed to take as long."""

REPORTS_LIMIT = 10
"""Reports of one manager in a second that are considered. Further ones get the last answer."""

SILENCE_SECONDS = 3.0
"""A manager that has been silent for this long does not keep its name. Until then it may have been killed with its
host, and the next one of its name waits."""

SHORTEST_TARGET_SECONDS = 0.001

HOLDERS_LIMIT = 10
"""Agents with values for which it is found out, in one decision, whether another one has room for them."""

KEEPING_TEXT = "Jobs that stay because no other worker can keep their results: {}."
CLAIM_TEXT = "A second worker manager {} has joined. It waits until the first one reports, or is silent."
NAME_TAKEN_TEXT = "Another worker manager is called {name!r}. Give this one another --name, or stop the other one."


def on_report(state: SchedulerState, agent: Agent, body: ManagerReport, now: float) -> None:
    """A manager says what it runs, and what it can start."""
    if agent.attached:
        return
    holder = _holder(state, agent, body.name, now)
    refused = _refusal(agent, body, holder)
    if refused is not None:
        outbox.refuse(state, agent.session, refused, None)
        session_endings.end_session(state, agent.session, now)
        return
    if holder is not None:
        _claim(state, agent, holder, now)
        return
    manager = _manager(state, agent, body, now)
    if manager.may_decide(REPORTS_LIMIT, now):
        _decide(state, manager, body, now)
    outbox.send(state, agent, ManagerOrder(manager.ordered), now)


def _decide(state: SchedulerState, manager: WorkerManager, body: ManagerReport, now: float) -> None:
    """Return how many workers the manager should run."""
    needs = scaling.needs_of(demands(state), supplies(state, now), body.target_seconds)
    manager.needed = needs[body.name]
    manager.ordered = manager.recent_needs.highest(manager.needed, now)
    _drain_surplus(state, manager, now)


def _refusal(agent: Agent, body: ManagerReport, holder: WorkerManager | None) -> Refused | None:
    """Return why a report is not accepted; None: it is, or may be. ``holder``: another manager that has the name."""
    seconds = body.target_seconds, body.cool_down_seconds
    are_bounds = body.minimum <= body.maximum <= WORKERS_LIMIT
    if not body.name or not are_bounds or seconds[0] < SHORTEST_TARGET_SECONDS or seconds[1] < 0:
        return Refused(RefusalReason.MALFORMED, "The report of this worker manager is not valid.")
    if holder is not None and holder.reported_at > holder.claims.get(agent.session, math.inf):
        return Refused(RefusalReason.SESSION, NAME_TAKEN_TEXT.format(name=body.name))
    return None


def _holder(state: SchedulerState, agent: Agent, name: str, now: float) -> WorkerManager | None:
    """Return the other manager that has the name. One that was killed is replaced by the next one of its name."""
    for other in state.agents.values():
        manager = other.manager
        if manager is None or other is agent or manager.is_replaced or manager.report.name != name:
            continue
        if other.connection.is_open and now - other.heard_at < SILENCE_SECONDS:
            return manager
    return None


def _claim(state: SchedulerState, agent: Agent, holder: WorkerManager, now: float) -> None:
    """A manager asks for the name of another one, which lives if it reports after this."""
    for gone in holder.claims.keys() - state.agents.keys():
        del holder.claims[gone]
    if agent.session not in holder.claims:
        holder.claims[agent.session] = now
        notices.log(state, CLAIM_TEXT.format(holder.report.name))


def _manager(state: SchedulerState, agent: Agent, body: ManagerReport, now: float) -> WorkerManager:
    """Return the record of the manager, with this report."""
    if agent.manager is None:
        notices.log(state, f"Worker manager {body.name} joined")
        agent.manager = WorkerManager(
            body, RecentNeeds(body.cool_down_seconds), RecentlyBusy(body.cool_down_seconds / 2)
        )
        recording.note_manager_joined(state, agent)
    for manager in current_managers(state):
        manager.is_replaced |= manager.report.name == body.name
    agent.manager.report, agent.manager.reported_at, agent.manager.is_replaced = body, now, False
    return agent.manager


# ---- what is needed --------------------------------------------------------------------------------------------------


def demands(state: SchedulerState) -> list[Demand]:
    """Return the tasks that wait for a worker, by what they require."""
    queues = [queue for queue in state.placement.classes.values() if queue.count]
    runs = max(FEWEST_RUNS, RUNS_LIMIT // max(1, len(queues)))
    return [_demand(queue, runs) for queue in queues]


def _demand(queue: QueueClass, runs: int) -> Demand:
    """``runs``: so many of it are looked at."""
    groups, left_out = waiting_tasks(queue, runs, 0)
    counted = sum(group[0] for group in groups.values())
    seconds = sum(group[0] * function.estimate_us for (_, function), group in groups.items()) / 1e6
    tasks = counted + left_out
    return Demand(queue.demand, tasks, seconds * tasks / counted if counted else 0.0)


def supplies(state: SchedulerState, now: float) -> list[Supply]:
    """The connected managers, and the agents that none of them has started: those with equal capabilities together."""
    managers = {manager.report.name: manager for manager in current_managers(state)}
    agents_of: dict[str, list[Agent]] = {name: [] for name in managers}
    others: dict[frozenset[tuple[str, int]], list[Agent]] = {}
    for agent in state.agents.values():
        if agent.attached and agent.manager_name in managers:
            agents_of[agent.manager_name].append(agent)
        elif agent.is_available:
            others.setdefault(frozenset(agent.capabilities.items()), []).append(agent)
    found = [_of_manager(manager, agents_of[name], now) for name, manager in managers.items()]
    return [*found, *map(_of_agents, others.values())]


def current_managers(state: SchedulerState) -> list[WorkerManager]:
    """Return the managers that have their names."""
    known = [agent.manager for agent in state.agents.values() if agent.manager is not None]
    return [manager for manager in known if not manager.is_replaced]


def _agents_of(state: SchedulerState, name: str) -> list[Agent]:
    return [agent for agent in state.agents.values() if agent.attached and agent.manager_name == name]


def _of_manager(manager: WorkerManager, agents: list[Agent], now: float) -> Supply:
    report = manager.report
    busy = sum(min(agent.load.outstanding, agent.load.slots) for agent in agents)
    return Supply(
        report.name,
        {capability.name: capability.units for capability in report.capabilities},
        report.minimum,
        report.maximum,
        report.cost_per_worker_hour,
        report.starting + report.running,
        sum(_occupied(agent, report.target_seconds) for agent in agents),
        manager.recently_busy.note(busy, now),
    )


def _of_agents(agents: list[Agent]) -> Supply:
    """Workers that no manager starts or stops."""
    slots = sum(agent.load.slots for agent in agents)
    busy = sum(min(agent.load.outstanding, agent.load.slots) for agent in agents)
    return Supply(agents[0].session.hex(), agents[0].capabilities, 0, slots, -1.0, slots, busy)


def _occupied(agent: Agent, target_seconds: float) -> int:
    """Return how many of its workers need at least the target time for what they have."""
    tasks = min(agent.load.outstanding, agent.load.slots)
    return min(tasks, math.ceil(agent.load.load_us / 1e6 / target_seconds))


# ---- fewer workers ---------------------------------------------------------------------------------------------------


def _drain_surplus(state: SchedulerState, manager: WorkerManager, now: float) -> None:
    """Drain agents without tasks while enough workers remain: first those without values, then one whose values another
    agent can keep. The next one has its turn when these have moved, so there is room for them, and little moves at a
    time."""
    agents = [agent for agent in _agents_of(state, manager.report.name) if agent.is_available]
    surplus = sum(agent.load.slots for agent in agents) - manager.ordered
    idle = [agent for agent in agents if not agent.load.outstanding and agent.load.slots <= surplus]
    able = [agent for agent in idle if agent.hello.minor >= CONTROL_SINCE_MINOR]
    manager.keeping = 0
    if not able:
        return
    held = draining.count_values(state)
    for agent in sorted(able, key=lambda each: (-each.load.slots, each.index)):
        if agent.load.slots <= surplus and not held[agent.index]:
            surplus -= agent.load.slots
            draining.drain(state, agent, now)
    if not any(_moves_values(state, each, held, now) for each in state.agents.values()):
        holders = [each for each in able if held[each.index] and each.load.slots <= surplus]
        if not _drain_one_with_values(state, manager, holders, held, now):
            manager.keeping = len(holders)


def _moves_values(state: SchedulerState, agent: Agent, held: Sequence[int], now: float) -> bool:
    """Return whether an agent that was told to leave still has values that move. One that does not say that it leaves
    is not waited for without end, nor is one that may leave and stays."""
    if not agent.is_drained or agent.load.outstanding or not held[agent.index]:
        return False
    departure = state.departures.get(agent.session)
    return now - agent.drained_at < draining.PATIENCE_SECONDS if departure is None else not departure.is_over


def _drain_one_with_values(
    state: SchedulerState, manager: WorkerManager, holders: list[Agent], held: Sequence[int], now: float
) -> bool:
    """Drain the agent with the fewest values that another agent can keep. Returns whether there is one. If there is
    none among those that were looked at, the next ones have their turn at the next decision."""
    ordered = sorted(holders, key=lambda each: (held[each.index], each.index))
    first = manager.looked_at if manager.looked_at < len(ordered) else 0
    for agent in ordered[first : first + HOLDERS_LIMIT]:
        if draining.can_move(state, agent):
            manager.looked_at = 0
            draining.drain(state, agent, now)
            return True
    manager.looked_at = first + HOLDERS_LIMIT
    return False


# ---- for monitors ----------------------------------------------------------------------------------------------------


def descriptions(state: SchedulerState) -> list[tuple[str, str]]:
    """Return the name of each manager, with a text about its workers, and with each reason why some are missing."""
    return [described for manager in current_managers(state) for described in _description(manager)]


def _description(manager: WorkerManager) -> Iterator[tuple[str, str]]:
    report = manager.report
    counts = f"{report.running} running, {report.starting} starting"
    if report.maximum:  # otherwise it keeps a number of workers that is its own affair
        counts = f"{counts}, {manager.ordered} wanted ({report.minimum} to {report.maximum})"
    keeping = [KEEPING_TEXT.format(manager.keeping)] if manager.keeping else []
    yield report.name, " ".join([f"{counts}.", *keeping])
    for number, reason in enumerate(report.reasons, 1):
        yield f"{report.name} ({number})", reason
