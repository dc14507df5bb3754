"""Pages that show one table of the model, under a line of totals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.entity_actions import targets_of_page
from scaler_protocol.monitor.format import (
    format_bytes_short,
    format_count,
    format_duration,
    format_percent,
    format_rate,
)
from scaler_protocol.monitor.links import EntityLink, mentions_of_failures, mentions_of_row, row_link
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import Action, targets_of
from scaler_protocol.monitor.running import STUCK
from scaler_protocol.monitor.tables import TABLES, Row
from scaler_scheduler.top.entities import entity_lines
from scaler_scheduler.top.grid import grid_of
from scaler_scheduler.top.lines import Line, Span, Style, chosen_link, joined, line_of, links_in, width_of, wrapped
from scaler_scheduler.top.view import DETAILED, PAGES, PREVIEWED, View

TITLES = {
    "overview": "overview",
    "workers": "workers",
    "hosts": "hosts",
    "running": "running",
    "functions": "functions",
    "waits": "waiting",
    "failures": "failures",
    "objects": "objects",
    "largest": "values",
    "traffic": "traffic",
    "graphs": "graphs",
    "stream": "stream",
    "tasks": "tasks",
    "clients": "clients",
    "settings": "settings",
    "progress": "progress",
    "alerts": "alerts",
    "output": "output",
    "logs": "logs",
    "actors": "actors",
}
_SHORT_TITLES = {
    "overview": "all",
    "progress": "prog",
    "workers": "work",
    "hosts": "host",
    "running": "run",
    "functions": "func",
    "waits": "wait",
    "failures": "fail",
    "objects": "obj",
    "largest": "val",
    "traffic": "net",
    "graphs": "graph",
    "stream": "stream",
    "tasks": "task",
    "clients": "cli",
    "settings": "set",
    "alerts": "alert",
    "output": "out",
    "logs": "log",
    "actors": "actor",
}
_SHORT_NAMES = {"  waiting ": "  wait ", "  running ": "  run ", "  succeeded ": "  done "}
"""Short names of counts in the line of totals."""

_COUNTED = {
    "running": "running task",
    "functions": "function",
    "waits": "reason",
    "objects": "host",
    "hosts": "host",
    "largest": "object",
    "traffic": "pair",
    "graphs": "graph",
    "tasks": "execution",
    "clients": "client",
    "settings": "setting",
    "progress": "row",
    "alerts": "alert",
    "logs": "line",
    "actors": "actor",
}
DETAILS_HEIGHT_LEAST = 8
"""Details of failures stand below their table where so many lines are left."""

REASON_HEIGHT_LEAST = 3
"""Least height at which the complete reason of waiting tasks is shown."""

NOTE_HEIGHT_LEAST = 4
"""Least height at which a page says how many rows there are."""

_TALL = 36

_LOOKED_AT = 200
"""Rows whose details decide how many lines these get."""

_NOTHING = {
    "running": "no task has run for a second or longer",
    "functions": "no function has been called yet",
    "waits": "no task waits",
    "failures": "no task has failed while this monitor watched",
    "hosts": "no host has workers; start some with scaler_cluster",
    "objects": "no host has an object store yet",
    "largest": "no large object is kept",
    "traffic": "no host has received anything from another one",
    "graphs": "no graph is running",
    "tasks": "no task has ended while this monitor watched",
    "clients": "no client is connected",
    "settings": "the scheduler does not say its settings",
    "alerts": "nothing is wrong",
    "progress": "all tasks have ended",
    "logs": "nothing has been logged yet",
    "actors": "no client has made an actor",
}

_LEVEL = TABLES["logs"].index("level")
_STATE_OF_RUNNING = TABLES["running"].index("state")
_STATE_OF_CLIENT = TABLES["clients"].index("state")


class Body(NamedTuple):
    """Lines of a page, and what the keys need to know of them."""

    lines: list[Line]
    page_rows: int
    last_first_row: int
    rows: int
    selected: Hashable = None
    targets: Mapping[Action, str] = {}
    first_line: int = 0
    has_links: bool = False


def head_lines(model: Model, snapshot: Snapshot, view: View, width: int) -> list[Line]:
    """The names of the pages and the totals of the cluster: two lines."""
    return [_tabs(view, width), _totals(model, snapshot, width)]


def table_body(model: Model, view: View, width: int, height: int) -> Body:
    """Header and rows; below them more of the chosen one, where there is room."""
    spec, table = TABLES[view.page], view.table
    sort_key = table.sort_key or spec.default_sort
    descending = spec.descending if table.descending is None else table.descending
    total = model.rows(view.page, view.filter_text, limit=0)[1]
    details_height = _details_height(model, view, width, height, total) if view.page in PREVIEWED else 0
    has_note = height >= NOTE_HEIGHT_LEAST
    room = max(1, height - 1 - has_note - details_height)
    last_first_row = max(0, total - room)
    first = min(table.first_row, last_first_row)
    rows, _ = model.rows(view.page, view.filter_text, sort_key, descending, first, room)
    grid = grid_of(spec, rows, sort_key, descending, width)
    chosen = min(table.cursor, total - 1) - first if view.page in DETAILED else -1
    lines = [_note(model, view, total)] if has_note else []
    lines.append(_barred(grid.header(), width, Style.HEADER))
    for number, row in enumerate(rows):
        line = grid.line(row, _row_style(view.page, row, number == chosen))
        lines.append(_barred(line, width, Style.CHOSEN) if number == chosen else line)
    if not rows:
        lines.append(line_of(_nothing(view, model), Style.DIM))
    selected = _selected(view.page, rows[chosen]) if 0 <= chosen < len(rows) else None
    if details_height and selected is not None:
        lines += [()] * (height - details_height - len(lines))
        sentence = _SENTENCES.get(view.page)
        details = sentence(rows[chosen], width) if sentence else details_lines(model, view.page, selected, width)
        lines += [line_of("-" * width, Style.DIM), *details[: details_height - 1]]
    targets = targets_of(spec, rows[chosen]) if 0 <= chosen < len(rows) else {}
    return Body(lines, room, last_first_row, total, selected, targets)


def _selected(page: str, row: Row) -> Hashable:
    """The key that identifies this row as long as it exists."""
    if page not in PREVIEWED:
        return row_link(page, row)
    return row[-1] if page == "failures" else tuple(row[TABLES[page].index(part)] for part in TABLES[page].key)


def _rows_of(model: Model, page: str, selected: Hashable) -> list[Row]:
    """The row with this key, if it still exists. The page of a thing may stand over any other page."""
    if isinstance(selected, EntityLink):
        return []
    return model.rows_where(page, dict(zip(TABLES[page].key, cast(tuple[Any, ...], selected), strict=True)))


def _details_height(model: Model, view: View, width: int, height: int, rows: int) -> int:
    """The height that the table leaves; on a tall screen it leaves half. A reason needs no more than its lines, and
    gets half."""
    left = height - 3 - max(1, rows)
    if view.page in _SENTENCES:
        lines_of = _SENTENCES[view.page]
        needed = max(
            [
                0,
                *(
                    1 + len(lines_of(row, width))
                    for row in model.rows(view.page, view.filter_text, limit=_LOOKED_AT)[0]
                ),
            ]
        )
        return min(needed, max(left, height // 2)) if height // 2 >= REASON_HEIGHT_LEAST else 0
    if height >= _TALL:
        left = max(left, height // 2)
    return left if left >= DETAILS_HEIGHT_LEAST else 0


def details_body(model: Model, view: View, width: int, height: int) -> Body:
    """All that is known of a row, with the chosen one of its links in sight."""
    lines = details_lines(model, view.page, view.details_of, width)
    lines += _mention_lines(model, view.page, view.details_of)
    places, link = links_in(lines), view.details_of
    targets = targets_of_page(link, page_of(model, link)) if isinstance(link, EntityLink) else {}
    if view.link is None or not places:
        return scrolled(lines, view.first_line, height)._replace(has_links=bool(places), targets=targets)
    number, link = places[view.link % len(places)]
    lines[number] = chosen_link(lines[number], link)
    is_seen = view.first_line <= number < view.first_line + height
    first = view.first_line if is_seen else max(0, number - height // 2)
    return scrolled(lines, first, height)._replace(selected=link, has_links=True, targets=targets)


def details_lines(model: Model, page: str, selected: Hashable, width: int) -> list[Line]:
    """All that is known of a row, in lines of at most ``width`` columns."""
    if isinstance(selected, EntityLink):
        return entity_lines(model, selected, width)
    if page in _SENTENCES:
        found = _rows_of(model, page, selected)
        return _SENTENCES[page](found[0], width) if found else [line_of(_GONE[page], Style.DIM)]
    lines = model.failure_details(cast(int, selected)).expandtabs(4).splitlines()
    styles = [Style.TITLE, *[Style.PLAIN] * len(lines)]
    return [line_of(part, style) for text, style in zip(lines, styles, strict=False) for part in wrapped(text, width)]


def _mention_lines(model: Model, page: str, selected: Hashable) -> list[Line]:
    """A line for each thing that the details of failures and waiting tasks mention."""
    links: list[EntityLink] = []
    if page in _SENTENCES:
        links = [link for row in _rows_of(model, page, selected) for link in mentions_of_row(page, row)]
    elif page == "failures" and not isinstance(selected, EntityLink):
        group = model.activity.failures.group(cast(int, selected))
        links = mentions_of_failures(group) if group is not None else []
    return [
        *([()] if links else []),
        *((Span(f"{link.kind} ", Style.DIM), Span(link.key[-1], Style.LINK, link)) for link in links),
    ]


def _wait_lines(row: Row, width: int) -> list[Line]:
    """The waiting tasks, and the whole reason."""
    function, reason, count, oldest, session, task, priority = row
    who = f"{_counted(count, 'task')} of {function}, the first for {format_duration(oldest)}"
    which = f": task {task} of client {session}" if session else ""
    which += f", priority {priority}" if session and priority else ""
    title = [line_of(part, Style.TITLE) for part in wrapped(who + which, width)]
    return [*title, *(line_of(part) for part in wrapped(reason, width))]


def _alert_lines(row: Row, width: int) -> list[Line]:
    """The whole sentence."""
    return [line_of(part) for part in wrapped(row[TABLES["alerts"].index("text")], width)]


def _log_lines(row: Row, width: int) -> list[Line]:
    """The whole line."""
    return [line_of(part) for part in wrapped(row[TABLES["logs"].index("text")], width)]


_SENTENCES: dict[str, Callable[[Row, int], list[Line]]] = {
    "waits": _wait_lines,
    "alerts": _alert_lines,
    "logs": _log_lines,
}
"""The details of a row on pages where these are a sentence or two."""

_GONE = {
    "waits": "no task waits for this reason any more",
    "alerts": "this alert is over",
    "logs": "newer lines have taken its place",
}


def _barred(line: Line, width: int, style: Style) -> Line:
    """The bar goes on to the right edge."""
    missing = width - width_of(line)
    return (*line, Span(" " * missing, style)) if missing > 0 else line


def _tabs(view: View, width: int) -> Line:
    """All pages by their keys; in short where there is no room, and the last ones by their keys alone. On a very narrow
    screen, the first ones are left out so that the shown page is named."""
    for gap in ("  ", " "):
        wide = joined([_tab(key, page, TITLES[page], view) for key, page in PAGES.items()], Span(gap))
        if width_of(wide) <= width:
            return wide
    short = {**_SHORT_TITLES, view.page: TITLES[view.page]}
    for page in [*reversed(PAGES.values()), ""]:
        tabs = joined([_tab(key, each, short[each], view) for key, each in PAGES.items()], Span(" "))
        if width_of(tabs) <= width:
            return tabs
        if page != view.page:
            short[page] = ""
    shown = [_tab(key, each, short[each], view) for key, each in PAGES.items()]
    place = list(PAGES.values()).index(view.page)
    while place and width_of(joined(shown[: place + 1], Span(" "))) + (place + 1 < len(shown)) > width:
        shown, place = shown[1:], place - 1  # a mark says that tabs to the right are cut
    return joined(shown, Span(" "))


def _tab(key: str, page: str, title: str, view: View) -> Line:
    """Return the parts of the line. Without a title, the key alone."""
    if not title:
        return (Span(key, Style.DIM),)
    return (Span(f"{key} ", Style.DIM), Span(title, Style.CHOSEN if page == view.page else Style.PLAIN))


def _totals(model: Model, snapshot: Snapshot, width: int) -> Line:
    tasks, scheduler, unfinished = snapshot.tasks, snapshot.scheduler, snapshot.unfinished
    rate = model.history("throughput", model.time - 3)[1]
    counts = (
        ("waiting", unfinished.waiting, Style.PLAIN),
        ("queued", unfinished.queued, Style.PLAIN),
        ("running", unfinished.running, Style.PLAIN),
        ("succeeded", tasks.success, Style.GOOD),
        ("failed", tasks.failed, Style.BAD),
        ("cancelled", tasks.canceled, Style.WARNING),
    )
    spans = [Span(format_rate(rate[-1] if rate else 0.0), Style.TITLE)]
    for name, count, style in counts:
        spans += [Span(f"  {name} ", Style.DIM), Span(format_count(count), style if count else Style.PLAIN)]
    process = f"{format_percent(scheduler.cpu_percent)} {format_bytes_short(scheduler.rss_bytes)}"
    wider = (*spans, Span("  scheduler ", Style.DIM), Span(process))
    present = _without_zeros(spans)
    narrower = (wider, tuple(spans), present, _with_short_names(present))
    return next((each for each in narrower if width_of(each) <= width), narrower[-1])


def _without_zeros(spans: Sequence[Span]) -> Line:
    """The counts that are not 0: pairs of a name and a count after the rate."""
    pairs = [spans[place : place + 2] for place in range(1, len(spans), 2)]
    return (spans[0], *(span for name, count in pairs if count.text != "0" for span in (name, count)))


def _with_short_names(spans: Sequence[Span]) -> Line:
    """The same with short names, where the whole ones would push the last count off the screen."""
    return tuple(span._replace(text=_SHORT_NAMES.get(span.text, span.text)) for span in spans)


def _note(model: Model, view: View, total: int) -> Line:
    """A note if the table does not contain all rows."""
    snapshot, page = model.snapshot, view.page
    assert snapshot is not None
    truths = {
        "functions": snapshot.function_count,
        "waits": snapshot.wait_count,
        "graphs": snapshot.graph_count,
        "actors": snapshot.actor_count,
    }
    if page == "failures":
        seen = model.activity.failures.total
        shown = f"{_counted(total, 'cause')} of {_counted(seen, 'failed execution')}"
        failed = _counted(snapshot.tasks.failed, "task")
        dropped = model.activity.failures.dropped_text
        return _noted(shown, f"{dropped and ', '}{dropped}, {failed} failed   Enter: details")
    shown = _counted(total, _COUNTED[page])
    if page == "tasks" and model.late_text:
        return _noted(shown, f"; {model.late_text}")
    if page == "tasks":
        return _noted(shown, f" of {_counted(model.log.ended, 'task')} that ended while this monitor looked")
    if truths.get(page, 0) > total and not view.filter_text:
        return _noted(shown, f", those with most to do of {format_count(truths[page])}")
    return _noted(shown, "")


def _counted(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}" + ("" if count == 1 else "s")


def _noted(shown: str, rest: str) -> Line:
    return (Span(shown), Span(rest, Style.DIM))


def _nothing(view: View, model: Model) -> str:
    if view.filter_text:
        return f"nothing contains {view.filter_text!r}"
    return _NOTHING[view.page]


def _row_style(page: str, row: Row, chosen: bool) -> Style:
    if chosen:
        return Style.CHOSEN
    away = page == "clients" and row[_STATE_OF_CLIENT] == "away"
    is_bad = page == "logs" and row[_LEVEL] in ("warning", "error", "critical")
    stuck = page == "running" and row[_STATE_OF_RUNNING].startswith(STUCK)
    return Style.WARNING if away or stuck or is_bad else Style.PLAIN


def scrolled(lines: Sequence[Line], first_line: int, height: int) -> Body:
    """A text that fills the screen."""
    last = max(0, len(lines) - height)
    first = min(first_line, last)
    return Body(list(lines[first : first + height]), max(1, height - 1), last, len(lines), first_line=first)
