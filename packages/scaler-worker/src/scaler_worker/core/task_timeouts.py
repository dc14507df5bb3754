"""Timeouts, cancels and memory limits of running tasks: a task is interrupted, and its process killed if that fails."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import Status
from scaler_worker.board import DISPATCHED
from scaler_worker.core.effects import Interrupt, Kill, Resume
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.roster import Roster
from scaler_worker.core.worker_process import WorkerProcess

LIMIT_CHECK_SECONDS = 0.05
KILL_AFTER_SECONDS = 2.0
KILL_FOR_MEMORY_AFTER_SECONDS = 0.25
"""A task that does not end by itself gets little time when the memory of the host is nearly exhausted."""

CANCELLED = "cancelled"
TIMED_OUT = "timed out"
MEMORY = "memory"
MEMORY_OF_HOST = "memory of host"


@dataclass(slots=True)
class Ending:
    """A running task that must end: why, and when its process is killed if it has not ended."""

    reason: str
    kill_at: float
    reached: bool = False  # it was under way when the signal was sent


class Timeouts:
    """Ends running tasks because they were cancelled, run for too long or use too much memory.

    ``next_at``: when timeouts and interrupts must be checked; None: not at all."""

    def __init__(self, roster: Roster, outbox: Outbox, task_timeout_seconds: float) -> None:
        self.next_at: float | None = None
        self._seen: dict[int, dict[int, float]] = {}
        self._roster = roster
        self._outbox = outbox
        self.task_timeout_seconds = task_timeout_seconds

    def end(self, process: WorkerProcess, sequence: int, reason: str, now: float) -> None:
        if sequence not in process.ending:
            seconds = KILL_FOR_MEMORY_AFTER_SECONDS if reason == MEMORY_OF_HOST else KILL_AFTER_SECONDS
            process.ending[sequence] = Ending(reason, now + seconds)
            self._interrupt(process, sequence)
            self.next_at = now + LIMIT_CHECK_SECONDS

    def _interrupt(self, process: WorkerProcess, sequence: int) -> None:
        assert process.board is not None
        process.board.interrupt(sequence)
        process.ending[sequence].reached = process.board.unordered or process.board.running == sequence
        if process.suspended:
            process.suspended = False
            self._outbox.add(Resume(process.number))
        self._outbox.add(Interrupt(process.number))

    def enforce(self, now: float) -> None:
        """Check timeouts, and interrupts that had no effect."""
        self.next_at = None
        self._seen = {number: seen for number, seen in self._seen.items() if number in self._roster.processes}
        for process in self._roster.processes.values():
            if process.busy and process.board is not None:
                self._enforce_endings(process, now)
                self._enforce_timeout(process, now)
                if process.ending or any(self._seconds(entry.run) for entry in process.dispatched):
                    self.next_at = now + LIMIT_CHECK_SECONDS

    def _enforce_endings(self, process: WorkerProcess, now: float) -> None:
        for sequence, ending in list(process.ending.items()):
            if now >= ending.kill_at and self._may_kill(process, ending) and process.end():
                self._roster.sort(process)
                self._outbox.add(Kill(process.number))
            elif not ending.reached:
                self._interrupt(process, sequence)

    def _may_kill(self, process: WorkerProcess, ending: Ending) -> bool:
        """A cancel concerns one call, and not those that an actor runs at the same time."""
        return ending.reason != CANCELLED or process.board is None or not process.board.unordered

    def _enforce_timeouts_of_calls(self, process: WorkerProcess, now: float) -> None:
        """Like ``_enforce_timeout``, for an actor that runs several calls. Each counts from when it was first seen to
        run."""
        assert process.board is not None
        seen, self._seen[process.number] = self._seen.get(process.number, {}), {}
        for entry, sequence, cell in process.open_sequences():
            limit = self._seconds(entry.run)
            if not limit or cell == DISPATCHED:
                continue
            started = self._seen[process.number][sequence] = seen.get(sequence, now)
            if now - started >= limit:
                self.end(process, sequence, TIMED_OUT, now)

    def _enforce_timeout(self, process: WorkerProcess, now: float) -> None:
        assert process.board is not None
        if process.board.unordered:
            self._enforce_timeouts_of_calls(process, now)
            return
        sequence = process.board.running
        entry = process.entry_of(sequence) if sequence is not None else None
        if entry is None or sequence is None:
            return
        limit = self._seconds(entry.run)
        if limit and now - process.board.started >= limit:
            self.end(process, sequence, TIMED_OUT, now)

    def _seconds(self, run: TaskRun) -> float:
        """The timeout of its tasks. 0: none."""
        return run.options.timeout_seconds or self.task_timeout_seconds

    def outcome(self, run: TaskRun, reason: str) -> tuple[Status, str]:
        """The status and text of the result of a task that was ended."""
        if reason == CANCELLED:
            return Status.CANCELLED, ""
        if reason == MEMORY:
            text = f"{run.function_name} used more than its {run.options.memory_bytes} bytes of memory."
            return Status.MEMORY_EXCEEDED, text
        if reason == MEMORY_OF_HOST:
            text = (
                f"{run.function_name} used more than its worker's share of the memory of its host, which was nearly "
                "exhausted. Give the task less to do, or run fewer workers on that host."
            )
            return Status.MEMORY_EXCEEDED, text
        return Status.TIMED_OUT, f"{run.function_name} ran for more than its {self._seconds(run):g} seconds."
