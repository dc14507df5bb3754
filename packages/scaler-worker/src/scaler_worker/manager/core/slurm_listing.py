"""The jobs of a manager as Slurm lists them, and what their states mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from scaler_worker.manager.core.jobs import JobState

LISTING_FORMAT = "%i|%T|%r|%k"
"""The job, its state, the reason why it waits, and its comment, which may contain the separator."""

_COMMENT = re.compile(r"scaler workers=([0-9]{1,6}) scheduler=(\S+)")
_SUBMITTED = re.compile(r"([0-9]+)(?:;\S+)?")

_STARTING = {
    "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
}  # fmt: skip
_RUNNING = {"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING"}

_ENDS = {
    "TIMEOUT": "reached its time limit before its workers had ended. Give a larger --time-limit-seconds",
    "DEADLINE": "reached its deadline",
    "PREEMPTED": "was preempted by another job",
    "CANCELLED": "was cancelled. Stop the manager to cancel all of its jobs",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "had a node that did not boot",
    "OUT_OF_MEMORY": "used more memory than Slurm gave it. Give a larger --memory-per-worker",
    "FAILED": "failed",
    "REVOKED": "was started in another cluster",
}


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, or one of an array. ``state`` and ``reason`` are Slurm's words."""

    id: str
    workers: int
    state: str
    reason: str

    @property
    def is_completing(self) -> bool:
        """Its processes have ended or are being ended; Slurm cleans up."""
        return self.state == "COMPLETING"

    @property
    def meaning(self) -> JobState:
        if self.state in _STARTING:
            return JobState.STARTING
        if self.state in _RUNNING:
            return JobState.RUNNING
        return JobState.DISMISSED if self.state == "COMPLETED" else JobState.FAILED

    @property
    def is_pending(self) -> bool:
        return self.meaning is JobState.STARTING

    @property
    def is_live(self) -> bool:
        return self.meaning in (JobState.STARTING, JobState.RUNNING)

    @property
    def end(self) -> str:
        """The end of a sentence about how the job ended."""
        return _ENDS.get(self.state, f"ended in the state {self.state}")


def job_name(name: str) -> str:
    """Return the name of the jobs of the manager of this name."""
    return f"scaler:{name}"


def job_comment(workers: int, address: str) -> str:
    """Return the comment of a job with this many workers for the scheduler at this address."""
    return f"scaler workers={workers} scheduler={address}"


def parse_listing(text: str, address: str) -> list[SlurmJob]:
    """The jobs for this scheduler in the output of squeue. Lines of other jobs are skipped."""
    return list(_parsed(text, address))


def _parsed(text: str, address: str) -> Iterator[SlurmJob]:
    for line in text.splitlines():
        fields = line.split("|", 3)
        comment = _COMMENT.fullmatch(fields[3].strip()) if len(fields) == 4 else None
        if comment is not None and comment[2] == address:
            yield SlurmJob(fields[0].strip(), int(comment[1]), fields[1].strip(), fields[2].strip())


def parse_submitted(text: str, jobs: int) -> list[str]:
    """The ids of the jobs that sbatch has accepted. Raises ValueError for other output."""
    match = _SUBMITTED.fullmatch(text.strip().rpartition("\n")[2])
    if match is None:
        raise ValueError(text)
    return [match[1]] if jobs == 1 else [f"{match[1]}_{place}" for place in range(jobs)]


def parse_exit_code(text: str) -> tuple[int, int] | None:
    """The exit code and the signal in what scontrol shows of a job. None: it does not say."""
    match = re.search(r"(?:^|\s)ExitCode=([0-9]+):([0-9]+)", text)
    return (int(match[1]), int(match[2])) if match is not None else None


def parse_output_path(text: str) -> str:
    """The file of the job's output in what scontrol shows of it. Empty: it does not say."""
    match = re.search(r"(?:^|\s)StdOut=(\S+)", text)
    return match[1] if match is not None else ""
