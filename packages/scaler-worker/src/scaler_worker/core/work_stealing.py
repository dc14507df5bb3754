"""Work stealing within a host: tasks that have not started move to a worker process that has nothing to do."""

from __future__ import annotations

from scaler_worker.core.prefetch import LEAST_DISPATCH_SECONDS, Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess


def victim(roster: Roster, prefetcher: Prefetcher, now: float) -> WorkerProcess | None:
    """The worker process that holds the most work, if taking half of it pays. Some hold more than they run."""
    if roster.is_crowded:
        return None
    fullest = max(roster.full.values(), key=lambda each: (prefetcher.work_of(each), each.unfinished()))
    return fullest if _pays(fullest, prefetcher.work_of(fullest), now) else None


def _pays(process: WorkerProcess, work_seconds: float, now: float) -> bool:
    assert process.board is not None
    if work_seconds >= 2 * LEAST_DISPATCH_SECONDS:
        return True
    return process.board.running is not None and now - process.board.started > LEAST_DISPATCH_SECONDS
