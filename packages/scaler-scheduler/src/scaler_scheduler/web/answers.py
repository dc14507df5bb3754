"""Answers: what a page asks about, as plain values that it can show as they are.

Pure: from the model, which every screen shares, to texts and shares of bars. The page adds no numbers of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.format import (
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_percent,
    format_rate,
    format_time,
    format_value,
    printable,
)
from scaler_protocol.monitor.messages import AgentStatus, GraphStatus, Snapshot
from scaler_protocol.monitor.model import Model, StreamRow, ended_count
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.open_bars import OpenBar
from scaler_protocol.monitor.palette import function_colour
from scaler_protocol.monitor.rows import short_id, task_row
from scaler_protocol.monitor.silence import silent_agents
from scaler_protocol.monitor.tables import TABLES, Column, Row, TableSpec

Query = Mapping[str, Any]
Cell = str | list[Any]
"""A text; or a text and how full its bar is, from 0 to 1; or a text and the colour of its function."""

ROW_LIMIT = 1000
TEXT_LIMIT = 1000
PIXEL_LIMIT = 8192
HOST_LIMIT = 200
_METERS = {("agents", "cpu"), ("workers", "cpu"), ("processors", "cpu")}
_STATE_WORDS = {
    "starting": "starts",
    "lent": "has a task that waits for nested ones",
    "busy": "runs a task",
    "": "is idle",
}
_GRAPH_PARTS = ("done", "running", "ready", "failed", "waiting")


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
    key = [spec.index(part) for part in spec.key]
    return {
        "rows": [_cells(model, spec, row) for row in rows],
        "keys": ["\0".join(str(row[index]) for index in key) for row in rows],
        "total": total,
        "note": _note(model, spec.name),
    }


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


def _note(model: Model, table: str) -> str:
    """A note about the rows that a table does not show."""
    if table == "tasks" and model.late_text:
        return model.late_text
    if table == "tasks" and model.log.total > len(model.log):
        return f"the newest of {format_count(model.log.total)} that ended since this monitor looks"
    if table == "failures" and model.snapshot is not None:
        seen, failed = model.activity.failures.total, model.snapshot.tasks.failed
        dropped = model.activity.failures.dropped_text
        seen_text = f"causes of {_plural(seen, 'failed execution')} seen"
        return ", ".join(filter(None, (seen_text, dropped, f"{_plural(failed, 'task')} failed")))
    counts = {"functions": "function_count", "waits": "wait_count", "graphs": "graph_count"}
    if model.snapshot is None or table not in counts:
        return ""
    total, shown = getattr(model.snapshot, counts[table]), len(getattr(model.snapshot, table))
    return f"of {format_count(total)} in all" if total > shown else ""


def _colour(model: Model, function: str) -> str:
    return function_colour(model.activity.colours.number_of(function))


# ---- the overview --------------------------------------------------------------------------------------------------


def _overview(model: Model, query: Query) -> dict[str, list[Any]]:
    snapshot = model.snapshot
    if snapshot is None:
        return {}
    tasks = snapshot.tasks
    workers = len(model.worker_rows)
    causes = len(model.activity.failures.groups)
    unfinished, lost = snapshot.unfinished, tasks.not_found
    return {
        "throughput": [format_rate(_last(model, "throughput")), f"{format_count(ended_count(tasks))} ended"],
        "running": [format_count(unfinished.running), _running_note(model, unfinished.queued)],
        "waiting": [format_count(unfinished.waiting), _waiting_note(model)],
        "success": [format_count(tasks.success), "since its start"],
        "failed": [format_count(tasks.failed), _plural(causes, "cause") if causes else "", tasks.failed > 0],
        "canceled": [format_count(tasks.canceled), f"{format_count(lost)} not found" if lost else ""],
        "workers": [format_count(workers), _workers_note(snapshot), bool(silent_agents(snapshot))],
        "cpu": [_rounded_percent(_last(model, "workers_cpu")), f"of {workers * 100:,}%"],
    }  # fmt: skip


def _workers_note(snapshot: Snapshot) -> str:
    hosts = f"on {_plural(len({agent.host for agent in snapshot.agents}), 'host')}"
    silent = len({agent.host for agent in silent_agents(snapshot)})
    return f"{hosts}, {silent} silent" if silent else hosts


def _running_note(model: Model, queued: int) -> str:
    stuck = sum(bool(row.suspicion) for row in model.running.values())
    looks = f"{format_count(stuck)} look{'s' if stuck == 1 else ''} stuck, " if stuck else ""
    return f"{looks}{format_count(queued)} queued on hosts"


def _waiting_note(model: Model) -> str:
    oldest = max((each.oldest_seconds for each in model.snapshot.waits), default=0.0) if model.snapshot else 0.0
    return f"oldest {format_duration(oldest)}" if oldest >= 1 else "for a free worker"


def _last(model: Model, name: str) -> float:
    _, values = model.history(name, max(0.0, model.time - 10))
    return values[-1] if values else 0.0


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
        ("missed here", format_count(model.activity.missed)),
        ("tasks kept here", f"{format_count(len(model.log))} of {format_count(model.log.total)}"),
    ]


# ---- processors, graphs, failures ----------------------------------------------------------------------------------


def _processors(model: Model, query: Query) -> dict[str, Any]:
    unsorted = model.snapshot.agents if model.snapshot is not None else ()
    agents = sorted(unsorted, key=lambda each: (natural_key(each.host), natural_key(each.name)))
    return {"hosts": [_host(agent) for agent in agents[:HOST_LIMIT]], "more": max(0, len(agents) - HOST_LIMIT)}


def _host(agent: AgentStatus) -> dict[str, Any]:
    facts = [
        f"pid {agent.pid}",
        f"CPU {format_percent(agent.cpu_percent)}",
        f"{format_bytes(agent.rss_bytes)} used",
        f"{format_bytes(agent.rss_free_bytes)} free on the host",
        f"{format_count(agent.queued)} queued",
        f"lag {format_latency(agent.lag_seconds)}",
    ]
    if agent.silent_seconds >= 2:
        facts.append(f"silent for {format_duration(agent.silent_seconds)}")
    return {
        "key": agent.session.hex(),
        "name": _shown(f"{agent.host} · {agent.name}" if agent.name != agent.host else agent.host),
        "state": agent.state.name.lower(),
        "facts": facts,
        "workers": [_processor(worker) for worker in agent.workers],
    }


def _processor(worker: WorkerStatus) -> tuple[str, str, float, str, str]:
    """Name, state, CPU, a short text and a long one."""
    state = "starting" if not worker.initialized else "lent" if worker.slot_lent else "busy" if worker.has_task else ""
    numbers = f"{format_percent(worker.cpu_percent)} {format_bytes(worker.rss_bytes)}"
    title = f"{worker.name}, pid {worker.pid}: {_STATE_WORDS[state]}, {numbers}"
    return (
        _shown(worker.name),
        state,
        round(worker.cpu_percent, 1),
        format_percent(worker.cpu_percent),
        _shown(title),
    )


def _graphs(model: Model, query: Query) -> dict[str, Any]:
    if model.snapshot is None:
        return {"graphs": [], "more": 0}
    graphs = model.snapshot.graphs
    newest = sorted(graphs, key=lambda each: (each.session, each.graph), reverse=True)
    return {"graphs": [_graph(each) for each in newest], "more": max(0, model.snapshot.graph_count - len(graphs))}


def _graph(graph: GraphStatus) -> dict[str, Any]:
    parts = [(name, getattr(graph, name)) for name in _GRAPH_PARTS]
    ended = graph.done + graph.failed
    return {
        "name": f"Graph {graph.graph}",
        "client": f"client {short_id(graph.session)}",
        "nodes": _plural(graph.nodes, "call"),
        "parts": [(name, format_count(count), min(1.0, count / max(1, graph.nodes))) for name, count in parts],
        "percent": min(100, 100 * ended // max(1, graph.nodes)),
    }


def _failure(model: Model, query: Query) -> dict[str, str]:
    return {"text": model.failure_details(int(query["group"]))}


# ---- the task stream -----------------------------------------------------------------------------------------------


def _task(model: Model, query: Query) -> dict[str, Any] | None:
    """The task with this serial number of the log, for a tooltip."""
    serial = int(query["serial"])
    if model.log.row(serial) is None:
        return None
    shown = ("task", "session", "status", "duration", "ended", "worker", "host", "attempt", "parts")
    spec, row = TABLES["tasks"], task_row(model, serial)
    columns = [(spec.columns[spec.index(name)], row[spec.index(name)]) for name in shown]
    facts = [(column.title, _shown(format_value(column.kind, value))) for column, value in columns if value != ""]
    return {"serial": serial, "facts": facts}


def stream(model: Model, query: Query, key: str) -> bytes:
    """The bars that a page shows: the size of the head as u32, the head as JSON, and one column after the other."""
    stop = float(query["end"]) if query["end"] is not None else model.time
    span = min(1e7, max(1e-5, float(query["span"])))
    rows = model.stream_rows()
    first = min(max(0, int(query["first"])), max(0, len(rows) - 1))
    shown = rows[first : first + _bounded(query["rows"], ROW_LIMIT)]
    width = _bounded(query["width"], PIXEL_LIMIT)
    bars = model.bars(stop - span, stop, width, [row.worker_index for row in shown])
    running = model.open_bars(stop - span, stop, width, [row.worker_index for row in shown])
    hidden = len(shown) - _rows_needed(shown, {*bars.rows, *(bar.row for bar in running)})
    shown = shown[: len(shown) - hidden]
    head = {
        "key": key,
        "start": stop - span,
        "stop": stop,
        "width": width,
        "first": first,
        "total_rows": len(rows) - hidden,
        "rows": [(_shown(_label(row)), _shown(row.worker.host), row.worker.number is not None) for row in shown],
        "count": len(bars),
        "tasks": bars.tasks if len(shown) == len(rows) else model.count_of_executions(stop - span, stop),
        "functions": _legend(model, {*bars.functions, *(bar.function for bar in running if bar.function is not None)}),
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
    }  # fmt: skip


def _rows_needed(rows: Sequence[StreamRow], used: set[int]) -> int:
    """How many rows there are without the last ones that stand for no certain worker and are empty."""
    count = len(rows)
    while count and count - 1 not in used and rows[count - 1].worker.number is None:
        count -= 1
    return count


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
        return "Tasks appear when they have ended or run for a second. None has since this monitor looks."
    return "Tasks appear when they have ended or run for a second. Zoom out, or go to another time."


def _bounded(value: Any, limit: int) -> int:
    return max(1, min(limit, int(value)))


_ANSWERS: dict[str, Callable[[Model, Query], Any]] = {
    "table": _table,
    "overview": _overview,
    "scheduler": _scheduler,
    "processors": _processors,
    "graphs": _graphs,
    "failure": _failure,
    "task": _task,
}
