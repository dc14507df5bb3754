"""The newest lines of the logs of the scheduler, its agents and worker managers, for monitors. Agents also send the
lines of the object stores of their hosts, as lines of their own.

| Event | Consequence |
|---|---|
| scheduler, agent or manager has logged lines | the newest are kept; they are recorded, up to a limit per second |
| a recording begins | the lines that are kept are recorded |
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.log_lines import LatestLines, bounded
from scaler_protocol.messages import LogLine, LogLines
from scaler_protocol.monitor.records import NONE
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.state import SchedulerState

RECORDED_CHARACTERS_PER_SECOND = 256 * 1024
"""Limit of lines for monitors and event logs. Others are left out, as the numbers of the lines show."""

TOLD_CHARACTERS = 2 * 1024 * 1024
"""Limit of the lines with which a recording begins, of all logs together."""


def on_lines(state: SchedulerState, agent: Agent, body: LogLines, now: float) -> None:
    """An agent or a worker manager has logged lines."""
    if agent.has_introduced_itself:
        _add(state, agent.log, bounded(body.lines), agent.index)


def on_own_lines(state: SchedulerState, lines: list[LogLine], now: float) -> None:
    """The scheduler has logged lines."""
    state.events.now = now
    _add(state, state.log, lines, NONE)


def tell(state: SchedulerState) -> None:
    """Tell monitors of the lines that came before the recording."""
    agents = [agent for agent in state.agents.values() if agent.has_introduced_itself]
    logs = [(state.log, NONE), *((agent.log, agent.index) for agent in agents)]
    room = TOLD_CHARACTERS // len(logs)
    for log, index in logs:
        _record(state, log.newest(room), index, TOLD_CHARACTERS)


def _add(state: SchedulerState, log: LatestLines, lines: Iterable[LogLine], index: int) -> None:
    new = [line for line in lines if log.add(line)]
    if state.events.is_on:
        _record(state, new, index, RECORDED_CHARACTERS_PER_SECOND)


def _record(state: SchedulerState, lines: Iterable[LogLine], index: int, limit_characters: int) -> None:
    for line in lines:
        state.events.logged(line, index, limit_characters)
