"""The lines that the scheduler writes to its log."""

from __future__ import annotations

from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.effects import Log
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.state import SchedulerState


def log(state: SchedulerState, text: str, level: str = "INFO") -> None:
    """Write a line."""
    state.effects.append(Log(level, text))


def title(agent: Agent) -> str:
    """Return the beginning of a line about an agent, or about a worker manager, which has the session of one."""
    return f"Agent {agent.title()}" if agent.manager is None else f"Worker manager {agent.manager.report.name}"


def warn(state: SchedulerState, kind: Repetition, text: str, now: float) -> None:
    """Write a warning that peers can cause as often as they like: repetitions are counted instead."""
    first = kind.note(text, now)
    if first is not None:
        log(state, first, "WARNING")
    _set_timer(state)


def warn_of_repetitions(state: SchedulerState, now: float) -> None:
    """Write how often warnings were repeated."""
    for kind in _repetitions(state):
        text = kind.take(now)
        if text is not None:
            log(state, text, "WARNING")
    _set_timer(state)


def _set_timer(state: SchedulerState) -> None:
    times = [kind.due_at for kind in _repetitions(state) if kind.due_at is not None]
    state.warn_at = min(times, default=None)


def _repetitions(state: SchedulerState) -> tuple[Repetition, ...]:
    return state.malformed_warnings, state.refusal_warnings, state.lock_warnings, state.group_warnings
