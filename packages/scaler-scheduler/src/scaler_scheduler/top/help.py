"""The help page of ``?``: every key."""

from __future__ import annotations

from scaler_protocol.monitor.format import clip
from scaler_scheduler.top.lines import Line, Span, Style, line_of, wrapped

KEYS = (
    ("1 t g i H", "overview, running tasks, progress, workers, hosts"),
    ("2 3 4 5", "functions, waiting tasks, failures, objects"),
    ("6 7 8 9 0 a", "graphs, stream, tasks, clients, settings, alerts"),
    ("v e o y A", "large objects, traffic, output, logs, actors"),
    ("Tab, Shift-Tab", "next page, page before; on a row's page: links"),
    ("/", "show only rows with a text; Enter keeps, Esc drops it"),
    ("arrows j k PgUp PgDn ...", "scroll; Home and End: first and last row"),
)
ACTION_KEYS = (
    ("x X", "cancel the chosen row; X: all tasks of its function"),
    ("p u D", "pause, resume, drain the chosen host"),
    ("R K", "restart, kill the chosen worker process"),
    ("b F", "stack of the chosen task; profile of 5 s"),
    ("P W G L", "priority; weight; weight and limit of the group"),
)
WORKER_KEYS = (
    ("n C M c m f w d l", "sort by this column; again turns the order"),
    ("agt_cpu agt_rss lag", "its agent's: processor, memory, latency"),
    ("free, sent, queued", "slots left; unfinished tasks; waiting at its agent"),
    ("ITL", "initialized, has a task, slot lent to a nested task"),
)
TABLE_KEYS = (
    ("s S r", "sort: next column, column before, turn the order"),
    ("Enter", "the page of the chosen row or link"),
    (":NAME :03:00", "page of a worker, host, client, ...; what happened"),
    ("+ - [ ] Esc", "task stream: zoom, earlier, later, now"),
)
REPLAY_KEYS = (
    ("Space", "pause, go on"),
    ("left right , . { }", "seek 5 seconds, 1 second, a tenth of the recording"),
    ("< >", "slower, faster"),
)


_NAME_WIDTH = 25
_USUAL_WIDTH = 80
"""A narrower screen shows the meaning of keys below them."""


def help_lines(replaying: bool, width: int) -> list[Line]:
    title = "scaler_top: help   (q quits, any other key goes back)"
    lines: list[Line] = [line_of(part, Style.TITLE) for part in wrapped(title, width)]
    lines += _section("", KEYS, width)
    if not replaying:
        lines += _section("Actions, which are confirmed first", ACTION_KEYS, width)
    lines += _section("Workers", WORKER_KEYS, width)
    lines += _section("Other pages", TABLE_KEYS, width)
    if replaying:
        lines += _section("Replay", REPLAY_KEYS, width)
    return lines


def _section(title: str, keys: tuple[tuple[str, str], ...], width: int) -> list[Line]:
    head = [line_of(part, Style.HEADING) for part in wrapped(title, width)] if title else []
    return [*head, *(line for name, text in keys for line in _key_lines(name, text, width))]


def _key_lines(name: str, text: str, width: int) -> list[Line]:
    if width >= _USUAL_WIDTH:
        return [(Span(f"  {clip(name, _NAME_WIDTH):<{_NAME_WIDTH}}", Style.TITLE), Span(text))]
    names = [line_of(f"  {part}", Style.TITLE) for part in wrapped(name, max(1, width - 2))]
    return [*names, *(line_of(f"    {part}") for part in wrapped(text, max(1, width - 4)))]
