"""What the time from the submission of tasks to their results consists of."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.monitor.messages import FunctionStatus

LEAST_SHARE = 0.01


class TimeParts(NamedTuple):
    """In seconds, in the order in which a task spends them."""

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


def parts_text(parts: TimeParts) -> str:
    """``running 80%, waiting 15%, loading 5%``: the largest first, without those below 1 %."""
    total = sum(parts)
    shares = [(seconds / total, name) for name, seconds in zip(parts._fields, parts, strict=True)] if total > 0 else []
    shown = sorted((each for each in shares if each[0] >= LEAST_SHARE), key=lambda each: -each[0])
    return ", ".join(f"{name} {share:.0%}" for share, name in shown)
