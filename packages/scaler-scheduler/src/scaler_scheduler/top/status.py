"""The status line: the most urgent thing there is to say."""

from __future__ import annotations

from scaler_protocol.monitor.alerts import alerts_text
from scaler_protocol.monitor.format import display_width, format_duration
from scaler_protocol.monitor.model import FeedState, Model
from scaler_protocol.monitor.running import longest_running, summary_of
from scaler_scheduler.top.lines import Line, Span, Style, line_of
from scaler_scheduler.top.view import View

RESTART_SHOWN_SECONDS = 10.0


def status_line(model: Model, view: View, now: float) -> Line:
    """Empty when all is well."""
    if view.question is not None:
        return line_of(view.question.text, Style.ALARM if not view.question.is_typing else Style.TITLE)
    if view.outcome is not None:
        return line_of(view.outcome.text, Style.GOOD if view.outcome.is_done else Style.ALARM)
    if view.typed_name is not None:
        return (
            Span("open (worker, host, function, client, client/task, or time such as 03:00): ", Style.TITLE),
            Span(view.typed_name + "_"),
        )
    if view.editing_filter:
        return (Span("filter: ", Style.TITLE), Span(view.filter_text + "_"))
    if model.problem is not None:
        return line_of(model.problem, Style.ALARM)
    if model.state(now) is FeedState.LOST:
        silent = format_duration(model.silent_seconds(now))
        return line_of(f"scheduler lost: silent for {silent}; waiting for it to come back", Style.ALARM)
    if model.restarted_at is not None and now - model.restarted_at < RESTART_SHOWN_SECONDS:
        return line_of("the scheduler has restarted: counts start again", Style.WARNING)
    if model.snapshot is not None and model.snapshot.trouble:
        return line_of(model.snapshot.trouble, Style.WARNING)
    if model.alerts and view.page != "alerts":
        return line_of(
            alerts_text(model.alerts), Style.ALARM if model.alerts[0].severity == "critical" else Style.WARNING
        )
    return line_of(f"filter: {view.filter_text}   / to change, Esc to drop", Style.DIM) if view.filter_text else ()


def running_line(model: Model, width: int) -> Line:
    """The longest-running tasks, as many as there is room for; empty if no task has run for long."""
    spans = [Span("longest: ", Style.DIM)]
    room = width - len(spans[0].text)
    for row in longest_running(model.running.values()):
        text = summary_of(row)
        room -= display_width(text) + 2
        if room < -2:
            break
        if len(spans) > 1:
            spans.append(Span(", ", Style.DIM))
        spans.append(Span(text, Style.WARNING if row.suspicion else Style.PLAIN))
    return tuple(spans) if len(spans) > 1 else ()


def waiting_lines(model: Model, now: float, address: str) -> list[Line]:
    """Before anything was heard."""
    silent = model.silent_seconds(now)
    lines: list[Line] = [line_of("scaler_top", Style.TITLE), (), line_of(f"waiting for the scheduler at {address}")]
    if model.problem is not None:
        lines += [(), line_of(model.problem, Style.ALARM)]
    elif silent > model.timeout_seconds:
        lines += [(), line_of(f"nothing heard for {format_duration(silent)}", Style.ALARM)]
        lines += [line_of("Is a scheduler running, and is this its monitor address?")]
    return [*lines, (), line_of("q quits", Style.DIM)]
