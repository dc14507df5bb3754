"""Jobs: what a worker manager starts, each of which is one ``scaler_cluster`` with some workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class JobState(Enum):
    STARTING = "starting"  # accepted, but its workers do not run yet
    RUNNING = "running"
    FAILED = "failed"  # ended although it was needed
    DISMISSED = "dismissed"  # ended cleanly: its scheduler was shut down, or a user stopped it
    WITHDRAWN = "withdrawn"  # given up, so that others can be started in its place at once
    EVICTED = "evicted"  # the machine that it shares with its manager will be taken back


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its manager sees it. ``reason``: why it failed, as the end of a sentence about it."""

    id: str
    workers: int
    state: JobState = JobState.STARTING
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StartWorkers:
    """Effect: start jobs that have this many workers together."""

    count: int


@dataclass(frozen=True, slots=True)
class StopJobs:
    """Effect: stop these jobs. Their running tasks get the grace time."""

    ids: tuple[str, ...]


ManagerEffect = StartWorkers | StopJobs
