"""The rows of the tables: plain values, in the order of the table's columns."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

from scaler_protocol.messages import Status
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.alerts import Alert
from scaler_protocol.monitor.daemon_logs import LogRows
from scaler_protocol.monitor.failures import status_name
from scaler_protocol.monitor.format import format_count, format_end, format_flags
from scaler_protocol.monitor.host_memory import HostMemory, memory_by_host
from scaler_protocol.monitor.messages import (
    UNLIMITED_RESTARTS,
    ActorStatus,
    AgentStatus,
    ClientStatus,
    EndedClientStatus,
    GroupStatus,
    Snapshot,
    WaitGroup,
    user_of_client,
)
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.parts import parts_of_function, parts_of_task, parts_text, spans_text
from scaler_protocol.monitor.progress import CLIENT, FUNCTION, GRAPH, Progress, ProgressWatch, failed_apart
from scaler_protocol.monitor.records import AGAIN, NONE
from scaler_protocol.monitor.running import RunningTaskRow, TaskKey
from scaler_protocol.monitor.shares import group_limit_text, group_weight_text, groups_by_name, weight_text
from scaler_protocol.monitor.store_rates import StoreRate
from scaler_protocol.monitor.stored_objects import functions_of, label_of
from scaler_protocol.monitor.tables import TABLES, Row, TableSpec
from scaler_protocol.monitor.task_log import TaskLog, TaskNumbers
from scaler_protocol.monitor.workers import WorkerRow

_SEARCHED = ("text", "id", "pid")
_RANKED_LIMIT = 1_000_000
_LOG_COLUMNS = {
    "ended": "ended_us",
    "task": "task",
    "session": "session",
    "function": "function",
    "status": "status",
    "duration": "running_us",
    "host": "worker",
    "worker": "worker",
    "actor": "number",
    "attempt": "attempt",
    "parts": "duration_us",
}


class TabularState(Protocol):
    """The part of a ``Model`` that tables show."""

    snapshot: Snapshot | None
    worker_rows: tuple[WorkerRow, ...]
    running: dict[TaskKey, RunningTaskRow]
    store_rates: list[StoreRate]
    traffic_rates: dict[tuple[str, str], float]
    progress: ProgressWatch
    activity: Activity

    @property
    def alerts(self) -> tuple[Alert, ...]: ...

    @property
    def log(self) -> TaskLog: ...

    @property
    def time(self) -> float: ...


def rows_of_table(
    model: TabularState,
    name: str,
    filter_text: str = "",
    sort_key: str | None = None,
    descending: bool | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> tuple[list[Row], int]:
    """See ``Model.rows``."""
    table = TABLES[name]
    key = sort_key or table.default_sort
    if descending is None:
        descending = table.descending if key == table.default_sort else False
    if name == "tasks":
        return _task_rows(model, filter_text, key, descending, offset, limit)
    if name == "logs":
        return _selected_log_rows(model, filter_text, key, descending, offset, limit)
    rows = _filtered(table, _ROWS[name](model), filter_text)
    if limit is None:
        return _ordered(table, rows, key, descending)[offset:], len(rows)
    first = _first_rows(table, rows, key, descending, offset + limit)
    return _ordered(table, first, key, descending)[offset : offset + limit], len(rows)


def rows_where(model: TabularState, name: str, values: Mapping[str, object]) -> list[Row]:
    """The rows of a table, other than that of tasks, with these values in the columns that are named. They stand in the
    table's own order."""
    table = TABLES[name]
    value_of = itemgetter(*map(table.index, values))
    wanted = next(iter(values.values())) if len(values) == 1 else tuple(values.values())
    rows = [row for row in _ROWS[name](model) if value_of(row) == wanted]
    return _ordered(table, rows, table.default_sort, table.descending)


def _filtered(table: TableSpec, rows: Iterable[Row], text: str) -> list[Row]:
    wanted = text.casefold()
    if not wanted:
        return list(rows)
    searched = [index for index, column in enumerate(table.columns) if column.kind in _SEARCHED]
    return [row for row in rows if wanted in "|".join([str(row[index]) for index in searched]).casefold()]


def _first_rows(table: TableSpec, rows: list[Row], key: str, descending: bool, count: int) -> list[Row]:
    """The rows among which the first ``count`` ones are, whatever the order of equal values: a screen shows few of many
    rows, and to order all of them by all columns of the key would take most of its time."""
    if count <= 0:
        return []
    if count >= len(rows):
        return rows
    value_of = _value_of(table, key)
    values = list(map(value_of, rows))
    if descending:
        bound = heapq.nlargest(count, values)[-1]
        return [row for row, value in zip(rows, values, strict=True) if value >= bound]
    bound = heapq.nsmallest(count, values)[-1]
    return [row for row, value in zip(rows, values, strict=True) if value <= bound]


def _ordered(table: TableSpec, rows: list[Row], key: str, descending: bool) -> list[Row]:
    """Equal values stand in the order of the table's key, whichever way the column runs."""
    parts = [_value_of(table, part) for part in table.key]
    rows = sorted(rows, key=lambda row: tuple(part(row) for part in parts))
    return sorted(rows, key=_value_of(table, key), reverse=descending)


def _value_of(table: TableSpec, key: str) -> Callable[[Row], Any]:
    """The value by which a row is sorted."""
    index = table.index(key)
    if table.columns[index].kind == "text":
        return lambda row: natural_key(row[index])
    return itemgetter(index)


# ---- tables made of the last snapshot --------------------------------------------------------------------------------


def _worker_rows(model: TabularState) -> list[Row]:
    return [
        (
            row.pid, row.host, row.name, row.state_name, row.capabilities, row.agent_cpu_percent,
            row.agent_rss_bytes, row.cpu_percent, row.rss_bytes, row.free, row.sent, row.queued, row.lag_seconds,
            format_flags(row.initialized, row.has_task, row.slot_lent),
        )
        for row in model.worker_rows
    ]  # fmt: skip


def _agent_rows(model: TabularState) -> list[Row]:
    return [
        (
            agent.name, agent.host, agent.pid, agent.state_name, len(agent.workers), agent.cpu_percent,
            agent.rss_bytes, agent.rss_free_bytes, agent.free, agent.sent, agent.queued, agent.lag_seconds,
            agent.silent_seconds, agent.capabilities, agent.capabilities_left,
        )
        for agent in _agents(model)
    ]  # fmt: skip


def _host_rows(model: TabularState) -> list[Row]:
    agents: dict[str, list[AgentStatus]] = {}
    for agent in _agents(model):
        agents.setdefault(agent.host, []).append(agent)
    memories = memory_by_host(_agents(model))
    return [_host_row(host, found, memories.get(host, HostMemory())) for host, found in agents.items()]


def _host_row(host: str, agents: Sequence[AgentStatus], memory: HostMemory) -> Row:
    workers = [worker for agent in agents for worker in agent.workers]
    return (
        host, _joined(agent.state_name for agent in agents), memory.used_bytes, memory.limit_bytes,
        memory.share, memory.free_bytes, sum(worker.rss_bytes for worker in workers), len(workers), len(agents),
        sum(worker.cpu_percent for worker in workers), _joined(agent.capabilities for agent in agents),
        "; ".join(agent.capabilities_left for agent in agents if agent.capabilities_left),
    )  # fmt: skip


def _joined(texts: Iterable[str]) -> str:
    """The different ones, as agents of one host may differ in what they offer, and in their states."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _processor_rows(model: TabularState) -> list[Row]:
    return [
        (
            agent.host, agent.name, worker.name, worker.pid, worker.cpu_percent, worker.rss_bytes, worker.initialized,
            worker.has_task, worker.slot_lent,
        )
        for agent in _agents(model)
        for worker in agent.workers
    ]  # fmt: skip


def _client_rows(model: TabularState) -> list[Row]:
    if model.snapshot is None:
        return []
    left = model.progress.by_key(CLIENT)
    groups = groups_by_name(model.snapshot.groups)
    return _present_clients(model.snapshot.clients, groups, left) + _ended_clients(model.snapshot.ended_clients)


def _present_clients(
    clients: Iterable[ClientStatus], groups: Mapping[str, GroupStatus], left: Mapping[Hashable, Progress]
) -> list[Row]:
    return [
        (
            each.pid, each.host, user_of_client(each), each.program, short_id(each.session),
            "connected" if each.connected else "away",
            short_id(each.parent_session), each.unassigned, each.running, each.finished, each.failed, each.canceled,
            each.group, group_weight_text(groups.get(each.group)), group_limit_text(groups.get(each.group)),
            weight_text(each), min(each.share, 1.0), each.used_seconds,
            _seconds_left(left.get(each.session)),
        )
        for each in clients
    ]  # fmt: skip


def _ended_clients(clients: Iterable[EndedClientStatus]) -> list[Row]:
    return [
        (
            each.pid, each.host if each.session else f"{format_count(each.count)} clients", user_of_client(each),
            each.program, short_id(each.session), "ended", "", 0, 0, each.finished, each.failed, each.canceled,
            each.group, "", "", "", 0.0, each.used_seconds, 0.0,
        )
        for each in clients
    ]  # fmt: skip


def _function_rows(model: TabularState) -> list[Row]:
    functions = model.snapshot.functions if model.snapshot is not None else ()
    left = model.progress.by_key(FUNCTION)
    return [
        (
            each.name, each.unfinished, each.finished, each.succeeded, each.failed, each.canceled,
            each.finished / max(1, each.finished + each.unfinished), _seconds_left(left.get(each.name)),
            each.running_seconds / max(1, each.executions or each.succeeded + each.failed),
            each.median_seconds, each.p95_seconds, each.longest_seconds, each.duration_seconds, each.cpu_seconds,
            parts_text(parts_of_function(each)), each.module, short_id(each.digest),
        )
        for each in functions
    ]  # fmt: skip


def _wait_rows(model: TabularState) -> list[Row]:
    waits = model.snapshot.waits if model.snapshot is not None else ()
    return [
        (
            each.function, f"{each.reason} {each.place}".rstrip(), each.count, each.oldest_seconds,
            short_id(each.session), each.task, _priorities(each),
        )
        for each in waits
    ]  # fmt: skip


def _object_rows(model: TabularState) -> list[Row]:
    stores = model.snapshot.stores if model.snapshot is not None else ()
    return [
        (
            each.host, each.objects, each.used_bytes, each.capacity_bytes,
            min(1.0, each.used_bytes / max(1, each.capacity_bytes)), each.spilled_bytes, rate.spilled,
            each.sent_bytes, rate.sent, each.received_bytes, rate.received,
        )
        for each, rate in zip(stores, model.store_rates, strict=True)
    ]  # fmt: skip


def _traffic_rows(model: TabularState) -> list[Row]:
    traffic = model.snapshot.traffic if model.snapshot is not None else ()
    rates = model.traffic_rates
    return [(each.source, each.target, each.received_bytes, rates[each.source, each.target]) for each in traffic]


def _largest_rows(model: TabularState) -> list[Row]:
    objects = model.snapshot.objects if model.snapshot is not None else ()
    return [
        (
            label_of(each), short_id(each.session), function, each.size_bytes, each.readers,
            each.copies, each.hosts,
        )
        for each, function in zip(objects, functions_of(model.activity, objects), strict=True)
    ]  # fmt: skip


def _graph_rows(model: TabularState) -> list[Row]:
    graphs = model.snapshot.graphs if model.snapshot is not None else ()
    left = model.progress.by_key(GRAPH)
    return [
        (
            each.graph, short_id(each.session), each.nodes, each.waiting, each.ready, each.running, each.done,
            *failed_apart(each), min(1.0, (each.done + each.failed) / max(1, each.nodes)),
            _seconds_left(left.get((each.session, each.graph))),
        )
        for each in graphs
    ]  # fmt: skip


def _progress_rows(model: TabularState) -> list[Row]:
    return [
        (
            each.kind, each.name, each.share, each.seconds_left,
            format_end(model.time + each.seconds_left, model.time) if each.seconds_left else "",
            each.unfinished, each.cannot_run,
            each.on_hosts, each.done, each.failed, each.canceled,
        )
        for each in model.progress.rows
    ]  # fmt: skip


def _seconds_left(progress: Progress | None) -> float:
    return progress.seconds_left if progress is not None else 0.0


def _message_rows(model: TabularState) -> list[Row]:
    if model.snapshot is None:
        return []
    sent = {each.name: each.count for each in model.snapshot.sent}
    received = {each.name: each.count for each in model.snapshot.received}
    return [(name, sent.get(name, 0), received.get(name, 0)) for name in {**sent, **received}]


def _setting_rows(model: TabularState) -> list[Row]:
    settings = model.snapshot.settings if model.snapshot is not None else ()
    return [(each.name, each.value or "(none)") for each in settings]


def _alert_rows(model: TabularState) -> list[Row]:
    return [
        (each.severity, max(0.0, model.time - each.since), each.text, each.since, each.rule) for each in model.alerts
    ]


# ---- tables made of events -------------------------------------------------------------------------------------------


def _running_rows(model: TabularState) -> list[Row]:
    return [
        (
            row.task.function, row.task.seconds, row.state, row.task.cpu_percent, row.task.rss_bytes,
            row.task.usual_seconds, row.agent.host, row.worker, row.task.pid, row.task.task,
            short_id(row.task.session), row.started, row.task.actor_name, _priority(row.task.priority),
        )
        for row in model.running.values()
    ]  # fmt: skip


def _priority(priority: int) -> str:
    return str(priority) if priority else ""


def _priorities(group: WaitGroup) -> str:
    if group.lowest_priority < group.highest_priority:
        return f"{group.lowest_priority} to {group.highest_priority}"
    return _priority(group.priority)


def _actor_rows(model: TabularState) -> list[Row]:
    actors = model.snapshot.actors if model.snapshot is not None else ()
    return [
        (
            each.function, each.name, _actor_state(each), each.running, each.waiting, _restarts(each), each.seconds,
            each.host, each.worker, short_id(each.session), each.task,
        )
        for each in actors
    ]  # fmt: skip


def _actor_state(actor: ActorStatus) -> str:
    if not actor.is_made:
        return "being made" if actor.host else "waiting"
    return "busy" if actor.running else "idle"


def _restarts(actor: ActorStatus) -> str:
    if actor.restarts_limit >= UNLIMITED_RESTARTS:
        return f"{format_count(actor.restarts)}, no limit"
    return f"{format_count(actor.restarts)} of {format_count(actor.restarts_limit)}"


def _failure_rows(model: TabularState) -> list[Row]:
    return [
        (
            group.count, status_name(group.cause.status), group.cause.type, group.message,
            group.cause.short_place, ", ".join(group.functions), ", ".join(group.hosts), group.first_time,
            group.last_time, group.number,
        )
        for group in model.activity.failures.groups
    ]  # fmt: skip


def _notice_rows(model: TabularState) -> list[Row]:
    return [tuple(notice) for notice in model.activity.notices]


def _log_rows(model: TabularState) -> list[Row]:
    return [row for each in _logs(model) for row in each.rows]


def _selected_log_rows(
    model: TabularState, text: str, key: str, descending: bool, offset: int, limit: int | None
) -> tuple[list[Row], int]:
    """Equal values stand in the order of the table's key, because the logs do, and the rows of each."""
    table = TABLES["logs"]
    value_of = _value_of(table, key)

    def select(rows: list[Row]) -> list[Row]:
        return sorted(_filtered(table, rows, text), key=value_of, reverse=descending)

    selected = [each.selected((text, key, descending), select) for each in _logs(model)]
    total = sum(map(len, selected))
    stop = total if limit is None else min(offset + limit, total)
    return _merged(selected, value_of, descending, min(offset, stop), stop), total


def _merged(
    columns: Sequence[Sequence[Row]], value_of: Callable[[Row], Any], descending: bool, first: int, stop: int
) -> list[Row]:
    """Rows ``first`` to ``stop`` of ordered columns together, taken from the nearer end."""
    total = sum(map(len, columns))
    if first + stop > total:
        backwards = [column[::-1] for column in reversed(columns)]
        return _merged(backwards, value_of, not descending, total - stop, total - first)[::-1]
    return list(islice(heapq.merge(*columns, key=value_of, reverse=descending), first, stop))


def _logs(model: TabularState) -> list[LogRows]:
    scheduler_host = model.snapshot.scheduler.host if model.snapshot is not None else ""

    def place_of(index: int) -> tuple[str, str]:
        agent = model.activity.agents.get(index)
        if agent is not None:
            return agent.name, agent.host
        return ("scheduler", scheduler_host) if index == NONE else ("?", "?")

    return model.activity.logs.by_place(place_of)


def _task_rows(
    model: TabularState, text: str, key: str, descending: bool, offset: int, limit: int | None
) -> tuple[list[Row], int]:
    wanted = _log_filter(model, text.strip())
    count = len(model.log) if limit is None else limit
    names = _names_in_log(model, key)
    first, ranks = _ranks(names) if names is not None else (0, None)
    serials, total = model.log.query(
        **wanted,
        sort=_LOG_COLUMNS[key],
        ranks=ranks,
        first_ranked=first,
        descending=descending,
        offset=offset,
        limit=count,
        sort_numbers=_numbered_actors(model) if key == "actor" else None,
    )
    return [task_row(model, serial) for serial in serials], total


def _names_in_log(model: TabularState, key: str) -> dict[int, str] | None:
    """The names of the indices in a column of the log; None: its values are not indices."""
    activity = model.activity
    if key == "session":
        return {index: each.session.hex() for index, each in activity.sessions.items()}
    if key == "function":
        return {index: activity.function_name(index) for index in activity.functions}
    if key == "status":
        return {status: ending_name(status) for status in _all_statuses()}
    if key in ("host", "worker"):
        return {index: each.host if key == "host" else each.name for index, each in enumerate(activity.workers)}
    return None


def _numbered_actors(model: TabularState) -> TaskNumbers:
    """The tasks of actors, with the places of their names among all."""
    names = sorted({*model.activity.actor_names.values()}, key=natural_key)
    return model.activity.tasks_of_actors({name: place for place, name in enumerate(names)})


def _ranks(names: Mapping[int, str]) -> tuple[int, array[int]]:
    """An index, and for it and each that follows the place of its name among all; equal ones have the same. Names are
    those of the latest indices; one far behind them has no place."""
    last = max(names, default=-1)
    first = max(0, last + 1 - _RANKED_LIMIT)
    places = {name: place for place, name in enumerate(sorted({*names.values()}, key=natural_key))}
    ranks = array("q", [-1]) * (last + 1 - first)
    for index, name in names.items():
        if index >= first:
            ranks[index - first] = places[name]
    return first, ranks


def _log_filter(model: TabularState, text: str) -> dict[str, Any]:
    """The filter of the log for a text: the number of a task, or part of any name."""
    if not text:
        return {}
    wanted, activity = text.casefold(), model.activity
    actors = [name for name in {*activity.actor_names.values()} if wanted in name.casefold()]
    return {
        "sessions": [index for index, each in activity.sessions.items() if wanted in each.session.hex()],
        "functions": [index for index in activity.functions if wanted in activity.function_name(index).casefold()],
        "workers": [
            index for index, each in enumerate(activity.workers) if wanted in f"{each.host}|{each.name}".casefold()
        ],
        "statuses": [status for status in _all_statuses() if wanted in ending_name(status)],
        "task": int(text) if text.isdecimal() and len(text) < 20 else None,
        "numbered": activity.tasks_of_actors(dict.fromkeys(actors, 0)) if actors else None,
        "any_of": True,
    }


_MEASURED = (Status.SUCCESS, Status.SUCCESS_LARGE, Status.EXCEPTION, Status.EXCEPTION_NOT_SERIALIZABLE)
"""Statuses of executions that a worker process has measured, even if they took less than a microsecond."""


def task_row(model: TabularState, serial: int) -> Row:
    """One row of the table of tasks. None: the task has not run, or it is not known where or for how long."""
    found = model.log.row(serial)
    assert found is not None
    task, ended_us, duration_us, session, function, worker, attempt, status = found
    name = model.activity.worker_of(worker)
    is_measured = duration_us > 0 or (name.number is not None and status & ~AGAIN in _MEASURED)
    is_placed = duration_us > 0 or name.number is not None
    return (
        ended_us / 1e6, task, short_id(model.activity.session_of(session)), model.activity.function_name(function),
        ending_name(status), model.log.running_us(serial) / 1e6 if is_measured else None,
        name.host or None, (name.name or None) if is_placed else None,
        model.activity.actor_name(session, task), attempt, spans_text(parts_of_task(model.activity.times, found)),
    )  # fmt: skip


def ending_name(status: int) -> str:
    """Return how an execution ended; one that was not the last of its task says so."""
    return f"{status_name(status & ~AGAIN)}, again" if status & AGAIN else status_name(status)


def short_id(value: bytes) -> str:
    """Sessions and digests, as people see them."""
    return value.hex()[:8]


def _all_statuses() -> Sequence[int]:
    return [*Status, *(status | AGAIN for status in Status)]


def _agents(model: TabularState) -> Sequence[AgentStatus]:
    return model.snapshot.agents if model.snapshot is not None else ()


_ROWS: dict[str, Callable[[TabularState], list[Row]]] = {
    "workers": _worker_rows,
    "agents": _agent_rows,
    "hosts": _host_rows,
    "processors": _processor_rows,
    "clients": _client_rows,
    "functions": _function_rows,
    "waits": _wait_rows,
    "running": _running_rows,
    "actors": _actor_rows,
    "failures": _failure_rows,
    "objects": _object_rows,
    "traffic": _traffic_rows,
    "logs": _log_rows,
    "largest": _largest_rows,
    "progress": _progress_rows,
    "graphs": _graph_rows,
    "messages": _message_rows,
    "notices": _notice_rows,
    "settings": _setting_rows,
    "alerts": _alert_rows,
}
