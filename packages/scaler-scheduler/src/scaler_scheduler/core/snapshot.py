"""The snapshot for monitors, read from the state."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from scaler_protocol.groups import USUAL_WEIGHT
from scaler_protocol.ids import shown_id
from scaler_protocol.keys import name_of_user
from scaler_protocol.messages import Status, WorkerStatus
from scaler_protocol.monitor.messages import (
    DURATION_BOUNDS_SECONDS,
    AgentStatus,
    ClientStatus,
    EventTotals,
    FunctionStatus,
    GraphStatus,
    GroupStatus,
    HostStoreStatus,
    PeerState,
    SchedulerStatus,
    Setting,
    Snapshot,
    TaskCounts,
)
from scaler_scheduler.core import actor_reports, managers, maps, object_reports, unsent_calls
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.availability import SILENT, unavailability
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.draining import is_draining
from scaler_scheduler.core.function_keys import FunctionKey
from scaler_scheduler.core.function_numbers import FunctionNumbers
from scaler_scheduler.core.function_totals import NAME_LIMIT, FunctionTotal
from scaler_scheduler.core.running_tasks import running_tasks_of
from scaler_scheduler.core.share_reports import shares_of
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import ON_HOSTS, UNASSIGNED, TaskState
from scaler_scheduler.core.traffic import traffic_of
from scaler_scheduler.core.waits import waits_of

_ROWS_SHOWN = 200
_NODES_COUNTED = 1_000_000
"""Nodes of all graphs together that one snapshot looks at: more would keep the scheduler too long."""

_DURATION_BOUNDS_US = [round(bound * 1e6) for bound in DURATION_BOUNDS_SECONDS]
_name_of = attrgetter("name")
_SUCCESSES = (Status.SUCCESS, Status.SUCCESS_LARGE)
_OTHERS = (Status.SUCCESS, Status.SUCCESS_LARGE, Status.CANCELLED, Status.NOT_FOUND)


def snapshot_of(state: SchedulerState, now: float) -> Snapshot:
    waits, wait_count = waits_of(state, now, _ROWS_SHOWN)
    actors, actor_count = actor_reports.actors_of(state, now)
    functions = state.function_totals.with_current(state.function_loads.values(), unsent_calls.counts_of(state))
    return Snapshot(
        scheduler=_scheduler(state, now),
        tasks=_tasks(state),
        agents=tuple(_agent(state, agent, now) for agent in state.agents.values() if agent.attached),
        clients=_clients(state),
        groups=_groups(state),
        actors=actors,
        actor_count=actor_count,
        ended_clients=state.ended_clients.rows(),
        functions=_functions(functions, state.function_totals.numbers),
        settings=_settings(state),
        stores=tuple(_stores(state)),
        maps=maps.maps_of(state),
        traffic=traffic_of(state),
        objects=object_reports.largest_objects(state),
        waits=tuple(waits),
        wait_count=wait_count,
        graphs=tuple(graphs_of(state, _ROWS_SHOWN)),
        graph_count=sum(len(client.table.nodes.graphs) for client in state.clients.values()),
        events=EventTotals(state.events.recorded, state.events.dropped),
        function_count=len(functions),
    )


def _stores(state: SchedulerState) -> Iterator[HostStoreStatus]:
    """Agents of one host share a store."""
    for agents in state.agents_by_store.values():
        said = next((agent.store_status for agent in agents if agent.store_status is not None), None)
        if said is not None:
            yield HostStoreStatus(
                agents[0].host, said.objects, said.used_bytes, said.capacity_bytes, said.spilled_bytes,
                said.sent_bytes, said.received_bytes, agents[0].store_endpoint.partition("#")[0],
                said.disk_free_bytes, said.disk_capacity_bytes,
            )  # fmt: skip


def _scheduler(state: SchedulerState, now: float) -> SchedulerStatus:
    settings = state.settings
    return SchedulerStatus(
        address=settings.address,
        epoch=settings.epoch,
        version=settings.version,
        host=settings.host,
        pid=settings.pid,
        uptime_seconds=now - state.started_at,
    )


def _tasks(state: SchedulerState) -> TaskCounts:
    tables = [client.table for client in state.clients.values()]
    large = sum(table.columns.count(TaskState.DONE_LARGE) for table in tables)
    return TaskCounts(
        unassigned=sum(map(_waiting, state.clients.values())),
        running=sum(table.columns.count(state) for table in tables for state in ON_HOSTS),
        success=large + sum(state.totals.outcome(status) for status in _SUCCESSES),
        failed=sum(state.totals.outcome(status) for status in Status if status not in _OTHERS),
        canceled=state.totals.outcome(Status.CANCELLED),
        not_found=state.totals.outcome(Status.NOT_FOUND),
    )


def _waiting(client: ClientPeer) -> int:
    return sum(client.table.columns.count(state) for state in UNASSIGNED) + unsent_calls.count_of(client)


def _agent(state: SchedulerState, agent: Agent, now: float) -> AgentStatus:
    beat = agent.heartbeat
    return AgentStatus(
        session=agent.shown_id,
        name=agent.name,
        host=agent.host,
        pid=agent.pid,
        state=_state(agent),
        cpu_percent=beat.cpu_percent if beat else 0.0,
        rss_bytes=beat.rss_bytes if beat else 0,
        rss_free_bytes=beat.rss_free_bytes if beat else 0,
        queued=beat.queued if beat else 0,
        lag_seconds=beat.lag_seconds if beat else 0.0,
        sent=agent.load.outstanding,
        free=max(0, agent.load.ceiling - agent.load.outstanding),
        silent_seconds=now - agent.heard_at,
        workers=_workers(agent),
        running=running_tasks_of(state, agent, now),
        memory_limit_bytes=beat.memory_limit_bytes if beat else 0,
        capabilities=agent.shown_capabilities,
        capabilities_left=agent.shown_capabilities_left(),
        draining=is_draining(agent),
    )


def _state(agent: Agent) -> PeerState:
    reason = unavailability(agent)
    if not reason:
        return PeerState.CONNECTED
    return PeerState.SUSPECT if reason == SILENT else PeerState.PAUSED


def _workers(agent: Agent) -> tuple[WorkerStatus, ...]:
    """All that the agent announced when it attached, with what its last heartbeats said of them."""
    if tuple(map(_name_of, agent.workers)) == agent.worker_names:
        return agent.workers
    reported = {status.name: status for status in agent.workers}
    return tuple(reported.get(name) or _starting_worker(name) for name in agent.worker_names)


def _starting_worker(name: str) -> WorkerStatus:
    return WorkerStatus(name, pid=0, cpu_percent=0.0, rss_bytes=0, initialized=False, has_task=False, slot_lent=False)


def _clients(state: SchedulerState) -> tuple[ClientStatus, ...]:
    shares = shares_of(state)
    asked = {
        client.table.columns.share: client.hello.weight or USUAL_WEIGHT
        for client in state.clients.values()
        if not client.is_nested
    }
    return tuple(
        _client(client, shares.get(share, 0.0), asked.get(share, 0.0))
        for client, share in ((each, each.table.columns.share) for each in state.clients.values())
    )


def _groups(state: SchedulerState) -> tuple[GroupStatus, ...]:
    groups = state.shares.groups.values()
    return tuple(GroupStatus(group.name, group.weight, group.worker_limit) for group in groups)


def _client(client: ClientPeer, share: float, asked_weight: float) -> ClientStatus:
    return ClientStatus(
        session=client.shown_id,
        host=client.hello.host,
        pid=client.hello.pid,
        connected=client.connection.is_open,
        unassigned=_waiting(client),
        running=sum(client.table.columns.count(state) for state in ON_HOSTS),
        finished=client.table.columns.finished,
        parent_session=shown_id(client.hello.parent_session),
        group=client.table.columns.share.group.name,
        weight=client.table.columns.share.weight,
        share=share,
        used_seconds=0.0 if client.is_nested else client.table.columns.share.used_us / 1e6,
        failed=client.table.columns.failed,
        canceled=client.table.columns.canceled,
        user=client.hello.user,
        key_name=name_of_user(client.user),
        program=client.hello.program,
        asked_weight=asked_weight,
    )


def _functions(totals: dict[FunctionKey, FunctionTotal], numbers: FunctionNumbers) -> tuple[FunctionStatus, ...]:
    """Return the functions that stay, because a counter that has been shown must not disappear, and as many others
    with most to do: there may be as many as tasks."""
    shown = list(totals.items())
    if len(shown) > NAME_LIMIT:
        shown.sort(key=lambda entry: (not entry[1].stays, -entry[1].unfinished))
        shown[NAME_LIMIT:] = sorted(shown[NAME_LIMIT:], key=lambda entry: -entry[1].unfinished)[:NAME_LIMIT]
    return tuple(_function(name, total, numbers.number_of(name)) for name, total in shown)


def _function(name: FunctionKey, total: FunctionTotal, number: int) -> FunctionStatus:
    dependencies, waiting, fetching, loading, storing = (part / 1e6 for part in total.parts_us)
    return FunctionStatus(
        digest=total.digest,
        name=name.name,
        unfinished=total.unfinished,
        finished=total.finished,
        succeeded=total.succeeded,
        failed=total.finished - total.succeeded - total.canceled,
        canceled=total.canceled,
        duration_seconds=total.total_us / 1e6,
        cpu_seconds=total.cpu_us / 1e6,
        executions=total.durations.count,
        median_seconds=total.durations.quantile(0.5) / 1e6,
        p95_seconds=total.durations.quantile(0.95) / 1e6,
        longest_seconds=total.durations.longest_us / 1e6,
        duration_counts=total.durations.counts_between(_DURATION_BOUNDS_US),
        wait_counts=total.waits.counts_between(_DURATION_BOUNDS_US),
        dependencies_seconds=dependencies,
        waiting_seconds=waiting,
        fetching_seconds=fetching,
        loading_seconds=loading,
        storing_seconds=storing,
        number=number,
        module=name.module,
    )


def _settings(state: SchedulerState) -> tuple[Setting, ...]:
    shown = (Setting(name, value) for name, value in state.settings.shown)
    return (*shown, *(Setting(f"worker manager {name}", text) for name, text in managers.descriptions(state)))


def graphs_of(state: SchedulerState, limit: int) -> list[GraphStatus]:
    """The latest of each client first."""
    found: list[GraphStatus] = []
    nodes = 0
    for client in state.clients.values():
        for last, graph in reversed(client.table.nodes.graphs.items()):
            if len(found) == limit or nodes + graph.count > _NODES_COUNTED:
                break
            nodes += graph.count
            found.append(GraphStatus(client.shown_id, last, *client.table.nodes.count_nodes(graph)))
    return found
