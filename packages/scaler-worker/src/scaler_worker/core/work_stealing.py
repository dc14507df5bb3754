"""Work stealing within a host: tasks that have not started move to a worker process that has nothing to do."""

from __future__ import annotations

from scaler_worker.core.prefetch import LEAST_DISPATCH_SECONDS, Prefetcher
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess

MOVE_NODE_SECONDS = 20e-6
"""The time that the agent needs to give a node of a graph, with its inputs, to another worker process."""


def victim(roster: Roster, prefetcher: Prefetcher, now: float) -> WorkerProcess | None:
    """The worker process that holds the most work of those from which taking half pays. Some hold more than they run.
    The calls of an actor stay where they are, and tasks of an environment if no idle process may run them."""
    if roster.is_crowded:
        return None
    idle = {each.environment for each in roster.idle.values()}
    shared = (
        each for each in roster.full.values() if not each.is_dedicated and (None in idle or each.environment in idle)
    )
    paying = (each for each in shared if _pays(each, prefetcher.work_of(each), now))
    return max(paying, key=lambda each: (prefetcher.work_of(each), each.unfinished()), default=None)


def _pays(process: WorkerProcess, work_seconds: float, now: float) -> bool:
    assert process.board is not None
    if work_seconds >= 2 * LEAST_DISPATCH_SECONDS and work_seconds >= _moving_seconds(process):
        return True
    return process.board.running is not None and now - process.board.started > LEAST_DISPATCH_SECONDS


def _moving_seconds(process: WorkerProcess) -> float:
    """Return how long it takes to move all nodes that the process holds."""
    return MOVE_NODE_SECONDS * sum(entry.unfinished for entry in process.dispatched if entry.is_node)
