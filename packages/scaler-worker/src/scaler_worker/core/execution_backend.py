"""The interface of what runs the tasks of an agent: worker processes of this host (``Slots``) or Symphony
(``Grid``)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import ObjectKey, OutputPiece, TaskColumn
from scaler_worker.core.client_output import ClientOutput


class ExecutionBackend(Protocol):
    """Takes tasks from ``AgentState.queue`` and adds results to ``AgentState.finished``."""

    hosts_actors: bool
    """Whether a process can be dedicated to an actor."""

    has_environments: bool
    """Whether tasks can run in environments."""

    @property
    def client_output(self) -> ClientOutput:
        """The output of tasks for their clients."""

    def turn(self, now: float, may_start: bool) -> None:
        """Start what can be started, at the end of each turn, if ``may_start``."""

    def withdraw(self, count: int) -> list[TaskColumn]:
        """Remove and return up to ``count`` tasks that have not started."""

    def cancel(self, column: TaskColumn, now: float) -> None:
        """Cancel these tasks: each ends as cancelled unless it ends otherwise first."""

    def cancel_unstarted(self, column: TaskColumn) -> TaskColumn:
        """End those of these tasks as cancelled that have not started. Returns the others."""

    def fail_running_once(self, now: float) -> None:
        """The agent ends. Fail the running tasks that must not start again: all others may run elsewhere then."""

    def forget_objects(self, keys: Sequence[ObjectKey]) -> None:
        """Forget these objects, which no task needs any more."""

    def hold_back_calls(self, lost: Set[ObjectKey]) -> list[TaskRun]:
        """Objects are lost. Calls of actors that need them and have not started wait, and so do later ones of their
        callers. Returns the calls that lack objects."""

    def holds(self) -> list[TaskColumn]:
        """Return all tasks that are queued or running here, as columns."""

    def task_of(self, number: int, sequence: int) -> tuple[bytes, int] | None:
        """The session and number of the task that a worker process, or an execution, has under this sequence."""

    def number_asked_for(self, session: bytes, task: int, worker: str) -> int | None:
        """The process that runs this task, or, if ``worker`` is not empty, that of this worker. None: there is none."""

    def replace_process(self, worker: str, at_once: bool) -> bool:
        """End the process of this worker, at once or when it holds no started task. False: it has none."""

    def output_of(self, session: bytes, task: int, worker: str) -> list[OutputPiece]:
        """The kept output of this task, or, if ``worker`` is not empty, of the tasks of this worker."""

    @property
    def queued(self) -> int:
        """The number of tasks that have not started."""

    @property
    def is_idle(self) -> bool:
        """True if no task waits or runs."""

    def next_deadline(self) -> float | None: ...

    def on_deadline(self, now: float) -> None: ...

    def correct_counts(self) -> list[str]:
        """Correct each count that is not what the tasks here say. Returns a sentence for each."""

    def check(self) -> None:
        """Assert every invariant; for tests."""
