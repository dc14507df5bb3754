"""The screen: what a model and a view look like in a terminal of some size. A pure function; no terminal is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import FeedState, Model
from scaler_protocol.monitor.operation import Action, OperationOutcome
from scaler_protocol.monitor.workers import filter_rows, sort_rows, total_of
from scaler_scheduler.top.help import help_lines
from scaler_scheduler.top.lines import (
    Line,
    Span,
    Style,
    cut,
    dimmed,
    ending,
    joined,
    line_of,
    padded,
    width_of,
    wrapped,
)
from scaler_scheduler.top.output import output_body
from scaler_scheduler.top.overview import overview_body
from scaler_scheduler.top.pages import Body, details_body, head_lines, scrolled, table_body
from scaler_scheduler.top.question import keys_texts
from scaler_scheduler.top.status import running_line, status_line, waiting_lines
from scaler_scheduler.top.stream import stream_body
from scaler_scheduler.top.tables import Table, client_entries, function_entries, header_lines, table_of, widened
from scaler_scheduler.top.view import SORT_KEYS, View
from scaler_scheduler.top.workers import WorkerTable, worker_table

HEADER_ROWS = 7
OWN_LINES = ("status", "total", "header")
"""The lines that belong to the table of workers."""

LEAST_WORKER_ROWS = 3
LOW_LINES = 8
"""A screen with fewer lines shows what is urgent in place of the totals, so that there is room for rows."""

PANEL_LABEL_WIDTH, PANEL_WIDTH_LIMIT = 17, 70


@dataclass(frozen=True, slots=True)
class Screen:
    lines: list[Line]
    """At most as many lines as the terminal has, none wider than it."""

    page_rows: int
    """The number of rows that fit."""

    last_first_row: int
    """The first row that shows the last one at the bottom."""

    rows: int = 1 << 30
    """The number of rows to move in."""

    selected: Hashable = None
    """The key of the row under the cursor."""

    targets: Mapping[Action, str] = field(default_factory=dict)
    """The actions on it, and their targets."""

    first_line: int = 0
    """The first line shown of details."""


def draw(
    model: Model, view: View, width: int, height: int, now: float, address: str, blocks: bool = True, replay: Line = ()
) -> Screen:
    """Everything a user sees. ``blocks``: whether the terminal shows block characters; ``replay``: where a recording
    stands, for the last line."""
    room = height - 1 if replay else height
    screen = _draw(model, view, width, room, now, address, blocks, bool(replay))
    if not replay:
        return screen
    lines = [*screen.lines, *[()] * (room - len(screen.lines)), cut(replay, width)]
    return dataclasses.replace(screen, lines=lines[:height])


def _draw(
    model: Model, view: View, width: int, height: int, now: float, address: str, blocks: bool, replaying: bool
) -> Screen:
    if view.outcome is not None and view.outcome.report:
        return _of_body(scrolled(_report_lines(view.outcome, width), view.first_line, height), width, height)
    if view.help_shown:
        return _of_body(scrolled(help_lines(replaying, width), view.first_line, height), width, height)
    if model.snapshot is None:
        lines = [
            part for line in waiting_lines(model, now, address) for part in _whole(line, width, _usual_limit(height))
        ]
        return _finished(lines, width, height)
    if view.page == "workers" and view.details_of is None:
        return _draw_snapshot(model, model.snapshot, view, width, height, now)
    return _draw_page(model, model.snapshot, view, width, height, now, blocks)


def _report_lines(outcome: OperationOutcome, width: int) -> list[Line]:
    """A stack or a profile."""
    title = f"{outcome.text}   arrows scroll, any other key goes back"
    lines = [part for line in outcome.report.splitlines() for part in wrapped(line, width)]
    return [line_of(title, Style.TITLE), *map(line_of, lines)]


def _draw_page(
    model: Model, snapshot: Snapshot, view: View, width: int, height: int, now: float, blocks: bool
) -> Screen:
    """Names of pages, totals, what is urgent, then the page."""
    head = head_lines(model, snapshot, view, width)
    status = _status_lines(model, view, width, height, now)
    if height < LOW_LINES and view.details_of is None:
        head, status = head[:1], status if status != [()] else head[1:]
    room = max(1, height - len(head) - len(status))
    if view.details_of is not None:
        body = details_body(model, view, width, room)
        if status == [()]:
            status = _whole(_details_hint(body, width), width, _usual_limit(height))
            body = details_body(model, view, width, max(1, height - len(head) - len(status)))
    elif view.page == "output":
        body = output_body(model, view, width, room)
    elif view.page == "overview":
        body = overview_body(model, snapshot, width, room, blocks)
    elif view.page == "stream":
        body = stream_body(model, view, width, room, blocks)
    else:
        body = table_body(model, view, width, room)
    if model.state(now) is FeedState.LOST:
        head, body = dimmed(head), body._replace(lines=dimmed(body.lines))
    return _of_body(body._replace(lines=[*head, *status, *body.lines]), width, height)


def _details_hint(body: Body, width: int) -> Line:
    keys = "Tab chooses a link, Enter opens it, Esc goes back" if body.has_links else "Esc goes back"
    return line_of(_with_actions(f"arrows scroll, {keys}", body, width), Style.DIM)


def _with_actions(text: str, body: Body, width: int) -> str:
    """Add as many of the keys of actions to a text as fit into a line."""
    for each in keys_texts(body.targets):
        if display_width(longer := f"{text}, {each}") > width:
            break
        text = longer
    return text


def _of_body(body: Body, width: int, height: int) -> Screen:
    lines = [cut(line, width) for line in body.lines[: max(0, height)]]
    return Screen(lines, body.page_rows, body.last_first_row, body.rows, body.selected, body.targets, body.first_line)


def _draw_snapshot(model: Model, snapshot: Snapshot, view: View, width: int, height: int, now: float) -> Screen:
    above = _lines_above(snapshot, width, height)
    status = _status_lines(model, view, width, height, now)
    status = status if status != [()] else [running_line(model, width)]
    page_rows = max(1, height - len(above) - len(OWN_LINES) + 1 - len(status))
    rows = sort_rows(filter_rows(model.worker_rows, view.filter_text), view.order)
    last_first_row = max(0, len(rows) - page_rows)
    first = min(view.first_row, last_first_row)
    panel = _panel_tables(snapshot)
    shown = rows[first : first + page_rows]
    table = worker_table(shown, total_of(rows), len(model.worker_rows), view.order, width, _widths_beside(panel))
    below = [table.total_line(), *_body_lines(table, panel, width, height - len(above) - 1 - len(status))]
    if model.state(now) is FeedState.LOST:
        above, below = dimmed(above), dimmed(below)
    return _finished([*above, *status, *below], width, height, page_rows, last_first_row)


def _status_lines(model: Model, view: View, width: int, height: int, now: float) -> list[Line]:
    """Return the status line in as many lines as it needs: a question is shown whole, because a key answers it. A text
    that its user types has one line, and its end is shown."""
    line = status_line(model, view, now)
    if view.is_typing and (view.question is None or view.question.is_typing):
        return [ending(line, width)]
    return _whole(line, width, _usual_limit(height) if view.question is None else max(1, height - 1))


def _usual_limit(height: int) -> int:
    """Return how many lines of the screen a sentence may take."""
    return max(1, height // 4)


def _whole(line: Line, width: int, limit: int) -> list[Line]:
    """A sentence in as many lines as it needs, up to ``limit``: then the last one is too long, and will be cut."""
    if len(line) != 1 or width_of(line) <= width:
        return [line]
    text, style, _ = line[0]
    parts = wrapped(text, width)
    if len(parts) > limit:
        parts[limit - 1 :] = [" ".join(parts[limit - 1 :])]
    return [(Span(part, style),) for part in parts]


def _finished(lines: Sequence[Line], width: int, height: int, page_rows: int = 1, last_first_row: int = 0) -> Screen:
    return Screen([cut(line, width) for line in lines[: max(0, height)]], page_rows, last_first_row)


def _lines_above(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """The lines above the status line, unless they would leave no room for workers."""
    room = height - len(OWN_LINES) - LEAST_WORKER_ROWS
    shortcuts = [_shortcut_line(width)] if room >= 1 else []
    if room < 4:
        return shortcuts
    header = header_lines(snapshot, width, min(_wanted_header_lines(snapshot, height), room - 2))
    return [*header, line_of("-" * width, Style.DIM), *shortcuts]


def _wanted_header_lines(snapshot: Snapshot, height: int) -> int:
    """More than eight on a tall screen, when there are more kinds of messages."""
    messages = max(len(snapshot.sent), len(snapshot.received))
    return 1 + max(HEADER_ROWS, min(messages, height // 4))


# ---- workers, and next to or below them clients and functions --------------------------------------------------------


def _panel_tables(snapshot: Snapshot) -> list[Table]:
    """Clients and functions, equally wide: as their labels need, within bounds."""
    clients = table_of("client_manager", client_entries(snapshot.clients), PANEL_LABEL_WIDTH, 7)
    functions = table_of("func_to_num_tasks", function_entries(snapshot.functions), PANEL_LABEL_WIDTH, 7)
    width = min(max(clients.width, functions.width), PANEL_WIDTH_LIMIT)
    return [widened(clients, width), widened(functions, width)]


def _body_lines(table: WorkerTable, panel: Sequence[Table], width: int, height: int) -> list[Line]:
    """The worker table with its header, and the panel where it fits: next to it, else below it."""
    left = [table.header_line()] + [table.row_line(row) for row in table.rows]
    room = width - table.width - 3
    if room >= PANEL_LABEL_WIDTH + 1 + panel[0].value_width:
        return _beside(left, table.width, _stacked(panel, min(room, panel[0].width), height))
    if height - len(left) >= 3:
        return left + [()] + _side_by_side(panel, width, height - len(left) - 1)
    return left


def _widths_beside(panel: Sequence[Table]) -> tuple[int, int]:
    """Separator and panel: as it would like to be, and at least."""
    return 3 + panel[0].width, 3 + PANEL_LABEL_WIDTH + 1 + panel[0].value_width


def _beside(left: Sequence[Line], left_width: int, right: Sequence[Line]) -> list[Line]:
    count = max(len(left), len(right))
    lines = [*left, *[()] * (count - len(left))]
    others = [*right, *[()] * (count - len(right))]
    return [joined([padded(line, left_width), other]) for line, other in zip(lines, others, strict=True)]


def _stacked(panel: Sequence[Table], width: int, height: int) -> list[Line]:
    """Clients over functions; each gets the lines it needs, or half of them when both need more."""
    clients, functions = (widened(each, width) for each in panel)
    needed = [1 + len(each.entries) for each in (clients, functions)]
    half = (height - 1) // 2
    first = min(needed[0], max(half, height - 1 - needed[1]))
    second = min(needed[1], max(0, height - 1 - first))
    return [*clients.lines(first), (), *functions.lines(second)]


def _side_by_side(panel: Sequence[Table], width: int, height: int) -> list[Line]:
    height = min(height, 1 + max(len(each.entries) for each in panel))
    tables = [widened(each, min((width - 3) // 2, each.width)) for each in panel]
    return [joined(parts) for parts in zip(*(each.lines(height) for each in tables), strict=True)]


# ---- the lines between -----------------------------------------------------------------------------------------------


def _shortcut_line(width: int) -> Line:
    text = " ".join(f"{key.value}[{character}]" for character, key in SORT_KEYS.items())
    prefix = "Shortcuts: "
    return line_of(prefix + text if len(prefix) + len(text) <= width else text, Style.DIM)
