"""The core of a worker manager: it compares the jobs that exist with the workers that are needed."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_worker.manager.core.jobs import Job, JobState, ManagerEffect, StartWorkers, StopJobs
from scaler_worker.termination_notice import STOPPED_CODE

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""The pause after a failure doubles with each further failure in a row, up to this."""

STABLE_SECONDS = 60.0
"""A failure this long after the last start is counted as the first one in a row."""

OBSERVE_SECONDS = 1.0
"""The interval between two observations of the jobs."""

_WAITING_TEXT = "This manager ends when its jobs can be listed and have ended, or at a second signal."

_LIVE = (JobState.STARTING, JobState.RUNNING)


class ManagerCore:
    """Keeps ``workers`` workers running until ``on_stop``. Its shell reports the jobs that exist, and carries out the
    effects; ``finished`` tells when the manager may end.

    ``maximum``: the scheduler orders between ``workers`` and this many workers, as its load changes. Then it also
    drains those that are too many, and a job that ended cleanly was drained. None: the number is fixed.

    Where jobs outlive their manager, some of those that are reported may be those of another manager of the same name,
    which still runs. Until the scheduler has granted the name, they are counted, but not stopped as surplus."""

    def __init__(self, workers: int, maximum: int | None = None) -> None:
        self._wanted = self._minimum = workers
        self._maximum = workers if maximum is None else maximum
        self._scales = maximum is not None
        self._jobs: dict[str, Job] = {}
        self._own: set[str] = set()  # started by this manager
        self._stopped: set[str] = set()  # asked to stop, and still there
        self._has_name = False
        self._failures = 0  # in a row
        self._reason = ""  # of the last failure
        self._resume_at: float | None = None  # no start before this
        self._started_at: float | None = None  # the last start
        self._observe_at = 0.0
        self._blind = ""  # why the jobs could not be listed
        self._ending = False
        self._leaves_others = False
        self.exit_code = 0
        """The exit code of the manager when it has finished."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that start or run."""
        return tuple(self._jobs.values())

    @property
    def ending(self) -> bool:
        """No job will be started."""
        return self._ending

    @property
    def finished(self) -> bool:
        """No job is left, and none will be started."""
        return self._ending and not self._jobs and not self._blind

    # ---- events ------------------------------------------------------------------------------------------------------

    def on_started(self, jobs: Iterable[Job], now: float) -> None:
        """These jobs were started for the last ``StartWorkers``."""
        found = {job.id: job for job in jobs}
        self._jobs.update(found)
        self._own |= found.keys()
        self._started_at = now

    def on_start_failed(self, reason: str, now: float, wait_seconds: float = 0.0) -> None:
        """No job could be started for the last ``StartWorkers``. ``reason``: a sentence. ``wait_seconds``: the next
        start is not before, but within the longest pause."""
        self._fail(reason, now, wait_seconds)

    def on_observed(self, jobs: Iterable[Job], now: float) -> None:
        """All jobs of the manager, including those of an earlier manager of its name. One that ended may be reported
        once as FAILED, DISMISSED, WITHDRAWN or EVICTED; one that is missing without that has failed for an unknown
        reason."""
        self._observe_at = now + OBSERVE_SECONDS
        self._blind = ""
        observed = {job.id: job for job in jobs if job.id in self._own or not self._leaves_others}
        missing = [Job(each, 0, JobState.FAILED, "disappeared") for each in self._jobs.keys() - observed.keys()]
        ended = [job for job in (*observed.values(), *missing) if job.state not in _LIVE]
        self._jobs = {job.id: job for job in observed.values() if job.state in _LIVE}
        for job in sorted(ended, key=lambda job: job.id):
            self._end(job, now)
        self._own &= self._jobs.keys()
        self._stopped &= self._jobs.keys()

    def on_name_granted(self) -> None:
        """The scheduler knows no other manager of this name, or cannot be asked."""
        self._has_name = True

    def on_name_taken(self) -> None:
        """Another manager of this name runs. Stop the jobs that this one has started, and leave it the others."""
        self._ending = self._leaves_others = True
        self._jobs = {id: job for id, job in self._jobs.items() if id in self._own}
        self._stopped &= self._jobs.keys()

    def on_order(self, workers: int) -> None:
        """The scheduler, which has granted the name, needs this many workers."""
        self.on_name_granted()
        self._wanted = max(self._minimum, min(workers, self._maximum))

    def on_unobserved(self, reason: str, now: float) -> None:
        """The jobs could not be listed, so that nothing is started until they are. ``reason``: a sentence."""
        self._observe_at = now + OBSERVE_SECONDS
        self._blind = reason

    def on_stop(self) -> None:
        """Stop all jobs, and start no others."""
        self._ending = True

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Return when to observe the jobs again and take the effects."""
        observed_at = self._observe_at - OBSERVE_SECONDS
        if self._resume_at is not None and self._resume_at > observed_at and not self._ending:
            return min(self._observe_at, self._resume_at)
        return self._observe_at

    def take_effects(self, now: float) -> list[ManagerEffect]:
        """Return the effects, at most one of which is a start: its outcome must be reported before the next call."""
        if self._ending:
            return self._stop([job.id for job in self._jobs.values()])
        if self._blind:
            return []
        missing = self._missing()
        if missing > 0:
            return self._start(missing, now)
        return self._stop(self._surplus(-missing))

    def why_not(self, now: float) -> list[str]:
        """Sentences that say why fewer workers run than are needed; none if enough of them run."""
        if self._blind:
            return [f"{self._blind} {_WAITING_TEXT}" if self._ending else self._blind]
        if self._ending:
            return []
        sentences = []
        starting = sum(job.workers for job in self._jobs.values() if job.state is JobState.STARTING)
        if starting:
            sentences.append(f"{_workers(starting)} starting.")
        if self._missing() > 0 and self._reason:
            pause = max(0.0, (self._resume_at or now) - now)
            sentences.append(
                f"{_workers(self._missing())} missing: {self._reason} The next attempt is in {pause:.0f} s."
            )
        return sentences

    def check(self) -> None:
        """Assert the invariants."""
        assert self._stopped <= self._jobs.keys() and self._own <= self._jobs.keys()
        assert all(job.state in _LIVE for job in self._jobs.values())
        assert self._failures >= 0 and (self._resume_at is None) == (self._failures == 0)

    def _missing(self) -> int:
        """Negative: more workers than needed."""
        return self._wanted - sum(job.workers for job in self._jobs.values() if job.id not in self._stopped)

    def _start(self, count: int, now: float) -> list[ManagerEffect]:
        if self._resume_at is not None and now < self._resume_at:
            return []
        return [StartWorkers(count)]

    def _stop(self, ids: list[str]) -> list[ManagerEffect]:
        """Each job is asked to stop once."""
        asked = tuple(each for each in ids if each not in self._stopped)
        self._stopped.update(asked)
        return [StopJobs(asked)] if asked else []

    def _surplus(self, count: int) -> list[str]:
        """The jobs that can stop while enough workers remain, those that do not run yet first, then large ones."""
        ids = []
        for job in sorted(self._jobs.values(), key=lambda job: (job.state is JobState.RUNNING, -job.workers)):
            if job.id not in self._stopped and job.workers <= count and self._may_stop(job):
                count -= job.workers
                ids.append(job.id)
        return ids

    def _may_stop(self, job: Job) -> bool:
        """A job that runs may have tasks: the scheduler knows."""
        is_own = self._has_name or job.id in self._own
        return is_own and (not self._scales or job.state is JobState.STARTING)

    def _end(self, job: Job, now: float) -> None:
        if (
            job.id in self._stopped
            or job.state is JobState.WITHDRAWN
            or (self._scales and job.state is JobState.DISMISSED)
        ):
            return
        if job.state is JobState.DISMISSED:
            self._ending = True
        elif job.state is JobState.EVICTED:
            self._ending, self.exit_code = True, STOPPED_CODE
        else:
            self._fail(f"Job {job.id} {job.reason}.", now)

    def _fail(self, reason: str, now: float, wait_seconds: float = 0.0) -> None:
        """Failures that are reported at the same time, as when a host is lost, count once."""
        self._reason = reason
        if self._resume_at is not None and now < self._resume_at:
            return
        if self._started_at is not None and now - self._started_at >= STABLE_SECONDS:
            self._failures = 0
        self._failures += 1
        pause = max(FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10), wait_seconds)
        self._resume_at = now + min(pause, LONGEST_PAUSE_SECONDS)


def _workers(count: int) -> str:
    return "1 worker is" if count == 1 else f"{count} workers are"
