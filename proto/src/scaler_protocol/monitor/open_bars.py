"""Bars of tasks that run: they are open, because their ends are not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.running import RunningTaskRow
from scaler_protocol.monitor.task_log import NO_WORKER


class OpenBar(NamedTuple):
    """``row``: position in the sequence of rows that was asked for. ``x0`` and ``x1``: pixels from the left edge;
    ``x0`` is 0 if the task started earlier. ``function``: the model's index; None as long as no event record has named
    the function."""

    row: int
    x0: float
    x1: float
    function: int | None
    running: RunningTaskRow


def open_bars(
    activity: Activity,
    running: Sequence[RunningTaskRow],
    until: float,
    start: float,
    stop: float,
    width: int,
    workers: Sequence[int],
) -> list[OpenBar]:
    """Return the bars that ``width`` pixels show of the time from ``start`` to ``stop``, the oldest first. All tasks
    were running at ``until``, and no bar reaches further. All times are unix seconds."""
    seen = [row for row in running if row.started < min(stop, until)]
    if not seen or until <= start or stop <= start:
        return []
    rows = {worker: row for row, worker in enumerate(workers)}
    agents = activity.indices_of_agents()
    functions = {named.digest: index for index, named in reversed(activity.functions.items())}
    scale = width / (stop - start)
    found = []
    for each in sorted(seen, key=lambda row: row.started):
        agent = agents.get(each.agent.session)
        worker = NO_WORKER if agent is None else activity.worker_index(agent, each.task.worker)
        if worker in rows and worker != NO_WORKER:
            x0, x1 = (each.started - start) * scale, (min(stop, until) - start) * scale
            found.append(OpenBar(rows[worker], max(0.0, x0), x1, functions.get(each.task.digest), each))
    return found
