"""``scaler_top --report``: what happened in a recording, as one HTML file that needs nothing else.

The file has no scripts, and its policy allows none. Its size is bounded, however long the recording is: tables show
their first rows, and pictures have so many pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.format import format_count, format_moment, format_rate, format_span, format_value
from scaler_protocol.monitor.model import Model, ended_count
from scaler_protocol.monitor.palette import PART_TINTS, function_colour
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.tables import TABLES, Column, Row
from scaler_scheduler.top.report_pictures import chart, stream_picture

ROWS_LIMIT = 30
_TITLE_LIMIT, _CELL_LIMIT = 300, 400
DETAILS_LIMIT = 20
"""Causes of failures that are told whole."""

TEXT_LIMIT = 4_000
"""Characters of one of them."""

_POLICY = """<meta http-equiv='Content-Security-Policy' content="default-src 'none'; style-src 'unsafe-inline'">"""

STYLE = """
:root { color-scheme: light dark; --text: #1a2030; --muted: #566073; --line: #d5d9e2; --ground: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8ecf3; --muted: #9aa5b6; --line: #364152; --ground: #151b24; }
}
body { margin: 2rem auto; max-width: 1120px; padding: 0 1rem; background: var(--ground); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { margin-bottom: 0; } h2 { margin-top: 2rem; border-bottom: 1px solid var(--line); }
.muted { color: var(--muted); }
.tiles { display: flex; flex-wrap: wrap; gap: 8px 34px; margin: 1rem 0; padding: 0; list-style: none; }
.tiles b { display: block; font-size: 22px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(500px, 100%), 1fr)); gap: 8px 24px; }
svg { width: 100%; height: auto; } svg text { fill: var(--muted); font: 11px system-ui, sans-serif; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: 3px 14px 3px 0; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 500; } .right { text-align: right; }
td { max-width: 44ch; overflow: hidden; text-overflow: ellipsis; }
summary, .key { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.5 ui-monospace, monospace; }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 14px; }
"""
STYLE += "".join(
    f".key .{name} {{ background: linear-gradient(rgb(from {tint} r g b / {opacity}) 0 0), {function_colour(0)}; }}\n"
    for name, (tint, opacity) in PART_TINTS.items()
)


class ReportTable(NamedTuple):
    """A table of the report: its title, and what it shows of a table of the model."""

    title: str
    table: str
    columns: Sequence[str]
    sort: str
    descending: bool = True


_TABLES = (
    ReportTable(
        "Functions", "functions",
        ("name", "finished", "succeeded", "failed", "canceled", "mean", "median", "p95", "longest", "total", "cpu_time",
         "parts"),
        "total",
    ),
    ReportTable(
        "Unfinished work", "progress",
        ("kind", "name", "progress", "unfinished", "done", "failed", "canceled"),
        "unfinished",
    ),
    ReportTable(
        "Longest executions", "tasks",
        ("function", "duration", "ended", "status", "host", "worker", "actor", "session", "task"),
        "duration",
    ),
    ReportTable(
        "Clients", "clients",
        ("session", "user", "program", "host", "pid", "state", "finished", "failed", "canceled", "group", "used"),
        "used",
    ),
    ReportTable("Hosts", "hosts", ("host", "workers", "cpu", "workers_rss", "memory", "limit"), "host", False),
    ReportTable("Objects", "objects", ("host", "objects", "used", "capacity", "spilled", "sent", "received"), "used"),
    ReportTable("Joined and left", "notices", ("time", "event", "who"), "time", False),
    ReportTable("Settings", "settings", ("name", "value"), "name", False),
)  # fmt: skip


def write_report(replay: Replay, path: str, start: float, stop: float) -> str:
    """Write what happened between two moments; return a sentence about the file. OSError if it cannot be written."""
    model = Model(start)
    for message in replay.messages(start, stop):
        model.apply(message, message.time)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(report_of(model, start, stop, replay.problems))
    note = f" {_restart_note(model)}" if model.restarted_at is not None else ""
    return f"The report was written to {path}. Open it in a browser.{note}"


def report_of(model: Model, start: float, stop: float, problems: Sequence[str] = ()) -> Iterator[str]:
    """The file, in pieces. Names come from other people's programs: they are text, whatever they contain."""
    span = f"{format_moment(start)} to {format_moment(stop)}, {format_span(stop - start)}"
    yield f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'>{_POLICY}<title>Scaler, {span}</title>"
    yield f"<style>{STYLE}</style>"
    yield f"<h1>Report of a Scaler cluster</h1><p class='muted'>{span}{_scheduler(model)}</p>"
    yield from (f"<p>A part of the recording is missing: {escape(problem)}</p>" for problem in problems[:5])
    if model.restarted_at is not None:
        yield f"<p>{_restart_note(model)}</p>"
    yield _tiles(model, start, stop)
    yield "<div class='charts'>"
    for name in ("throughput", "tasks", "cpu", "memory"):
        yield chart(model, name, start, stop)
    yield "</div>"
    yield stream_picture(model, start, stop)
    yield from _failures(model)
    yield from (_table(model, each) for each in _TABLES)
    yield "</html>"


def _restart_note(model: Model) -> str:
    """Return what a report leaves out: the counts of a scheduler begin again with its restart."""
    moment = model.restarted_at or 0.0
    before = format_moment(math.ceil(moment) - 1).replace(" ", "T")
    return (
        f"The scheduler was restarted at {format_moment(moment)}. Apart from the charts, the report begins there: give "
        f"--trace-until {before} for a report of the time before."
    )


def _scheduler(model: Model) -> str:
    if model.snapshot is None:
        return ""
    scheduler = model.snapshot.scheduler
    return f"; scheduler {escape(scheduler.address)}, version {escape(scheduler.version)}"


def _tiles(model: Model, start: float, stop: float) -> str:
    if model.snapshot is None:
        return "<p>The recording has no snapshot in this time.</p>"
    tasks, unfinished = model.snapshot.tasks, model.snapshot.unfinished
    ended = ended_count(tasks)
    uptime = min(max(1e-9, stop - start), max(1e-9, model.snapshot.scheduler.uptime_seconds))
    hosts = len({agent.host for agent in model.snapshot.agents})
    _, rates = model.history("throughput", start)
    tiles = [
        ("succeeded", format_count(tasks.success)), ("failed", format_count(tasks.failed)),
        ("cancelled", format_count(tasks.canceled)), ("unfinished at the end", format_count(sum(unfinished))),
        ("most per second", format_rate(max(rates, default=0.0))),
        ("per second, on average", format_rate(min(ended, model.log.ended or ended) / uptime)),
        (f"workers on {hosts} host{'' if hosts == 1 else 's'} at the end", format_count(len(model.worker_rows))),
    ]  # fmt: skip
    items = "".join(f"<li><b>{text}</b><span class='muted'>{name}</span></li>" for name, text in tiles)
    return f"<ul class='tiles'>{items}</ul>"


def _failures(model: Model) -> Iterator[str]:
    groups = sorted(model.activity.failures.groups, key=lambda each: -each.count)
    if not groups:
        return
    yield f"<h2>Failures ({format_count(model.activity.failures.total)} executions, {len(groups):,} causes)</h2>"
    for group in groups[:DETAILS_LIMIT]:
        text = model.failure_details(group.number)
        title = ": ".join(part for part in (group.cause.type, group.message) if part) or "failure"
        summary = escape(short_text(title, _TITLE_LIMIT))
        cut = text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]} …"
        yield f"<details><summary>{group.count:,} x {summary}</summary><pre>{escape(cut)}</pre></details>"
    if len(groups) > DETAILS_LIMIT:
        yield f"<p class='muted'>and {len(groups) - DETAILS_LIMIT:,} rarer causes</p>"


def _table(model: Model, shown: ReportTable) -> str:
    """Empty without rows."""
    spec = TABLES[shown.table]
    rows, total = model.rows(shown.table, sort_key=shown.sort, descending=shown.descending, limit=ROWS_LIMIT)
    if not rows:
        return ""
    places = [spec.index(key) for key in shown.columns if key != "actor" or any(row[spec.index(key)] for row in rows)]
    heads = "".join(
        f"<th class='{spec.columns[place].align}'>{escape(spec.columns[place].title)}</th>" for place in places
    )
    body = "".join(f"<tr>{_cells(shown.table, row, places)}</tr>" for row in rows)
    more = f" <span class='muted'>the first {len(rows)} of {format_count(total)}</span>" if total > len(rows) else ""
    return f"<h2>{shown.title}{more}</h2><div class='scroll'><table><tr>{heads}</tr>{body}</table></div>"


def _cells(table: str, row: Row, places: Sequence[int]) -> str:
    columns = TABLES[table].columns
    texts = [(columns[place].align, _cell_text(columns[place], row[place])) for place in places]
    return "".join(f"<td class='{align}' title='{text}'>{text}</td>" for align, text in texts)


def _cell_text(column: Column, value: object) -> str:
    return escape(short_text(format_value(column.kind, value), _CELL_LIMIT))
