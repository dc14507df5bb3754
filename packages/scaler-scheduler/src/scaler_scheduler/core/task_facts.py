"""The facts that the task table has about one unfinished task."""

from __future__ import annotations

from typing import NamedTuple

from scaler_scheduler.core.run_records import RunRecord


class TaskFacts(NamedTuple):
    """``state``: a TaskState. ``agent_index``: the agent that has the task; its meaning depends on the state.
    ``deaths``: the worker processes that died while they ran it. ``losses``: the agents that were lost with it, and
    the attempts that could not be given their inputs."""

    state: int
    attempt: int
    agent_index: int
    deaths: int
    losses: int
    record: RunRecord
