"""The complete interface through which the compiled hot path (core/hot_path.pyx) calls the rules in Python."""

from __future__ import annotations

from typing import Protocol

from scaler_protocol.codec import TaskRun
from scaler_protocol.link import LinkGap
from scaler_worker.board import Harvest
from scaler_worker.core.worker_process import WorkerProcess


class SlotsRules(Protocol):
    """Implemented by ``Slots``."""

    def set_lease(self, until: float) -> None:
        """Tell all worker processes that they may start nothing after ``until``."""

    def start_missing(self, now: float) -> None:
        """There are fewer worker processes than slots, some are blocked, or a start was put off."""

    def fill_environments(self, now: float) -> None:
        """Give tasks to worker processes: some tasks, or some processes, are in environments."""

    def end_worn(self) -> None:
        """Some worker processes must be replaced, and hold no task."""

    def end_broken(self, process: WorkerProcess) -> None:
        """Kill a worker process whose board holds something impossible."""

    def watch_full(self, now: float) -> None:
        """Some worker processes hold more than the task that they run."""

    def suspend_blocked(self) -> None:
        """Stop the worker processes whose tasks are blocked, as far as slots are needed."""

    def note_lent(self) -> None:
        """Slots are lent, or were when the scheduler was last told, or some tasks are in environments."""

    def worker_index(self, process: WorkerProcess) -> int:
        """Return the number of the worker that results name."""

    def take_others(self, process: WorkerProcess, harvest: Harvest) -> None:
        """There are large results, interrupted tasks or nodes of graphs."""

    def serve_actors(self, may_start: bool) -> None:
        """Actors have calls that their processes were not given."""

    def take_constructed(self, process: WorkerProcess, harvest: Harvest, now: float) -> None:
        """A process that is dedicated to an actor has results, perhaps that of the constructor."""

    def forget_ended(self, process: WorkerProcess) -> None:
        """Tasks that were to end, or were blocked, may have ended."""

    def deadline_with_starts(self, first: float | None) -> float | None:
        """The earlier of ``first`` and the next time at which a worker process must be started or retired."""


class AgentRules(Protocol):
    """Implemented by ``AgentCore``."""

    @property
    def is_full_of_output(self) -> bool: ...

    def ask_for_proof(self, now: float) -> None:
        """Start nothing until the scheduler has answered a heartbeat of now: this process was stopped, so what it has
        read since may be old."""

    def on_gap(self, gap: LinkGap, now: float) -> None:
        """Greet the scheduler again, because a message is missing."""

    def release_output(self, acknowledged: int) -> None:
        """The scheduler has received all messages up to this number."""

    def accept(self, run: TaskRun) -> None:
        """Tasks that need more than their function, or whose function is an object."""

    def refuse(self, run: TaskRun, error: Exception) -> None:
        """End tasks that could not be accepted."""

    def advance_stop(self, now: float) -> None:
        """Take the next step of leaving, if it is time."""

    def send_unsent(self, now: float) -> None:
        """Messages other than results wait, or results that were made here."""

    def end_report(self, now: float) -> None:
        """A scheduler that did not know this agent has been sent everything that is here."""

    def say_goodbye(self, now: float) -> None: ...

    def unusual_deadline(self, first: float | None) -> float | None:
        """The next deadline of an agent that is not welcomed or is leaving; ``first`` is that of its tasks."""
