"""The tasks that have run for a second or longer: what they are, since when, and whether they look stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.format import format_duration
from scaler_protocol.monitor.messages import AgentStatus, RunningTaskStatus, Snapshot
from scaler_protocol.process_names import UNKNOWN_WORKER, nested_name

STUCK = "stuck?"
"""The beginning of the state of a task that looks stuck."""

STUCK_SECONDS = 10.0
"""No task that has run for less looks stuck."""

STUCK_FACTOR = 10.0
"""A task that has run this many times as long as usual looks stuck."""

IDLE_SECONDS = 30.0
"""A task looks stuck if its process has used no processor time for this long, and it has run for longer than usual."""

IDLE_FACTOR = 2.0
_STEADY_SECONDS = 5.0
_SUMMARY_NAME_LIMIT = 50
"""Characters of a name in a summary: a terminal has 80."""

TaskKey = tuple[bytes, int, int]
"""Session, task and attempt."""


@dataclass(frozen=True, slots=True)
class RunningTaskRow:
    """One running task. ``started`` is in unix seconds of the scheduler's clock."""

    task: RunningTaskStatus
    agent: AgentStatus
    worker: str
    started: float

    @property
    def key(self) -> TaskKey:
        return self.task.session, self.task.task, self.task.attempt

    @property
    def suspicion(self) -> str:
        """The reason why the task looks stuck; empty if it does not. One that waits for other tasks or a lock does
        not."""
        task = self.task
        if task.blocked or task.seconds < STUCK_SECONDS:
            return ""
        reasons = []
        if task.usual_seconds and task.seconds >= STUCK_FACTOR * task.usual_seconds:
            reasons.append(f"{task.seconds / task.usual_seconds:,.0f}x usual")
        if task.idle_seconds >= IDLE_SECONDS and task.seconds >= IDLE_FACTOR * task.usual_seconds:
            reasons.append(f"no CPU {format_duration(task.idle_seconds)}")
        return ", ".join(reasons)

    @property
    def state(self) -> str:
        """One phrase for people."""
        if self.task.blocked:
            return "blocked"
        if self.suspicion:
            return f"{STUCK} {self.suspicion}"
        return "actor" if self.task.actor else "running"


def longest_running(rows: Iterable[RunningTaskRow]) -> list[RunningTaskRow]:
    """Return the running tasks: those that look stuck first, then those that started first."""
    return sorted(rows, key=lambda row: (not row.suspicion, row.started))


def summary_of(row: RunningTaskRow) -> str:
    """One task in a few words: function, how long, where, whether it is an actor or why it looks stuck, and the name of
    the actor. Long names are cut."""
    function, worker = (shown_text(name, _SUMMARY_NAME_LIMIT) for name in (row.task.function, row.worker))
    text = f"{function} {format_duration(row.task.seconds)} on {worker}"
    name = shown_text(row.task.actor_name, _SUMMARY_NAME_LIMIT)
    notes = [row.state] if row.suspicion else []
    if name or row.task.actor:
        notes.append(f"actor {name}".rstrip())
    return f"{text} ({', '.join(notes)})" if notes else text


def running_rows(snapshot: Snapshot, before: Mapping[TaskKey, RunningTaskRow]) -> Iterator[RunningTaskRow]:
    """All of a snapshot. A task keeps the start that it had ``before``: how long it has run is measured with the delay
    of a message, which varies."""
    for agent in snapshot.agents:
        for task in agent.running:
            started = snapshot.time - task.seconds
            last = before.get((task.session, task.task, task.attempt))
            if last is not None and abs(last.started - started) < _STEADY_SECONDS:
                started = last.started
            yield RunningTaskRow(task, agent, _process_name(agent, task.worker), started)


def _process_name(agent: AgentStatus, number: int) -> str:
    if number < len(agent.workers):
        return agent.workers[number].name
    return UNKNOWN_WORKER if number >= NO_WORKER else nested_name(agent.name, number - len(agent.workers) + 1)
