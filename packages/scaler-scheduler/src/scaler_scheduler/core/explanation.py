"""The state of a task, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler_protocol.messages import Explanation, ManagerReport, RunningTask
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.format import format_duration, printable
from scaler_protocol.monitor.reasons import MISSING_CAPABILITIES, NO_AVAILABLE_WORKER, NO_WORKERS
from scaler_scheduler.core import lock_table, lost_inputs, named_table, running_tasks, share_reports
from scaler_scheduler.core.agents import Agent, shown_demand, shown_offer
from scaler_scheduler.core.availability import unavailable_text
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.fair_shares import Share
from scaler_scheduler.core.managers import current_managers
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS, TaskState

OFFERS_LIMIT = 3
"""Combinations of capabilities that are named when none suits a task."""

REASONS_SHOWN, REASON_LIMIT = 2, 400
"""Reasons of worker managers that are given, and the characters of each."""

MANAGERS_SHOWN = 3
"""Worker managers that are named when none of them offers what a task needs."""

_BUSY = " busy."


def answer(task: int, text: str) -> Explanation:
    """Clients print it, and it contains the names of functions, hosts and agents of others."""
    return Explanation(task, printable(text))


def explain(state: SchedulerState, session: bytes, task: int) -> str:
    """Return one or two sentences that say where a task is, and why it has not ended."""
    client = state.clients.get(session)
    known = client.table.columns.describe(task) if client is not None else None
    if client is None or known is None:
        return f"Task {task} is not known here: it has ended, or was never submitted."
    where, attempt, agent_index, deaths, losses, record = known
    name = record.run.options.actor_name
    shown = f"{record.function.name}, actor {name!r}" if name else record.function.name
    text = f"Task {task} ({shown}) {_place(state, client, task, where, agent_index, record)}"
    text += lock_table.explain(state.locks, session, task, attempt)
    text += named_table.explain(state.named, session, task, attempt)
    if record.hosts_actor:
        losses += client.failures.get(task, 0)  # its lost inputs, which count apart
    if attempt > 1:
        text += f" This is attempt {attempt}: {deaths} of its worker processes died, {losses} of its workers"
        text += " or inputs were lost."
    return text


def _missing(client: ClientPeer, task: int) -> tuple[list[int], int]:
    """The tasks whose results it needs and which have not ended, and how many results it needs in all."""
    graph = client.table.columns.record(task).graph
    inputs = graph.inputs(task) if graph is not None else _lost_inputs(client, task)
    return [each for each in inputs if client.table.nodes.value_holder(each) is None], len(inputs)


def _lost_inputs(client: ClientPeer, task: int) -> Sequence[int]:
    """Return the inputs of a task that is not a node, if it waits for them."""
    return lost_inputs.inputs_of(client, task) if client.table.awaits_inputs(task) else ()


def _pending(client: ClientPeer, task: int) -> str:
    missing, needed = _missing(client, task)
    shown = ", ".join(str(each) for each in missing[:5]) + (", ..." if len(missing) > 5 else "")
    return f"waits for {len(missing)} of the {needed} results it needs (tasks {shown})."


def _place(
    state: SchedulerState, client: ClientPeer, task: int, where: int, agent_index: int, record: RunRecord
) -> str:
    if where in ON_HOSTS:
        return _assigned(state, client, task, where, agent_index)
    if where == TaskState.WAITING:
        limit = state.settings.max_number_of_tasks_waiting
        return f"waits outside the queue, which holds at most {limit} tasks."
    if where == TaskState.HELD:
        return "waits for some seconds after the scheduler's restart, in case an agent already has it."
    if where == TaskState.PENDING:
        return _pending(client, task)
    if where == TaskState.STORED:
        return f"has finished; its value is at {state.agent_by_index[agent_index].title()} for the tasks that need it."
    if where == TaskState.FREED:
        return "has finished, and no task needs its value any more."
    if where == TaskState.DONE_LARGE:
        return f"has finished; its large result is at {state.agent_by_index[agent_index].title()}."
    if record.is_call:
        return f"is a call that waits until its actor is made.{_maker(state, client, record)}"
    if agent_index in state.agent_by_index:
        return "is queued: " + why_reserved(state.agent_by_index[agent_index])
    why = why_queued(state, client, record)
    queued = state.placement.queued
    why = why.replace(_BUSY, f" busy ({queued} task{'s are' if queued != 1 else ' is'} queued).", 1)
    more = more_of_queued(state, share_reports.shares_of(state), client, task, record)
    return f"is queued: {why} {more}".rstrip()


def _maker(state: SchedulerState, client: ClientPeer, record: RunRecord) -> str:
    """Return where the task is that makes the actor of a call. Clients may name any task: only one that makes an actor
    is looked at."""
    options = record.run.options
    session = options.actor_session or client.session
    maker = state.clients.get(session)
    known = maker.table.columns.describe(options.actor) if maker is not None else None
    if known is not None and not known.record.hosts_actor:
        return ""
    return f" {explain(state, session, options.actor)}"


def why_queued(state: SchedulerState, client: ClientPeer, record: RunRecord) -> str:
    """Return why such tasks are not dispatched; the same for all of them."""
    if client.is_paused:
        return "its client has too many results under way, further tasks wait until it has taken them."
    return share_reports.why_limited(state, client) or _queued(state, record)


def more_of_queued(
    state: SchedulerState, shares: dict[Share, float], client: ClientPeer, task: int, record: RunRecord
) -> str:
    """Return a sentence that goes with ``why_queued``: what workers offer if none of them can run the task, otherwise
    its place in the queue. Empty: there is nothing to say. ``shares``: of ``shares_of``."""
    agents = state.placement.agents.values()
    if agents and not any(agent.can_serve(record.demand) for agent in agents):
        return _offers(agents)
    return share_reports.place_in_queue(shares, client, task, record)


def why_reserved(agent: Agent) -> str:
    """Return why a task waits for a certain agent although others may have room."""
    return f"{agent.title()} has the objects it needs and is busy; if that lasts, they move to another worker."


def _assigned(state: SchedulerState, client: ClientPeer, task: int, where: int, agent_index: int) -> str:
    agent = state.agent_by_index[agent_index]
    if where == TaskState.CANCELLING:
        return f"is being cancelled at {agent.title()}."
    if agent.suspect or not agent.connection.is_open:
        return f"is with {agent.title()}, which is silent; it runs again elsewhere when that agent is given up."
    if _missing(client, task)[0]:
        return f"is with {agent.title()} and {_pending(client, task)}"
    known = client.table.columns.describe(task)
    running = running_tasks.report_of(agent, client.session, task, known.attempt) if known is not None else None
    if running is not None:
        return _running(agent, *running)
    outstanding, slots = agent.load.outstanding, agent.load.slots + agent.load.lent
    if outstanding <= slots:
        return f"is running at {agent.title()}."
    workers = f"{slots} worker" + ("s" if slots != 1 else "")
    return f"is with {agent.title()}, running or next to run ({outstanding} tasks there for {workers})."


def _running(agent: Agent, task: RunningTask, seconds: float) -> str:
    names = agent.worker_names
    worker = f"worker {names[task.worker]}" if 0 <= task.worker < len(names) else "a process for nested tasks"
    text = f"is running in {worker} (pid {task.pid}) at {agent.title()}"
    return f"{text}, for {format_duration(seconds)} when the agent last reported."


def _queued(state: SchedulerState, record: RunRecord) -> str:
    agents = state.placement.agents
    if not agents:
        return f"{NO_WORKERS}.{_managers(state, record)}"
    able = [agent for agent in agents.values() if agent.can_serve(record.demand)]
    demand = shown_demand(record.demand)
    if not able:
        return f"{MISSING_CAPABILITIES} ({demand}).{_managers(state, record)}"
    if state.is_stopping:
        return "the scheduler is stopping and hands out nothing more."
    available, resting = [agent for agent in able if agent.is_available], unavailable_text(able)
    if not available:
        return f"{NO_AVAILABLE_WORKER} {resting}."
    others = f" Others are {resting}." if resting else ""
    if demand and not any(agent.load.fits(record.demand) for agent in available):
        return f"the capabilities it needs ({demand}) are taken by other tasks.{others}"
    workers = sum(agent.load.slots for agent in available)
    busy = "the only worker that could run it is" if workers == 1 else f"all {workers} workers that could run it are"
    return f"{busy}{_BUSY}{_with_actors(workers, available)}{others}"


def _with_actors(workers: int, agents: Iterable[Agent]) -> str:
    """Return a sentence about the actors of these agents, which explain why a short queue does not move."""
    actors = sum(len(agent.actors) for agent in agents)
    if not actors:
        return ""
    if actors > 1:
        return f" {actors} of them have actors, and keep them until they end."
    which = "It" if workers == 1 else "1 of them"
    return f" {which} has an actor, and keeps it until it ends."


def _offers(agents: Iterable[Agent]) -> str:
    """Return a sentence about the capabilities that there are; empty if there are none."""
    offers = list(dict.fromkeys(agent.shown_capabilities or "none" for agent in agents))
    more = f"; and {len(offers) - OFFERS_LIMIT} others" if len(offers) > OFFERS_LIMIT else ""
    return f"Workers offer {'; '.join(offers[:OFFERS_LIMIT])}{more}." if offers != ["none"] else ""


def _managers(state: SchedulerState, record: RunRecord) -> str:
    """Return sentences about the workers that managers are starting for such tasks, and why some are missing, in the
    words of the managers; empty if there are no managers."""
    connected = [manager.report for manager in current_managers(state)]
    reports = [report for report in connected if _offers_all(report, record)]
    if connected and not reports:
        return f" {_unsuitable(connected, shown_demand(record.demand))}"
    starting = sum(report.starting for report in reports)
    said = [f"{report.name}: {reason}" for report in reports for reason in report.reasons if not _is_start(reason)]
    sentences = [f"{starting} worker{'s are' if starting > 1 else ' is'} starting."] if starting else []
    sentences += [f"Worker manager {each[:REASON_LIMIT]}" for each in said[:REASONS_SHOWN]]
    return "".join(f" {each}" for each in sentences)


def _offers_all(report: ManagerReport, record: RunRecord) -> bool:
    """Return whether each worker that the manager starts has what the task needs."""
    offered = {each.name: each.units for each in report.capabilities}
    return all(offered.get(name, 0) >= units for name, units in record.demand)


def _unsuitable(reports: Sequence[ManagerReport], demand: str) -> str:
    """Say that no manager can start a worker for such tasks."""
    said = [
        f"{short_text(each.name)} offers {shown_offer({one.name: one.units for one in each.capabilities}) or 'none'}"
        for each in reports[:MANAGERS_SHOWN]
    ]
    more = f"; and {len(reports) - MANAGERS_SHOWN} others" if len(reports) > MANAGERS_SHOWN else ""
    return (
        f"No worker manager offers {demand}, so none starts workers for it: {'; '.join(said)}{more}. "
        f"Start a worker manager, or workers, with --per-worker-capabilities {demand.replace(', ', ',')}."
    )


def _is_start(reason: str) -> bool:
    return reason.endswith(" starting.")
