"""The kinds that run workers in jobs of a batch system, which outlive their manager."""

from __future__ import annotations

import dataclasses
import getpass
import os
import sys
import time
from collections.abc import Sequence

from scaler_protocol.command import BadInput, settings_arguments
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.backend import ListError, StartError
from scaler_worker.manager.batch_config import BatchSettings
from scaler_worker.manager.core.batch_reasons import explain_rejection, explain_unlisted, explain_waits
from scaler_worker.manager.core.batch_script import SIGNAL_MARGIN_SECONDS, job_script, notice_seconds
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, JobEnd
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.shell.batch_commands import BatchAnswer, check_programs, run_batch

LISTING_SECONDS = 2.0
"""The batch system is asked for the jobs at most this often: each question costs its controller work."""

REPEAT_SECONDS = 5.0
"""A job that shall end is told again after this long: some systems drop the signals of a job that has not begun."""

VANISHED_SECONDS = 30.0
"""A job that is not listed any more is looked for in the accounting for this long, where ends appear late."""


class BatchBackend:
    """Jobs are found by what their submission says of their manager, their scheduler and their number of workers.

    Some batch systems list jobs for a time after their end. Only the ends of jobs that this manager has seen before are
    reported: those of an earlier manager would end this one."""

    def __init__(self, settings: BatchSettings) -> None:
        self._system = settings.system()
        check_programs(self._system)
        self._settings = settings
        self._terms = settings.terms()
        self._jobs: dict[str, BatchJob] = {}  # those that live
        self._stopping: dict[str, float] = {}  # when each is cancelled
        self._vanished: dict[str, float] = {}  # when the search for its end is given up
        self._told_at = 0.0  # when they were told to end
        self._accepted = False
        self._listed_at: float | None = None
        if settings.scales and not settings.minimum_workers:
            self._verify()

    def _verify(self) -> None:
        """Ask whether the batch system will accept the jobs, long before tasks need them: the user may wait for these
        tasks, and get no answer. Raises BadInput."""
        workers = min(self._settings.most_per_job, self._settings.maximum_workers or 1)
        call = self._system.verify(self._submission(workers, 1, self._settings.per_worker_capabilities))
        if call is None:
            return
        complaint = run_batch(self._system, call).complaint
        if complaint is not None and not self._system.is_unsure(complaint):
            sentence, is_final = explain_rejection(complaint, self._system)
            if is_final:
                raise BadInput(sentence)

    # ---- start -------------------------------------------------------------------------------------------------------

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        most, largest = self._settings.most_per_job, self._system.largest_array
        full, rest = divmod(n, most)
        arrays = [(most, min(largest, full - begin)) for begin in range(0, full, largest)]
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
        call = self._submission(workers, count, capabilities)
        answer = run_batch(self._system, call)
        if answer.complaint is not None:
            self._refuse(answer.complaint)
        try:
            ids = self._system.read_ids(answer.output, count)
        except ValueError:
            said = answer.output.strip()
            raise StartError(f"Cannot read what {call.program} says: {said}. Check its version.") from None
        self._accepted = True
        self._jobs.update((id, BatchJob(id, workers)) for id in ids)
        return [Job(id, workers) for id in ids]

    def _refuse(self, complaint: str) -> None:
        sentence, is_final = explain_rejection(complaint, self._system)
        if is_final and not self._accepted and not self._jobs:
            raise BadInput(sentence)
        raise StartError(sentence)

    def _submission(self, workers: int, count: int, capabilities: Sequence[str]) -> BatchCall:
        call = self._system.submit(self._terms, workers, count)
        return call._replace(script=self._script(workers, capabilities))

    def _script(self, workers: int, capabilities: Sequence[str]) -> str:
        settings, limit = self._settings, self._terms.time_limit_seconds
        timer = None if limit is None or self._system.has_notice else limit - notice_seconds(settings.grace_seconds)
        return job_script(self._command(workers, capabilities), settings.job_setup, self._system.traps, timer)

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
        self._told_at = now
        if ids:
            for call in self._system.stop([self._jobs[id] for id in ids]):
                run_batch(self._system, call)

    def _tell_again(self, now: float) -> None:
        if now >= self._told_at + REPEAT_SECONDS:
            self._tell([id for id, deadline in self._stopping.items() if deadline > now], now)

    def _cancel_late(self, now: float) -> None:
        """Cancel the jobs that must end now. Repeated: a command may fail."""
        late = [id for id, deadline in self._stopping.items() if deadline <= now]
        if late:
            self._stopping.update(dict.fromkeys(late, now + REPEAT_SECONDS))
            run_batch(self._system, self._system.cancel(late))

    # ---- list --------------------------------------------------------------------------------------------------------

    def list(self) -> Sequence[Job]:
        now = time.monotonic()
        ended: Sequence[Job] = ()
        if self._listed_at is None or now - self._listed_at >= LISTING_SECONDS:
            ended = self._renew({job.id: job for job in self._listed()}, now)
            self._listed_at = now
        self._tell_again(now)
        self._cancel_late(now)
        return [*(Job(job.id, job.workers, job.state) for job in self._jobs.values()), *ended]

    def _renew(self, listed: dict[str, BatchJob], now: float) -> Sequence[Job]:
        """Return the jobs that have ended without being asked to."""
        listed = {**listed, **self._given_up(listed)}
        known = [job for job in self._jobs.values() if job.id not in self._stopping]
        self._jobs = {id: job for id, job in listed.items() if job.is_live and not self._has_stopped(job)}
        self._stopping = {id: deadline for id, deadline in self._stopping.items() if id in self._jobs}
        gone = [job for job in known if job.id not in listed]
        ends = [self._end(listed[job.id]) for job in known if job.id in listed and not listed[job.id].is_live]
        return [*ends, *self._ends_of_vanished(gone, now)]

    def _given_up(self, listed: dict[str, BatchJob]) -> dict[str, BatchJob]:
        """Cancel the jobs that wait until someone releases them, since others can be submitted. Return them as failed
        ones."""
        found = {id: job for id, job in listed.items() if self._system.is_stuck(job)}
        if found:
            run_batch(self._system, self._system.cancel(list(found)))
        end = f"could not be started, and {self._system.title} held it. See the log of the daemon on its node"
        return {id: dataclasses.replace(job, state=JobState.FAILED, end=end) for id, job in found.items()}

    def close(self) -> None:
        """Nothing is left."""

    def why_not(self) -> Sequence[str]:
        return explain_waits((job for job in self._jobs.values() if job.id not in self._stopping), self._system)

    def _listed(self) -> Sequence[BatchJob]:
        user, ids = _user_name() if self._system.names_users else str(os.getuid()), []
        if self._system.select is not None:
            ids = self._answer(run_batch(self._system, self._system.select(self._terms, user))).split()
            if not ids:
                return ()
        output = self._answer(run_batch(self._system, self._system.list_jobs(self._terms, user, ids)))
        try:
            return self._system.read_jobs(output, self._terms)
        except ValueError as error:
            raise ListError(explain_unlisted(str(error), self._system)) from None

    def _answer(self, answer: BatchAnswer) -> str:
        if answer.complaint is not None and not self._system.says_nothing(answer.complaint):
            raise ListError(explain_unlisted(answer.complaint, self._system))
        return answer.output

    def _has_stopped(self, job: BatchJob) -> bool:
        return job.is_ending and job.id in self._stopping

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _end(self, job: BatchJob) -> Job:
        end = JobEnd(job.state, job.end)
        if job.state is JobState.FAILED and not job.end:
            end = self._inspected(job) or JobEnd(job.state, "failed")
        return Job(job.id, job.workers, end.state, end.words)

    def _ends_of_vanished(self, gone: Sequence[BatchJob], now: float) -> Sequence[Job]:
        """Return the ended ones of the jobs that are gone. Those whose end is not known yet stay among the jobs that
        live."""
        ended = []
        self._vanished = {job.id: self._vanished.get(job.id, now + VANISHED_SECONDS) for job in gone}
        for job in gone:
            end = self._inspected(job)
            if end is None and now < self._vanished[job.id] and self._system.inspect is not None:
                self._jobs[job.id] = job
            else:
                end = end or JobEnd(JobState.FAILED, f"disappeared from the list of {self._system.title}")
                ended.append(Job(job.id, job.workers, end.state, end.words))
        return ended

    def _inspected(self, job: BatchJob) -> JobEnd | None:
        if self._system.inspect is None:
            return None
        return self._system.read_end(run_batch(self._system, self._system.inspect(job.id)).output)


def _user_name() -> str:
    """Return the user's name, or its number where the host has no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
