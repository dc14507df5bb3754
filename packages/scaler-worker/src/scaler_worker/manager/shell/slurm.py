"""The kind ``slurm``: jobs are batch jobs of Slurm, which outlive their manager."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence

from scaler_protocol.command import BadInput, settings_arguments
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.backend import ListError, StartError
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.slurm_listing import (
    LISTING_FORMAT,
    SlurmJob,
    parse_exit_code,
    parse_listing,
    parse_output_path,
    parse_submitted,
)
from scaler_worker.manager.core.slurm_reasons import explain_exit, explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.slurm_script import SIGNAL_MARGIN_SECONDS, STOP_SIGNAL, job_script, submit_arguments
from scaler_worker.manager.shell.name_lock import NameLock
from scaler_worker.manager.shell.slurm_commands import check_programs, run_slurm
from scaler_worker.manager.slurm_config import SlurmSettings

LARGEST_ARRAY = 1000
"""Slurm allows arrays of this size if it is not configured otherwise."""

LISTING_SECONDS = 2.0
"""Slurm is asked for the jobs at most this often: each question costs slurmctld work."""

REPEAT_SECONDS = 5.0
"""A job that shall end is told again after this long: Slurm drops the signals of a job whose script has not begun."""


class SlurmBackend:
    """Jobs are found by the name of their manager, which their names contain, and by the scheduler's address.

    Slurm lists jobs for some minutes after their end. Only the ends of jobs that this manager has seen before are
    reported: those of an earlier manager would end this one."""

    def __init__(self, settings: SlurmSettings) -> None:
        check_programs()
        self._settings = settings
        self._terms = settings.terms()
        self._lock = NameLock(settings.own_name) if settings.name is None else None
        self._jobs: dict[str, SlurmJob] = {}  # those that live
        self._stopping: dict[str, float] = {}  # when each is cancelled
        self._told_at = 0.0  # when they were told to end
        self._accepted = False
        self._listed_at: float | None = None

    # ---- start -------------------------------------------------------------------------------------------------------

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        most = self._settings.most_per_job
        full, rest = divmod(n, most)
        arrays = [(most, min(LARGEST_ARRAY, full - begin)) for begin in range(0, full, LARGEST_ARRAY)]
        jobs: list[Job] = []
        for workers, count in [*arrays, *([(rest, 1)] if rest else [])]:
            try:
                jobs += self._submit(workers, count, capabilities)
            except StartError:
                if not jobs:
                    raise
                break
        return jobs

    def _submit(self, workers: int, count: int, capabilities: Sequence[str]) -> list[Job]:
        script = job_script(self._command(workers, capabilities), self._settings.job_setup)
        answer = run_slurm("sbatch", submit_arguments(self._terms, workers, count), script)
        if answer.complaint is not None:
            self._refuse(answer.complaint)
        try:
            ids = parse_submitted(answer.output, count)
        except ValueError:
            raise StartError(f"Cannot read what sbatch says: {answer.output.strip()}. Check its version.") from None
        self._accepted = True
        self._jobs.update((id, SlurmJob(id, workers, "PENDING", "")) for id in ids)
        return [Job(id, workers) for id in ids]

    def _refuse(self, complaint: str) -> None:
        sentence, is_final = explain_rejection(complaint)
        if is_final and not self._accepted and not self._jobs:
            raise BadInput(sentence)
        raise StartError(sentence)

    def _command(self, workers: int, capabilities: Sequence[str]) -> list[str]:
        names = [field.name for field in dataclasses.fields(ClusterSettings)]
        values = {name: getattr(self._settings, name) for name in names}
        values |= {"num_of_workers": workers, "per_worker_capabilities": tuple(capabilities)}
        python = self._settings.remote_python or sys.executable
        return [python, "-P", "-m", "scaler_worker.cli", *settings_arguments(ClusterSettings, values)]

    # ---- stop --------------------------------------------------------------------------------------------------------

    def stop(self, ids: Sequence[str]) -> None:
        """Jobs that wait are cancelled. Those that run are told to end, and cancelled when they have not ended after
        their grace time."""
        now = time.monotonic()
        known = [id for id in ids if id in self._jobs]
        patience = self._settings.grace_seconds + SIGNAL_MARGIN_SECONDS
        self._stopping.update(dict.fromkeys(known, now + patience))
        self._tell(known, now)

    def _tell(self, ids: Sequence[str], now: float) -> None:
        """A job that waited when it was listed may run by now: Slurm decides which command it gets."""
        self._told_at = now
        if ids:
            run_slurm("scancel", ["--state=PENDING", *ids])
            run_slurm("scancel", ["--batch", f"--signal={STOP_SIGNAL}", *ids])

    def _tell_again(self, now: float) -> None:
        if now >= self._told_at + REPEAT_SECONDS:
            self._tell([id for id, deadline in self._stopping.items() if deadline > now], now)

    def _cancel_late(self, now: float) -> None:
        """Cancel the jobs that must end now. Repeated: a command may fail."""
        late = [id for id, deadline in self._stopping.items() if deadline <= now]
        if late:
            self._stopping.update(dict.fromkeys(late, now + REPEAT_SECONDS))
            run_slurm("scancel", late)

    # ---- list --------------------------------------------------------------------------------------------------------

    def list(self) -> Sequence[Job]:
        now = time.monotonic()
        ended: Sequence[Job] = ()
        if self._listed_at is None or now - self._listed_at >= LISTING_SECONDS:
            ended = self._renew(self._listed())
            self._listed_at = now
        self._tell_again(now)
        self._cancel_late(now)
        return [*(Job(job.id, job.workers, job.meaning) for job in self._jobs.values()), *ended]

    def _renew(self, listed: Sequence[SlurmJob]) -> Sequence[Job]:
        """Return the jobs that have ended without being asked to."""
        ended = [job for job in listed if not job.is_live and job.id in self._jobs and job.id not in self._stopping]
        self._jobs = {job.id: job for job in listed if job.is_live and not self._has_stopped(job)}
        self._stopping = {id: deadline for id, deadline in self._stopping.items() if id in self._jobs}
        return [self._end(job) for job in ended]

    def why_not(self) -> Sequence[str]:
        return explain_waits(job for job in self._jobs.values() if job.id not in self._stopping)

    def _listed(self) -> Sequence[SlurmJob]:
        answer = run_slurm(
            "squeue",
            [
                "--noheader",
                "--array",
                "--states=all",
                f"--user={os.getuid()}",
                f"--name={self._terms.job_name}",
                f"--format={LISTING_FORMAT}",
            ],
        )
        if answer.complaint is not None:
            raise ListError(explain_unlisted(answer.complaint))
        return parse_listing(answer.output, self._terms.address)

    def _has_stopped(self, job: SlurmJob) -> bool:
        return job.is_completing and job.id in self._stopping

    def _end(self, job: SlurmJob) -> Job:
        reason = job.end
        if job.state == "FAILED":
            details = run_slurm("scontrol", ["show", "job", "--oneliner", job.id]).output
            code = parse_exit_code(details)
            reason = explain_exit(*code, parse_output_path(details)) if code is not None else reason
        return Job(job.id, job.workers, job.meaning, "" if job.meaning is JobState.DISMISSED else reason)
