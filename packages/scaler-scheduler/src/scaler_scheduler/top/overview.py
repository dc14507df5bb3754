"""The first page: whether all is well, who runs what, and how long it will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scaler_protocol.monitor.format import (
    display_width,
    format_bytes,
    format_count,
    format_duration,
    format_left,
    format_percent,
    format_rate,
    format_share,
    left,
    right,
)
from scaler_protocol.monitor.host_memory import memory_of, total_memory
from scaler_protocol.monitor.messages import AgentStatus, PeerState, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.natural_order import natural_key
from scaler_protocol.monitor.progress import ALL, Progress, cannot_run_text, short_left_text, until_text
from scaler_protocol.monitor.running import STUCK
from scaler_protocol.monitor.silence import is_silent
from scaler_protocol.monitor.tables import TABLES, Row, TableSpec
from scaler_scheduler.top.grid import grid_of
from scaler_scheduler.top.lines import Line, Span, Style, joined, line_of, padded
from scaler_scheduler.top.pages import Body

WIDE = 120
"""The width from which two columns stand next to each other."""

_GAP = Span("   ")
_LABEL_WIDTH = 9
_FULL_SHARE = 0.9
_HISTORY_HEIGHTS = 2, 8
_LOW_HEIGHT = 6
"""A page with fewer lines shows only the bars."""

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN_BLOCKS = " .:-=+*%#"
_SAMPLE_SECONDS = 1.0
_HINTS = (
    "? keys", "q quit", "t running", "4 failures", "3 why tasks wait", "g progress", "7 stream", "9 who uses it",
    ":03:00 the past", "2 functions", "i workers",
)  # fmt: skip
"""The most important ones first."""

_MEMORY_WIDTH = len("1023.9 MiB of 1023.9 MiB")
_RUNNING_COLUMNS = ("function", "seconds", "state", "actor", "host", "worker", "session")
_CLIENT_COLUMNS = ("session", "user", "program", "host", "pid", "unassigned", "running", "share", "left")
_FUNCTION_COLUMNS = ("name", "unfinished", "finished", "failed", "mean", "p95", "total")
_FAILURE_COLUMNS = ("count", "type", "message", "place")

Block = Callable[[int, int], list[Line]]
"""Lines for a width and at most a height."""


class Part(NamedTuple):
    """A part of the page: the lines that it would fill, and those that it needs to be of use."""

    wanted: int
    least: int
    block: Block


def overview_body(model: Model, snapshot: Snapshot, width: int, height: int, blocks: bool) -> Body:
    """``blocks``: whether the terminal shows block characters."""
    room = height - 1
    if height < _LOW_HEIGHT:
        return Body(_meters(model, snapshot, width, blocks)[: max(0, height)], 1, 0, 0)
    if width >= WIDE:
        half = (width - len(_GAP.text)) // 2
        first = _stacked(_left(model, snapshot, blocks), half, room)
        second = _stacked(_right(model, snapshot), width - half - len(_GAP.text), room)
        lines = _beside(first, second, half)
    else:
        parts = _left(model, snapshot, blocks)
        lines = _stacked([*parts[:2], *_right(model, snapshot), *parts[2:]], width, room)
    lines = [*lines[:room], *[()] * (room - len(lines)), _hints(width)]
    return Body(lines[-height:] if height > 0 else [], 1, 0, 0)


def _left(model: Model, snapshot: Snapshot, blocks: bool) -> list[Part]:
    hosts = sorted(
        snapshot.agents, key=lambda each: (not is_silent(each.state), natural_key(each.host), natural_key(each.name))
    )
    least, most = _HISTORY_HEIGHTS
    return [
        Part(6, 5, lambda width, height: _meters(model, snapshot, width, blocks)[:height]),
        Part(most + 2, least + 2, lambda width, height: _history(model, width, height, blocks)),
        Part(len(hosts) + 2, 3, lambda width, height: _hosts(hosts, width, height, blocks)),
        Part(len(model.activity.failures.groups) + 3, 4, lambda width, height: _failures(model, width, height)),
    ]


def _right(model: Model, snapshot: Snapshot) -> list[Part]:
    progress = [row for row in model.progress.rows if row.kind != ALL]
    progress.sort(key=lambda row: -row.unfinished)
    running, clients = len(model.running), len(snapshot.clients)
    return [
        Part(len(progress) + 2, 3, lambda width, height: _progress(model, progress, width, height)),
        Part(running + 3, 4, lambda width, height: _running(model, width, height)),
        Part(clients + 3, 4, lambda width, height: _clients(model, width, height)),
        Part(len(snapshot.functions) + 3, 4, lambda width, height: _functions(model, width, height)),
    ]


def _hints(width: int) -> Line:
    """Keys of other pages, as many as fit."""
    shown: list[str] = []
    for hint in _HINTS:
        if len("  ".join([*shown, hint])) > width:
            break
        shown.append(hint)
    return line_of("  ".join(shown), Style.DIM)


def _stacked(parts: Sequence[Part], width: int, height: int) -> list[Line]:
    """Parts in their order. Lines that no part needs are given to them in turn; the last parts are left out when they
    do not fit."""
    shown = list(parts)
    while shown and sum(part.least for part in shown) > height:
        shown.pop()
    heights = [part.least for part in shown]
    spare = height - sum(heights)
    while spare > 0 and any(part.wanted > tall for part, tall in zip(shown, heights, strict=True)):
        for place, part in enumerate(shown):
            more = min(spare, 1 if part.wanted > heights[place] else 0)
            heights[place] += more
            spare -= more
    lines: list[Line] = []
    for part, tall in zip(shown, heights, strict=True):
        lines += part.block(width, tall)[:tall]
    return lines


def _beside(first: Sequence[Line], second: Sequence[Line], width: int) -> list[Line]:
    count = max(len(first), len(second))
    pairs = zip([*first, *[()] * (count - len(first))], [*second, *[()] * (count - len(second))], strict=True)
    return [joined([padded(one, width), other], _GAP) for one, other in pairs]


# ---- bars ------------------------------------------------------------------------------------------------------------


def _meters(model: Model, snapshot: Snapshot, width: int, blocks: bool) -> list[Line]:
    rows, agents = model.worker_rows, snapshot.agents
    busy, cpu = sum(row.has_task for row in rows), sum(row.cpu_percent for row in rows)
    memory, used = total_memory(agents), format_bytes(sum(row.rss_bytes for row in rows))
    stores = snapshot.stores
    held, capacity = sum(each.used_bytes for each in stores), sum(each.capacity_bytes for each in stores)
    hosts = len({agent.host for agent in agents})
    where = f"of {format_count(len(rows))} busy on {_plural(hosts, 'host')}"
    tasks = model.progress.find(ALL, "")
    room = max(12, width * 3 // 5)
    meters = [
        ("Tasks", tasks.share if tasks is not None else 1.0, _fitting(_tasks_texts(model, tasks), room), False),
        ("Workers", busy / max(1, len(rows)), f"{format_count(busy)} {where}", False),
        ("CPU", cpu / max(1, 100 * len(rows)), f"{format_percent(cpu)} of {100 * len(rows):,}%", False),
        ("Memory", memory.share, _fitting((memory.text, f"workers {used}"), room), True),
        ("Objects", held / max(1, capacity), f"{format_bytes(held)} of {format_bytes(capacity)}", True),
    ]
    wide = min(max(len(text) for _, _, text, _ in meters), room)
    return [*(_meter(*meter, width, wide, blocks) for meter in meters), ()]


def _tasks_texts(model: Model, tasks: Progress | None) -> tuple[str, ...]:
    if tasks is None or not tasks.unfinished:
        return ("all have ended",)
    left = format_left(tasks.seconds_left) if tasks.seconds_left else ""
    return f"{format_count(tasks.unfinished)} to do", cannot_run_text(tasks), left, until_text(tasks, model.time)


def _fitting(texts: Sequence[str], width: int) -> str:
    """Join the texts that are not empty, without the last ones that do not fit. The first one stays in any case."""
    shown = [text for text in texts if text]
    while len(shown) > 1 and len(", ".join(shown)) > width:
        shown.pop()
    return ", ".join(shown)


def _meter(name: str, share: float, text: str, warns: bool, width: int, text_width: int, blocks: bool) -> Line:
    length = max(4, width - _LABEL_WIDTH - text_width - 4)
    full = round(length * min(1.0, max(0.0, share)))
    style = Style.BAD if warns and share >= _FULL_SHARE else Style.GOOD
    mark, rest = ("█", "░") if blocks else ("|", " ")
    return (
        Span(left(name, _LABEL_WIDTH), Style.TITLE), Span("[", Style.DIM), Span(mark * full, style),
        Span(rest * (length - full), Style.DIM), Span("] ", Style.DIM), Span(left(text, text_width)),
    )  # fmt: skip


# ---- tasks per second ------------------------------------------------------------------------------------------------


def _history(model: Model, width: int, height: int, blocks: bool) -> list[Line]:
    """A column for each second."""
    tall = height - 2
    columns = max(1, width - _LABEL_WIDTH)
    values = _last_values(model, "throughput", columns)
    largest = max([1.0, *values])
    now = format_rate(model.latest.get("throughput", 0.0))
    failures = model.latest.get("failures", 0.0)
    title = [Span("Throughput ", Style.HEADING), Span(now, Style.TITLE), Span(f"  in the last {columns} s", Style.DIM)]
    title += [Span(f"  {format_rate(failures)} fail", Style.BAD)] if failures else []
    lines: list[Line] = [tuple(title)]
    for line in reversed(range(tall)):
        label = format_rate(largest) if line == tall - 1 else "0" if line == 0 else ""
        cells = "".join(_cell(value / largest * tall - line, blocks) for value in values)
        lines.append((Span(right(label, _LABEL_WIDTH - 1) + " ", Style.DIM), Span(cells, Style.GOOD)))
    return [*lines, ()]


def _last_values(model: Model, name: str, count: int) -> list[float]:
    """One value for each of the last seconds, 0 if it is not known."""
    end = model.time
    times, values = model.history(name, end - count * _SAMPLE_SECONDS)
    found = [0.0] * count
    for time, value in zip(times, values, strict=True):
        place = count - 1 - int((end - time) / _SAMPLE_SECONDS)
        if 0 <= place < count:
            found[place] = value
    return found


def _cell(level: float, blocks: bool) -> str:
    marks = _BLOCKS if blocks else _PLAIN_BLOCKS
    return marks[max(0, min(len(marks) - 1, round(level * (len(marks) - 1))))]


# ---- hosts, progress, running tasks, clients -------------------------------------------------------------------------


def _hosts(agents: Sequence[AgentStatus], width: int, height: int, blocks: bool) -> list[Line]:
    """A mark for each worker of each host."""
    if not agents:
        return [line_of("No workers", Style.HEADING), line_of("start some with scaler_cluster", Style.DIM)]
    shown = agents[: max(1, height - 2)]
    more = f", {len(agents) - len(shown):,} more: H" if len(agents) > len(shown) else ""
    name_width = min(max(display_width(agent.host) for agent in shown), max(8, width // 4))
    lines: list[Line] = [(Span("Hosts", Style.HEADING), Span(f"  a mark for each busy worker{more}", Style.DIM))]
    return [*lines, *(_host(agent, name_width, width, blocks) for agent in shown), ()]


def _host(agent: AgentStatus, name_width: int, width: int, blocks: bool) -> Line:
    cpu = format_percent(sum(worker.cpu_percent for worker in agent.workers))
    pause = f" {agent.state_name}" if agent.state is PeerState.PAUSED else ""
    text = f"{pause} {right(cpu, 8)} {right(memory_of(agent).text, _MEMORY_WIDTH)}"
    marks = max(1, width - name_width - 1 - len(text))
    on, off = ("■", "□") if blocks else ("#", ".")
    busy = sum(worker.has_task for worker in agent.workers)
    idle = len(agent.workers) - busy
    if len(agent.workers) > marks:
        busy, idle = (count * marks // len(agent.workers) for count in (busy, idle))
    silent = is_silent(agent.state)
    name = Span(left(agent.host, name_width) + " ", Style.WARNING if silent else Style.PLAIN)
    if silent:
        return (name, Span(f"silent for {format_duration(agent.silent_seconds)}", Style.WARNING))
    return (
        name, Span(on * busy, Style.GOOD), Span(off * idle, Style.DIM), Span(" " * (marks - busy - idle)), Span(text),
    )  # fmt: skip


def _progress(model: Model, rows: Sequence[Progress], width: int, height: int) -> list[Line]:
    """Clients, groups, functions and graphs with unfinished tasks, those with most of them first."""
    more = f"  {len(rows) - height + 2:,} more: g" if len(rows) > height - 2 else ""
    lines: list[Line] = [(Span("Progress", Style.HEADING), Span(more, Style.DIM))]
    if not rows:
        return [*lines, line_of("all tasks have ended", Style.DIM), ()]
    shown = rows[: max(0, height - 2)]
    name_width = min(max(display_width(_named(row)) for row in shown), max(12, width * 2 // 5))
    left_width = max(12, *(len(short_left_text(row)) for row in shown))
    return [*lines, *(_progress_line(row, name_width, left_width, width) for row in shown), ()]


def _named(row: Progress) -> str:
    return row.name if row.kind in ("client", "map", "graph") else f"{row.kind} {row.name}"


def _progress_line(row: Progress, name_width: int, left_width: int, width: int) -> Line:
    counts = f" {right(format_share(row.share), 4)} {format_count(row.unfinished):>9} to do"
    text = f"{counts} {right(short_left_text(row), left_width)}"
    length = max(3, width - name_width - len(text) - 3)
    full = int(length * row.share)
    return (
        Span(left(_named(row), name_width) + " ["), Span("=" * full, Style.GOOD), Span(" " * (length - full)),
        Span("]" + text),
    )  # fmt: skip


def _running(model: Model, width: int, height: int) -> list[Line]:
    rows = model.rows("running", limit=max(1, height - 3))[0]
    title = f"  the longest of {format_count(len(model.running))}: t" if len(model.running) > len(rows) else ""
    head: Line = (Span("Running", Style.HEADING), Span(title, Style.DIM))
    if not rows:
        return [head, line_of("no task has run for a second or longer", Style.DIM), ()]
    spec, places = _narrowed("running", _RUNNING_COLUMNS)
    shown = [tuple(row[place] for place in places) for row in rows]
    grid = grid_of(spec, shown, "", False, width)
    state = spec.index("state")
    styles = [Style.WARNING if row[state].startswith(STUCK) else Style.PLAIN for row in shown]
    return [head, grid.header(), *(grid.line(row, style) for row, style in zip(shown, styles, strict=True)), ()]


def _clients(model: Model, width: int, height: int) -> list[Line]:
    rows, total = model.rows("clients", limit=max(1, height - 3))
    present = [row for row in rows if row[TABLES["clients"].index("state")] != "ended"]
    more = f"  {total - len(rows):,} more: 9" if total > len(rows) else ""
    head: Line = (Span("Clients", Style.HEADING), Span(more, Style.DIM))
    if not present:
        return [head, line_of("no client is connected", Style.DIM), ()]
    spec, places = _narrowed("clients", _CLIENT_COLUMNS)
    shown = [tuple(row[place] for place in places) for row in present]
    grid = grid_of(spec, shown, "", False, width)
    return [head, grid.header(), *map(grid.line, shown), ()]


def _functions(model: Model, width: int, height: int) -> list[Line]:
    rows, total = model.rows("functions", sort_key="total", descending=True, limit=max(1, height - 3))
    return _brief("Functions", "functions", _FUNCTION_COLUMNS, rows, total, "2", width)


def _failures(model: Model, width: int, height: int) -> list[Line]:
    rows, total = model.rows("failures", sort_key="last", descending=True, limit=max(1, height - 3))
    return _brief("Failures", "failures", _FAILURE_COLUMNS, rows, total, "4", width)


def _brief(
    title: str, table: str, keys: Sequence[str], rows: Sequence[Row], total: int, key: str, width: int
) -> list[Line]:
    """Some rows of a table, and the key of its page."""
    more = f"  {total - len(rows):,} more: {key}" if total > len(rows) else ""
    head: Line = (Span(title, Style.HEADING), Span(more, Style.DIM))
    if not rows:
        return [head, line_of("none", Style.DIM), ()]
    spec, places = _narrowed(table, keys)
    shown = [tuple(row[place] for place in places) for row in rows]
    grid = grid_of(spec, shown, "", False, width)
    return [head, grid.header(), *map(grid.line, shown), ()]


def _narrowed(table: str, keys: Sequence[str]) -> tuple[TableSpec, list[int]]:
    """The table with these columns only, and their places in its rows."""
    spec = TABLES[table]
    places = [spec.index(key) for key in keys]
    columns = tuple(spec.columns[place] for place in places)
    return TableSpec(spec.name, spec.title, columns, keys[0], (keys[0],)), places


def _plural(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"
