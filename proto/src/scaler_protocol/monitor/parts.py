"""The parts of the time from the submission of tasks to their results."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.messages import Status
from scaler_protocol.monitor.format import format_span
from scaler_protocol.monitor.messages import FunctionStatus
from scaler_protocol.monitor.task_log import NO_WORKER
from scaler_protocol.monitor.task_times import ExecutionParts, TaskTimes

LEAST_SHARE = 0.01
LEAST_SECONDS = 20e-6
"""Shorter parts are not measured."""


class TimeParts(NamedTuple):
    """The parts in seconds, in the order in which a task passes through them."""

    dependencies: float = 0.0
    waiting: float = 0.0
    fetching: float = 0.0
    loading: float = 0.0
    running: float = 0.0
    storing: float = 0.0


def parts_of_function(function: FunctionStatus) -> TimeParts:
    return TimeParts(
        function.dependencies_seconds, function.waiting_seconds, function.fetching_seconds, function.loading_seconds,
        function.running_seconds, function.storing_seconds,
    )  # fmt: skip


def parts_of_task(times: TaskTimes, row: tuple[int, ...]) -> TimeParts:
    """Return the parts of a row of the task log. Waiting for dependencies is part of waiting, which is 0 if the arrival
    of the task is not known, for later attempts, and if the task was cancelled on a host: there it may have run."""
    task, ended_us, duration_us, session, _, worker, attempt, status = row
    is_known = attempt == 1 and not (status == Status.CANCELLED and worker != NO_WORKER and not duration_us)
    known = times.parts(session, task, attempt, duration_us) or ExecutionParts()
    arrived_us = times.arrived_us(session, task) if is_known else None
    waiting_us = 0 if arrived_us is None else max(0, ended_us - duration_us - arrived_us)
    running = max(0.0, duration_us / 1e6 - sum(known))
    return TimeParts(0.0, waiting_us / 1e6, known.fetching, known.loading, running, known.storing)


def shown_parts(parts: TimeParts) -> list[tuple[str, str]]:
    """The name and the duration of each part, in order; none if there was nothing but running."""
    shown = [(name, seconds) for name, seconds in zip(parts._fields, parts, strict=True) if seconds >= LEAST_SECONDS]
    if [name for name, _ in shown] in ([], ["running"]):
        return []
    return [(name, format_span(seconds)) for name, seconds in shown]


def spans_text(parts: TimeParts) -> str:
    """``waiting 1.2s, loading 50ms, running 80ms``: in order; empty if there was nothing but running."""
    return ", ".join(f"{name} {text}" for name, text in shown_parts(parts))


def parts_text(parts: TimeParts) -> str:
    """``running 80%, waiting 15%, loading 5%``: the largest first, without those below 1 %."""
    total = sum(parts)
    shares = [(seconds / total, name) for name, seconds in zip(parts._fields, parts, strict=True)] if total > 0 else []
    shown = sorted((each for each in shares if each[0] >= LEAST_SHARE), key=lambda each: -each[0])
    return ", ".join(f"{name} {share:.0%}" for share, name in shown)
