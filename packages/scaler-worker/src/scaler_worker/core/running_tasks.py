"""The tasks that have run for a while, for monitors.

The board of a worker process names the task under way and its start, so this is read without asking the process. Short
tasks, which may be many, are not reported: a report has at most one row for each process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scaler_protocol.limits import NO_WORKER, WORKERS_LIMIT
from scaler_protocol.messages import RunningTask
from scaler_worker.board import DispatchedRun
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess

REPORTED_SECONDS = 1.0
"""Tasks that have run for less are not reported."""

ACTIVE_PERCENT = 1.0
"""Processor time that counts as work: a process that only waits uses some, too."""


class _Activity(NamedTuple):
    """The last time at which the process that runs the task of this sequence used processor time."""

    sequence: int
    active_at: float


class RunningTasks:
    """Makes the rows, and remembers since when the processes have used no processor time."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._activities: dict[int, _Activity] = {}

    def report(self, figures: Mapping[int, tuple[float, int]], now: float) -> tuple[RunningTask, ...]:
        """One row for each process whose task has run for ``REPORTED_SECONDS``, the longest-running ones first.
        ``figures``: percent of one processor and resident bytes, by process id."""
        before, self._activities = self._activities, {}
        rows = []
        for process in self._roster.busy.values():
            row = self._row(process, figures.get(process.pid, (0.0, 0)), before.get(process.number), now)
            if row is not None:
                rows.append(row)
        rows.sort(key=lambda row: row.started_at)
        return tuple(rows[:WORKERS_LIMIT])

    def _row(
        self, process: WorkerProcess, figures: tuple[float, int], before: _Activity | None, now: float
    ) -> RunningTask | None:
        board = process.board
        sequence = board.running if board is not None else None
        entry = process.entry_of(sequence) if sequence is not None else None
        if board is None or sequence is None or entry is None:
            return _actor_row(process, now, *figures)
        started_at = board.started
        if not now - REPORTED_SECONDS >= started_at > 0:
            return _actor_row(process, now, *figures)
        activity = before if before is not None and before.sequence == sequence else _Activity(sequence, started_at)
        if figures[0] >= ACTIVE_PERCENT:
            activity = _Activity(sequence, now)
        self._activities[process.number] = activity
        return _row(process, entry, sequence, started_at, activity.active_at, *figures)


def _row(
    process: WorkerProcess,
    entry: DispatchedRun,
    sequence: int,
    started_at: float,
    active_at: float,
    cpu: float,
    rss: int,
) -> RunningTask:
    return RunningTask(
        session=entry.session,
        task=entry.first_task + sequence - entry.first_sequence,
        attempt=entry.attempt,
        worker=min(process.place, NO_WORKER),
        pid=process.pid,
        started_at=started_at,
        active_at=active_at,
        cpu_percent=cpu,
        rss_bytes=rss,
        blocked=process.blocked_sequence == sequence,
    )


def _actor_row(process: WorkerProcess, now: float, cpu: float, rss: int) -> RunningTask | None:
    """An actor is a running task, also while it waits for calls."""
    actor = process.actor
    if actor is None or not actor.is_live or now - REPORTED_SECONDS < actor.started_at:
        return None
    session, task, attempt = actor.name
    worker = min(process.place, NO_WORKER)
    return RunningTask(session, task, attempt, worker, process.pid, actor.started_at, now, cpu, rss, False)
