"""The overview: a few numbers, the lines of its charts, and the span of time that they show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol.monitor.alerts import MEMORY_RULE
from scaler_protocol.monitor.format import (
    format_bytes,
    format_count,
    format_left,
    format_percent,
    format_rate,
)
from scaler_protocol.monitor.host_memory import total_memory
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.progress import ALL, cannot_run_text, left_text
from scaler_protocol.monitor.running import longest_running, summary_of
from scaler_protocol.monitor.silence import is_silent

SPANS = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86_400.0, 3 * 86_400.0)
_FIRST_SPAN, _YOUNGEST_SPAN = 300.0, 15.0
_IDLE_SECONDS = 4.5
_YOUNG_SECONDS = 5.0
_STEPS = 240
"""The steps of each chart: lines that move by less are not drawn again."""

_LEAST_SPAN, _MOST_SPAN = 2.0, 30 * 86_400.0


class Series(NamedTuple):
    """A line of a chart."""

    name: str
    times: Sequence[float]
    values: Sequence[float]


class Figure(NamedTuple):
    """A number that is always in sight."""

    title: str
    text: str
    tone: str = ""
    help: str = ""


_RUNNING_NAMED = 10

_CHARTS = {
    "throughput": (("tasks", "throughput"), ("failures", "failures")),
    "cpu": (("workers", "workers_cpu"), ("agents", "agents_cpu"), ("scheduler", "scheduler_cpu")),
    "memory": (
        ("workers", "workers_rss"),
        ("objects", "store_used"),
        ("scheduler", "scheduler_rss"),
        ("all of hosts", "hosts_used"),
        ("limit", "hosts_limit"),
    ),
    "queue": (("waiting", "unassigned"), ("running", "running"), ("queued on hosts", "queued")),
}
"""Names of lines, and of the model's histories."""


def series(model: Model, chart: str, since: float) -> list[Series]:
    """The lines of a chart, and a little before ``since`` so that they come in from the edge."""
    return [Series(name, *model.history(history, since - 60.0)) for name, history in _CHARTS[chart]]


def _counted(workers: int, state: str) -> str:
    return f", {workers:,} {state}" if workers else ""


_LEFT_HELP = "until all tasks have ended, at the recent pace"


def figures(model: Model) -> list[Figure]:
    snapshot = model.snapshot
    tasks = snapshot.tasks if snapshot is not None else None
    waiting, queued, running = snapshot.unfinished if snapshot is not None else (0, 0, 0)
    rows = model.worker_rows
    silent = sum(is_silent(row.state) for row in rows)
    busy = sum(row.has_task for row in rows if not is_silent(row.state))
    paused, draining = (sum(row.state_name == state for row in rows) for state in ("paused", "draining"))
    failed = tasks.failed if tasks else 0
    return [
        Figure("tasks/s", _rate(model), help="tasks that ended in the last second"),
        _left(model),
        Figure("running", format_count(running), help="in a worker process, when its agent last reported"),
        Figure("queued", format_count(queued), help="assigned to a host, and waiting there"),
        Figure("waiting", format_count(waiting), help="not yet assigned to a host"),
        Figure("succeeded", _short_count(tasks.success if tasks else 0), help=_since(tasks.success if tasks else 0)),
        Figure("failed", _short_count(failed), "bad" if failed else "", _since(failed)),
        Figure("cancelled", _short_count(tasks.canceled if tasks else 0), help=_since(tasks.canceled if tasks else 0)),
        Figure(
            "busy workers",
            f"{busy:,} / {len(rows):,}"
            + "".join(map(_counted, (silent, paused, draining), ("silent", "paused", "draining"))),
            "bad" if silent else "",
            "workers that run a task, of all; those of silent agents are not counted as busy",
        ),
        Figure("CPU", format_percent(sum(row.cpu_percent for row in rows)), help="of all workers; 100% is one core"),
        _memory(model),
    ]


def _memory(model: Model) -> Figure:
    memory = total_memory(model.snapshot.agents if model.snapshot is not None else ())
    tone = "bad" if any(alert.rule == MEMORY_RULE for alert in model.alerts) else ""
    workers = format_bytes(sum(row.rss_bytes for row in model.worker_rows))
    return Figure("memory", memory.text or workers, tone, f"used on all hosts; the workers use {workers}")


def _short_count(count: int) -> str:
    """Exact below ten millions, so that no number outgrows its place."""
    return format_count(count) if count < 10_000_000 else f"{count / 1e6:,.1f}M"


def _since(count: int) -> str:
    return f"{format_count(count)} since the scheduler started"


def _left(model: Model) -> Figure:
    progress = model.progress.find(ALL, "")
    if progress is None or not progress.unfinished:
        return Figure("left", "-", help=_LEFT_HELP)
    left = format_left(progress.seconds_left) if progress.seconds_left else ""
    text = ", ".join(filter(None, (left, cannot_run_text(progress)))) or "-"
    return Figure("left", text, help=left_text(progress, model.time) or _LEFT_HELP)


def running_text(model: Model) -> tuple[str, str, str]:
    """The longest-running tasks in one line, the tone of the line, and the same tasks one below the other."""
    rows = longest_running(model.running.values())[:_RUNNING_NAMED]
    texts = [summary_of(row) for row in rows]
    if not texts:
        return "No task has run for a second or longer.", "", ""
    stuck = any(row.suspicion for row in rows)
    return f"Longest running: {', '.join(texts)}", "warning" if stuck else "", "\n".join(texts)


def first_time(model: Model) -> float:
    """Return when the lines begin."""
    times, _ = model.history("running")
    return times[0] if len(times) else model.time


class Overview:
    """The span of time that the charts show."""

    def __init__(self) -> None:
        self._seconds = _FIRST_SPAN
        self._end: float | None = None  # None: follows the newest
        self._drawn: tuple[object, float] | None = None

    @property
    def follows(self) -> bool:
        return self._end is None

    def is_due(self, model: Model, now: float) -> bool:
        """Return whether the charts should be drawn again: when lines move by a step that can be seen, and while no
        task comes or goes only every few seconds."""
        tasks = (model.snapshot.tasks, len(model.worker_rows)) if model.snapshot is not None else None
        if self._drawn is not None and 0 <= now - self._drawn[1] < self._pause(model, now, self._drawn[0] == tasks):
            return False
        self._drawn = (tasks, now)
        return True

    def _pause(self, model: Model, now: float, is_idle: bool) -> float:
        first = first_time(model)
        start, end = self.span(now, first)
        if is_idle and now - first > _YOUNG_SECONDS:
            return _IDLE_SECONDS
        return min((end - start) / _STEPS, _IDLE_SECONDS)

    def touch(self) -> None:
        """The contents have changed: draw them at the next occasion."""
        self._drawn = None

    def span(self, now: float, first: float = 0.0) -> tuple[float, float]:
        """``first`` is when the lines begin: while all of them fits, no room is left empty before it."""
        if self._end is not None:
            return self._end - self._seconds, self._end
        return now - min(self._seconds, max(now - first, _YOUNGEST_SPAN)), now

    def zoom(self, steps: int, shown: float) -> None:
        """The next span longer than the one shown for a positive step, the next shorter one for a negative one."""
        self.touch()
        longer = [span for span in SPANS if span > shown * 1.001]
        shorter = [span for span in SPANS if span < shown * 0.999]
        if steps > 0 and longer:
            self._seconds = longer[0]
        elif steps < 0 and shorter:
            self._seconds = shorter[-1]

    def pan(self, fraction: float, now: float) -> None:
        self.touch()
        _, end = self.span(now)
        self._move_to(end + fraction * self._seconds, now)

    def show(self, start: float, end: float, now: float) -> None:
        """A span that was drawn with the mouse; one that reaches the newest goes on following it."""
        self.touch()
        self._seconds = min(max(end - start, _LEAST_SPAN), _MOST_SPAN)
        self._move_to(end, now)

    def follow(self) -> None:
        self.touch()
        self._end = None

    def _move_to(self, end: float, now: float) -> None:
        self._end = None if end >= now - self._seconds * 0.005 else end


def _rate(model: Model) -> str:
    _, values = model.history("throughput", model.time - 5.0)
    return format_rate(values[-1]) if len(values) else "0/s"
