"""Tasks named in messages, and runs made whole again."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import TaskColumn
from scaler_worker.board import DispatchedRun
from scaler_worker.core.nodes import Named


def columns_of(runs: Iterable[TaskRun], named: Iterable[Named] = ()) -> list[TaskColumn]:
    """Return a column for each session."""
    pairs: dict[bytes, list[tuple[int, int]]] = {}
    for session, task, attempt in named:
        pairs.setdefault(session, []).append((task, attempt))
    for run in runs:
        tasks = pairs.setdefault(run.session, [])
        tasks.extend((run.first_task + index, run.attempt) for index in range(run.count))
    return [
        TaskColumn(session, tuple(task for task, _ in tasks), tuple(attempt for _, attempt in tasks))
        for session, tasks in pairs.items()
    ]


def joined(newest_first: Iterable[tuple[DispatchedRun, int]]) -> list[TaskRun]:
    """Neighbours as one run; newest runs first."""
    runs: list[TaskRun] = []
    current: DispatchedRun | None = None
    start = end = 0
    for entry, sequence in newest_first:
        if entry is current and sequence == start - 1:
            start = sequence
            continue
        if current is not None:
            runs.append(current.run.slice(start - current.first_sequence, end - current.first_sequence))
        current, start, end = entry, sequence, sequence + 1
    if current is not None:
        runs.append(current.run.slice(start - current.first_sequence, end - current.first_sequence))
    return runs
