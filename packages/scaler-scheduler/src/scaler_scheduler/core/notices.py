"""What the scheduler writes to its log."""

from __future__ import annotations

from scaler_scheduler.core.effects import Log
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.state import SchedulerState


def log(state: SchedulerState, text: str, level: str = "INFO") -> None:
    state.effects.append(Log(level, text))


def warn(state: SchedulerState, kind: Repetition, text: str, now: float) -> None:
    first = kind.note(text, now)
    if first is not None:
        log(state, first, "WARNING")
    _set_timer(state)


def warn_of_repetitions(state: SchedulerState, now: float) -> None:
    for kind in _repetitions(state):
        text = kind.take(now)
        if text is not None:
            log(state, text, "WARNING")
    _set_timer(state)


def _set_timer(state: SchedulerState) -> None:
    times = [kind.due_at for kind in _repetitions(state) if kind.due_at is not None]
    state.warn_at = min(times, default=None)


def _repetitions(state: SchedulerState) -> tuple[Repetition, ...]:
    return state.malformed_warnings, state.refusal_warnings, state.lock_warnings
