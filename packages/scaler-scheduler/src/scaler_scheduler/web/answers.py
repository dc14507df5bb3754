"""Answers: what a page asks about, as plain values that it can show as they are.

Pure: from the model, which every screen shares, to texts and shares of bars. The page adds no numbers of its own.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from scaler_protocol.messages import ControlAction, WorkerStatus
from scaler_protocol.monitor.alerts import MEMORY_RULE
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.entity_actions import targets_of_page
from scaler_protocol.monitor.format import (
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_left,
    format_percent,
    format_rate,
    format_time,
    format_value,
    printable,
)
from scaler_protocol.monitor.graphs import WatchedGraph, nodes_of
from scaler_protocol.monitor.host_memory import HostMemory, memory_of, total_memory
from scaler_protocol.monitor.importance import columns_by_importance
from scaler_protocol.monitor.links import FUNCTION, GRAPH, TASK, WORKER, EntityLink, cell_link, row_link
from scaler_protocol.monitor.messages import AgentStatus, GraphStatus, Snapshot
from scaler_protocol.monitor.model import Model, StreamRow, ended_count
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.open_bars import OpenBar
from scaler_protocol.monitor.operation import ACTION_LABELS, VALUE_LABELS, Action
from scaler_protocol.monitor.palette import PART_TINTS, function_colour
from scaler_protocol.monitor.parts import parts_of_task, shown_parts
from scaler_protocol.monitor.past import find_past
from scaler_protocol.monitor.progress import ALL, Progress, cannot_run_text, failed_apart, left_text, until_text
from scaler_protocol.monitor.progress import GRAPH as PROGRESS_OF_GRAPH
from scaler_protocol.monitor.rows import short_id, task_row
from scaler_protocol.monitor.silence import silent_agents
from scaler_protocol.monitor.tables import TABLES, Column, Row, TableSpec
from scaler_scheduler.web.output import output_answer

Query = Mapping[str, Any]
Cell = str | list[Any]
"""A text; or a text and how full its bar is, from 0 to 1; or a text and the colour of its function."""

ROW_LIMIT = 1000
TEXT_LIMIT = 1000
PIXEL_LIMIT = 8192
HOST_LIMIT = 200
_MOMENT_LIMIT = 100
_PARTS_FROM_PIXELS = 12
"""Width of a bar in which its parts are drawn."""

_METERS = {("agents", "cpu"), ("workers", "cpu"), ("processors", "cpu")}
_STATE_WORDS = {
    "starting": "starts",
    "lent": "has a task that waits for nested ones",
    "busy": "runs a task",
    "": "is idle",
}
_GRAPH_PARTS = ("done", "running", "ready")


def _shown(text: str) -> str:
    """Names come from others' programs: only text, and not more of it than anyone reads."""
    return printable(text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}…")


def specification(table: TableSpec) -> dict[str, Any]:
    """A table's columns and order, for a page."""
    columns = [
        {name: getattr(each, name) for name in ("key", "title", "kind", "width", "align", "help")}
        for each in table.columns
    ]
    return {
        "name": table.name,
        "title": table.title,
        "help": table.help,
        "columns": columns,
        "expendable": columns_by_importance(table, ""),
        "sort": table.default_sort,
        "descending": table.descending,
    }


def answer(model: Model, query: Query) -> Any:
    """ValueError, KeyError or TypeError for what is not a query; only a page of another version asks such."""
    return _ANSWERS[query["what"]](model, query)


# ---- tables ------------------------------------------------------------------------------------------------------


def _table(model: Model, query: Query) -> dict[str, Any]:
    spec = TABLES[query["table"]]
    rows, total = model.rows(
        spec.name,
        str(query["filter"])[:200],
        query["sort"],
        bool(query["descending"]),
        max(0, int(query["offset"])),
        _bounded(query["limit"], ROW_LIMIT),
    )
    return {**_shown_rows(model, spec, rows), "total": total, "note": _note(model, spec.name, total)}


def _shown_rows(model: Model, spec: TableSpec, rows: Sequence[Row]) -> dict[str, Any]:
    """Texts, keys, and links: of each row the address of its own page, and those of what its cells mention."""
    key = [spec.index(part) for part in spec.key]
    return {
        "rows": [_cells(model, spec, row) for row in rows],
        "keys": ["\0".join(str(row[index]) for index in key) for row in rows],
        "links": [_links(spec, row) for row in rows],
    }


def _links(spec: TableSpec, row: Row) -> tuple[str, dict[int, str]]:
    mentioned = {place: cell_link(spec.name, column.key, row) for place, column in enumerate(spec.columns)}
    own = row_link(spec.name, row)
    return _path(own), {place: _path(link) for place, link in mentioned.items() if link is not None}


def _path(link: EntityLink | None) -> str:
    """The address of a page within this monitor, without ``#/``; empty for None."""
    return "/".join([link.kind, *(quote(text, safe="") for text in link.key)]) if link is not None else ""


def _cells(model: Model, spec: TableSpec, row: Row) -> list[Cell]:
    return [_cell(model, spec, column, value) for column, value in zip(spec.columns, row, strict=True)]


def _cell(model: Model, spec: TableSpec, column: Column, value: Any) -> Cell:
    text = _shown(format_value(column.kind, value))
    if column.kind == "share":
        return [text, value]
    if (spec.name, column.key) in _METERS:
        return [text, min(1.0, value / 100)]
    if column.key == "function" or (spec.name, column.key) == ("functions", "name"):
        return [text, _colour(model, value)] if value else text
    return text


def _note(model: Model, table: str, rows: int) -> str:
    """A note that follows the number of rows: what they are, and about those that a table does not show."""
    if table == "tasks" and model.late_text:
        return f"; {model.late_text}"
    if table == "tasks" and model.log.total > len(model.log):
        return f", the newest of {format_count(model.log.total)} that ended while this monitor watched"
    if table == "failures" and model.snapshot is not None:
        seen, failed = model.activity.failures.total, model.snapshot.tasks.failed
        dropped = model.activity.failures.dropped_text
        causes = f" cause{'s' if rows != 1 else ''} of {_plural(seen, 'failed execution')}"
        return ", ".join(filter(None, (causes, dropped, f"{_plural(failed, 'task')} failed")))
    counts = {
        "functions": "function_count",
        "waits": "wait_count",
        "graphs": "graph_count",
        "actors": "actor_count",
    }
    if model.snapshot is None or table not in counts:
        return ""
    total, shown = getattr(model.snapshot, counts[table]), len(getattr(model.snapshot, table))
    return f" of {format_count(total)} in all" if total > shown else ""


def _colour(model: Model, function: str) -> str:
    return function_colour(model.activity.colours.number_of(function))


# ---- the overview --------------------------------------------------------------------------------------------------


def _overview(model: Model, query: Query) -> dict[str, list[Any]]:
    snapshot = model.snapshot
    if snapshot is None:
        return {}
    tasks = snapshot.tasks
    workers = len(model.worker_rows)
    unfinished, lost = snapshot.unfinished, tasks.not_found
    progress = model.progress.find(ALL, "")
    left = progress.seconds_left if progress is not None else 0.0
    return {
        "left": [format_left(left) if left else "–", _left_note(model, progress)],
        "throughput": [format_rate(model.latest.get("throughput", 0.0)), f"{format_count(ended_count(tasks))} ended"],
        "running": [format_count(unfinished.running), _running_note(model, unfinished.queued)],
        "waiting": [format_count(unfinished.waiting), _waiting_note(model)],
        "success": [format_count(tasks.success), "since the scheduler started"],
        "failed": [format_count(tasks.failed), _failures_note(model), tasks.failed > 0],
        "canceled": [format_count(tasks.canceled), f"{format_count(lost)} not found" if lost else ""],
        "workers": [format_count(workers), _workers_note(snapshot), bool(silent_agents(snapshot))],
        "cpu": [_rounded_percent(model.latest.get("workers_cpu", 0.0)), f"of {workers * 100:,}%"],
        "memory": _memory_tile(model, total_memory(snapshot.agents)),
    }  # fmt: skip


def _failures_note(model: Model) -> str:
    """The causes, or that executions have failed of tasks that are executed again."""
    failures, snapshot = model.activity.failures, model.snapshot
    if not failures.groups or snapshot is None:
        return ""
    if snapshot.tasks.failed:
        return _plural(len(failures.groups), "cause")
    return _plural(failures.total, "failed execution")


def _memory_tile(model: Model, memory: HostMemory) -> list[Any]:
    is_tight = any(alert.rule == MEMORY_RULE for alert in model.alerts)
    if not memory.limit_bytes:
        return [format_bytes(memory.free_bytes), "free on hosts", is_tight]
    return [format_bytes(memory.used_bytes), f"of {format_bytes(memory.limit_bytes)} on hosts", is_tight]


def _left_note(model: Model, progress: Progress | None) -> str:
    parts = (until_text(progress, model.time), cannot_run_text(progress)) if progress is not None else ()
    return ", ".join(filter(None, parts)) or "until all tasks have ended"


def _latest(model: Model, query: Query) -> dict[str, float]:
    """Values of the snapshot that the rest of the page shows, by name of history."""
    return dict(model.latest)


def _workers_note(snapshot: Snapshot) -> str:
    hosts = f"on {_plural(len({agent.host for agent in snapshot.agents}), 'host')}"
    silent = len({agent.host for agent in silent_agents(snapshot)})
    counts = Counter(dict.fromkeys(("paused", "draining"), 0))
    for agent in snapshot.agents:
        counts[agent.state_name] += len(agent.workers)
    resting = (f"{_plural(counts[each], 'worker')} {each}" for each in ("paused", "draining") if counts[each])
    return ", ".join(filter(None, (hosts, f"{silent} silent" if silent else "", *resting)))


def _running_note(model: Model, queued: int) -> str:
    stuck = sum(bool(row.suspicion) for row in model.running.values())
    looks = f"{format_count(stuck)} look{'s' if stuck == 1 else ''} stuck, " if stuck else ""
    return f"{looks}{format_count(queued)} queued on hosts"


def _waiting_note(model: Model) -> str:
    oldest = max((each.oldest_seconds for each in model.snapshot.waits), default=0.0) if model.snapshot else 0.0
    return f"oldest {format_duration(oldest)}" if oldest >= 1 else "for a worker"


def _rounded_percent(percent: float) -> str:
    return format_percent(percent) if percent < 99.5 else f"{percent:,.0f}%"


def _plural(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def _scheduler(model: Model, query: Query) -> list[tuple[str, str]]:
    if model.snapshot is None:
        return []
    scheduler, events = model.snapshot.scheduler, model.snapshot.events
    return [
        ("address", scheduler.address),
        ("version", scheduler.version),
        ("host", scheduler.host),
        ("process id", str(scheduler.pid)),
        ("up", format_duration(scheduler.uptime_seconds)),
        ("CPU", format_percent(scheduler.cpu_percent)),
        ("memory", format_bytes(scheduler.rss_bytes)),
        ("event records", f"{format_count(events.recorded)}, {format_count(events.dropped)} dropped"),
        ("event records missed by this monitor", format_count(model.activity.missed)),
        ("tasks in the log of this monitor", f"{format_count(len(model.log))} of {format_count(model.log.total)}"),
    ]


# ---- worker processes, graphs, failures --------------------------------------------------------------------------


def _processes(model: Model, query: Query) -> dict[str, Any]:
    unsorted = model.snapshot.agents if model.snapshot is not None else ()
    agents = sorted(unsorted, key=lambda each: (natural_key(each.host), natural_key(each.name)))
    return {"hosts": [_host(agent) for agent in agents[:HOST_LIMIT]], "more": max(0, len(agents) - HOST_LIMIT)}


def _host(agent: AgentStatus) -> dict[str, Any]:
    facts = [
        f"pid {agent.pid}",
        f"CPU {format_percent(agent.cpu_percent)}",
        f"{format_bytes(agent.rss_bytes)} used by the agent",
        f"{memory_of(agent).text} on the host",
        f"{format_count(agent.queued)} queued",
        f"lag {format_latency(agent.lag_seconds)}",
    ]
    if agent.capabilities:
        facts.append(_shown(f"offers {agent.capabilities}"))
    if agent.capabilities_left:
        facts.append(_shown(f"not taken: {agent.capabilities_left}"))
    if agent.silent_seconds >= 2:
        facts.append(f"silent for {format_duration(agent.silent_seconds)}")
    return {
        "key": agent.session.hex(),
        "name": _shown(f"{agent.host} · {agent.name}" if agent.name != agent.host else agent.host),
        "state": agent.state_name,
        "facts": facts,
        "workers": [_process(agent, worker) for worker in agent.workers],
    }


def _process(agent: AgentStatus, worker: WorkerStatus) -> tuple[str, str, float, str, str, str]:
    """Name, state, CPU, a short text and a long one, and the address of its page."""
    state = "starting" if not worker.initialized else "lent" if worker.slot_lent else "busy" if worker.has_task else ""
    numbers = f"{format_percent(worker.cpu_percent)} {format_bytes(worker.rss_bytes)}"
    title = f"{worker.name}, pid {worker.pid}: {_STATE_WORDS[state]}, {numbers}"
    return (
        _shown(worker.name),
        state,
        round(worker.cpu_percent, 1),
        format_percent(worker.cpu_percent),
        _shown(title),
        _path(EntityLink(WORKER, (agent.host, worker.name))),
    )


def _graphs(model: Model, query: Query) -> dict[str, Any]:
    if model.snapshot is None:
        return {"graphs": [], "more": 0}
    graphs = model.snapshot.graphs
    newest = sorted(graphs, key=lambda each: (each.session, each.graph), reverse=True)
    hidden = max(0, model.snapshot.graph_count - len(graphs))
    return {"graphs": [_graph(model, each) for each in newest], "more": hidden}


def _left_text(model: Model, graph: GraphStatus) -> str:
    progress = model.progress.find(PROGRESS_OF_GRAPH, (graph.session, graph.graph))
    return left_text(progress, model.time) if progress is not None else ""


def _graph(model: Model, graph: GraphStatus) -> dict[str, Any]:
    failed, canceled = failed_apart(graph)
    parts = [(name, getattr(graph, name)) for name in _GRAPH_PARTS]
    parts += [("failed", failed), ("cancelled", canceled), ("waiting", graph.waiting)]
    ended = graph.done + graph.failed
    return {
        "name": f"Graph {graph.graph}",
        "path": _path(EntityLink(GRAPH, (short_id(graph.session), str(graph.graph)))),
        "left": _left_text(model, graph),
        "client": f"client {short_id(graph.session)}",
        "actions": _offered({ControlAction.CANCEL_GRAPH: f"{short_id(graph.session)}/{graph.graph}"}),
        "nodes": _plural(graph.nodes, "call"),
        "parts": [(name, format_count(count), min(1.0, count / max(1, graph.nodes))) for name, count in parts],
        "percent": min(100, 100 * ended // max(1, graph.nodes)),
    }


# ---- pages of single things ----------------------------------------------------------------------------------------


def _entity(model: Model, query: Query) -> dict[str, Any]:
    """All that is known of the thing whose ``kind`` and ``key`` an address names; ``is_known`` false: nothing."""
    link = EntityLink(str(query["kind"]), tuple(str(part) for part in query["key"]))
    page = page_of(model, link)
    if page is None:
        return {"is_known": False}
    return {
        "is_known": True,
        "title": _shown(page.title),
        "colour": _colour(model, link.key[0]) if link.kind == FUNCTION else "",
        "facts": [(each.name, _shown(each.text), _path(each.link)) for each in page.facts],
        "sections": [
            {"title": each.title, "table": each.table, "total": each.total, "note": ""}
            | _shown_rows(model, TABLES[each.table], each.rows)
            for each in page.sections
        ],
        "text": page.text,
        "moments": page.moments,
        "actions": _offered(targets_of_page(link, page)),
    }


def _offered(targets: Mapping[Action, str]) -> list[tuple[int, str, str, str]]:
    """Return of each action its number, its label, its target, and the name of the value that it needs."""
    return [(int(each), ACTION_LABELS[each], target, VALUE_LABELS.get(each, "")) for each, target in targets.items()]


def _graph_drawing(model: Model, query: Query) -> dict[str, Any] | None:
    """The states of a graph's nodes, one digit each; its shape too, unless the page has it (``known``)."""
    graph = _watched_graph(model, str(query["client"]), int(query["graph"]))
    if graph is None:
        return None
    signature = f"{graph.session}.{graph.graph}.{graph.count}.{graph.edge_count}.{int(graph.cut)}"
    nodes = nodes_of(graph, model.log)
    drawing: dict[str, Any] = {"signature": signature, "states": "".join(str(int(each.state)) for each in nodes)}
    if query.get("known") == signature:
        return drawing
    functions = sorted({each.function for each in nodes})
    places = {function: place for place, function in enumerate(functions)}
    return drawing | {
        "cut": graph.cut,
        "count": graph.count,
        "tasks": [each.task for each in nodes],
        "functions": [places[each.function] for each in nodes],
        "names": list(_legend(model, set(functions)).values()),
        "ends": list(graph.ends),
    }


def _watched_graph(model: Model, client: str, number: int) -> WatchedGraph | None:
    for index, named in model.activity.sessions.items():
        graph = model.activity.graphs.get(index, number) if short_id(named.session) == client else None
        if graph is not None:
            return graph
    return None


def _failure(model: Model, query: Query) -> dict[str, str]:
    return {"text": model.failure_details(int(query["group"]))}


# ---- the task stream -----------------------------------------------------------------------------------------------


def _task(model: Model, query: Query) -> dict[str, Any] | None:
    """The task with this serial number of the log, for a tooltip."""
    serial = int(query["serial"])
    found = model.log.row(serial)
    if found is None:
        return None
    shown = ("actor", "task", "session", "status", "duration", "ended", "worker", "host", "attempt")
    spec, row = TABLES["tasks"], task_row(model, serial)
    columns = [(spec.columns[spec.index(name)], row[spec.index(name)]) for name in shown]
    facts = [(column.title, _shown(format_value(column.kind, value))) for column, value in columns if value != ""]
    facts += shown_parts(parts_of_task(model.activity.times, found))
    return {"serial": serial, "facts": facts, "path": _path(row_link("tasks", row))}


def stream(model: Model, query: Query, key: str) -> bytes:
    """The bars that a page shows: the size of the head as u32, the head as JSON, and one column after the other."""
    stop = float(query["end"]) if query["end"] is not None else model.time
    span = min(1e7, max(1e-5, float(query["span"])))
    rows = model.stream_rows(stop - span, stop)
    first = min(max(0, int(query["first"])), max(0, len(rows) - 1))
    shown = rows[first : first + _bounded(query["rows"], ROW_LIMIT)]
    width = _bounded(query["width"], PIXEL_LIMIT)
    bars = model.bars(stop - span, stop, width, [row.worker_index for row in shown])
    running = model.open_bars(stop - span, stop, width, [row.worker_index for row in shown])
    parts = model.bar_parts(bars, stop - span, stop, width, _PARTS_FROM_PIXELS)
    head = {
        "key": key,
        "start": stop - span,
        "stop": stop,
        "width": width,
        "first": first,
        "total_rows": len(rows),
        "rows": [(_shown(_label(row)), _shown(row.worker.host), row.worker.number is not None) for row in shown],
        "count": len(bars),
        "tasks": bars.tasks if len(shown) == len(rows) else model.count_of_executions(stop - span, stop),
        "functions": _legend(model, {*bars.functions, *(bar.function for bar in running if bar.function is not None)}),
        "parts": [(each.bar, each.name, round(each.x0, 1), round(each.x1, 1)) for each in parts],
        "tints": PART_TINTS,
        "open": [_open_bar(model, bar) for bar in running],
        "oldest": _oldest(model),
        "latest": model.time,
        "hint": _hint(model),
    }
    text = json.dumps(head).encode()
    text += b" " * (-(4 + len(text)) % 8)
    columns = (
        bars.serials, bars.x0, bars.x1, bars.busy, bars.rows, bars.functions, bars.counts, bars.statuses,
    )  # fmt: skip
    return b"".join((struct.pack("<I", len(text)), text, *columns))


def _open_bar(model: Model, bar: OpenBar) -> dict[str, Any]:
    """A running task: its place, and what a tooltip says of it."""
    task = bar.running.task
    facts = [
        *([("actor", _shown(task.actor_name))] if task.actor_name else []),
        ("task", str(task.task)),
        ("client", short_id(task.session)),
        ("state", bar.running.state),
        ("running for", format_duration(task.seconds)),
        ("started", format_time(bar.running.started)),
        ("CPU", format_percent(task.cpu_percent)),
        ("memory", format_bytes(task.rss_bytes)),
        ("worker", _shown(bar.running.worker)),
        ("host", _shown(bar.running.agent.host)),
        ("pid", str(task.pid)),
    ]
    return {
        "row": bar.row, "x0": bar.x0, "x1": bar.x1, "function": bar.function, "name": _shown(task.function),
        "colour": _colour(model, task.function),
        "stuck": bool(bar.running.suspicion), "facts": facts,
        "path": _path(EntityLink(TASK, (short_id(task.session), str(task.task)))),
    }  # fmt: skip


def _label(row: StreamRow) -> str:
    """Some rows are for tasks of which only the host is known."""
    return row.name if row.worker.number is not None else f"{row.worker.host}, unknown worker"


def _legend(model: Model, indices: set[int]) -> dict[int, tuple[str, str]]:
    names = {index: model.activity.function_name(index) or "(unknown)" for index in sorted(indices)}
    number_of = model.activity.colour_number
    return {index: (_shown(name), function_colour(number_of(index))) for index, name in names.items()}


def _oldest(model: Model) -> float | None:
    pages = [page for page in model.log.pages() if page.count]
    return pages[0].earliest_start_us / 1e6 if pages else None


def _hint(model: Model) -> str:
    if model.log.total == 0:
        return "Tasks appear when they have ended or run for a second. None has while this monitor watched."
    return "Tasks appear when they have ended or run for a second. Zoom out, or go to another time."


def _bounded(value: Any, limit: int) -> int:
    return max(1, min(limit, int(value)))


def _moment(model: Model, query: Query) -> dict[str, Any]:
    """The moment that a text means, or the reason why nothing is known of it."""
    text = str(query["text"])[:_MOMENT_LIMIT]
    try:
        return {"text": text, "time": find_past(model, text, "scaler_ui"), "problem": ""}
    except ValueError as error:
        return {"text": text, "time": None, "problem": _shown(str(error))}


_ANSWERS: dict[str, Callable[[Model, Query], Any]] = {
    "table": _table,
    "overview": _overview,
    "latest": _latest,
    "scheduler": _scheduler,
    "processes": _processes,
    "graphs": _graphs,
    "failure": _failure,
    "entity": _entity,
    "graph_drawing": _graph_drawing,
    "task": _task,
    "moment": _moment,
    "output": output_answer,
}
