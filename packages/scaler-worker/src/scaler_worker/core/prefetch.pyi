"""Prefetch: each worker process gets its tasks a little ahead of need (contract; the code is in prefetch.pyx)."""

from collections.abc import Callable

from scaler_protocol.codec import TaskRun
from scaler_worker.core.dispatch_contents import DispatchContents
from scaler_worker.core.durations import Durations
from scaler_worker.core.nodes import Nodes
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.queue import TaskQueue
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess

DISPATCH_SECONDS: float
"""A worker process gets so much work at a time, and more when it holds less than this."""

LEAST_DISPATCH_SECONDS: float
"""Less work than this is not spread over several worker processes."""

class Prefetcher:
    """Takes from ``queue`` and ``nodes`` and adds to ``outbox``; ``contents`` knows what must go with tasks."""

    has_timed: bool
    """A task with a timeout was dispatched. The hot path resets this."""

    def __init__(
        self,
        roster: Roster,
        queue: TaskQueue,
        durations: Durations,
        nodes: Nodes,
        contents: DispatchContents,
        outbox: Outbox,
    ) -> None: ...
    @property
    def broken(self) -> list[WorkerProcess]:
        """Worker processes whose boards turned out to be broken. The hot path ends them and clears the list."""

    dedicate: Callable[[WorkerProcess, TaskRun], None]
    """Called before an idle process is given a task that makes an actor."""

    def fill(self) -> None:
        """Give every worker process what it needs, as long as tasks wait."""

    def fill_idle(self) -> None:
        """Give waiting tasks to worker processes that have none."""

    def is_short(self, process: WorkerProcess) -> bool:
        """It would soon have nothing to run after its current task."""

    def dispatch(self, process: WorkerProcess, depth: int, sharers: int, environment: str | None = None) -> None:
        """Give the process about five milliseconds of tasks deeper than ``depth`` (-1: of any depth), and no more than
        one of ``sharers`` shares of what waits; only tasks of ``environment``, unless it is None."""

    def make_actor(self, process: WorkerProcess, environment: str | None = None) -> None:
        """Dedicate an idle process to the actor that the next task, or the next one of ``environment``, makes."""

    def work_of(self, process: WorkerProcess) -> float:
        """Estimated seconds of all it holds, as of the last harvest."""

    def give(self, process: WorkerProcess, runs: list[TaskRun]) -> None:
        """Dispatch these runs."""
