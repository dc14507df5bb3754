"""The core of a worker manager, with a job system in which anything happens: jobs start in part or not at all, fail,
are dismissed, vanish, come back, or cannot be listed.

Nothing raises, and the core's own check holds after each step. It starts nothing while it cannot see its jobs, and
never more workers than are missing. When the job system works again, enough workers run; after a stop, none are left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from fuzz.choices import Choices
from fuzz.tally import TALLY
from scaler_worker.manager.core.jobs import Job, JobState, StartWorkers, StopJobs
from scaler_worker.manager.core.manager import LONGEST_PAUSE_SECONDS, ManagerCore

LONGEST_INPUT_BYTES = 512
MOST_STEPS = 100
MOST_WORKERS = 6
PAUSES_SECONDS = (0.0, 0.3, 1.0, 5.0, 70.0)
LIVE = (JobState.STARTING, JobState.RUNNING)
ENDS = (JobState.FAILED, JobState.FAILED, JobState.DISMISSED)


class JobSystem:
    """``jobs``: those that exist; one that has ended is listed once more. ``stopping``: those that were asked to
    stop."""

    def __init__(self, choices: Choices) -> None:
        self.now = 0.0
        self.least = choices.below(MOST_WORKERS)
        self.most = choices.pick((None, self.least, self.least + choices.below(MOST_WORKERS)))
        self.core = ManagerCore(self.least, self.most)
        self.wanted = self.least
        self.jobs: dict[str, Job] = {}
        self.stopping: set[str] = set()
        self.is_listed = True
        self.has_stopped = False
        self.started = 0

    # ---- effects --------------------------------------------------------------------------------------------------

    def act(self, choices: Choices) -> None:
        for effect in self.core.take_effects(self.now):
            if isinstance(effect, StopJobs):
                self.stopping.update(effect.ids)
            else:
                self.start(effect, choices)
        self.core.check()
        assert math.isfinite(self.core.next_deadline())
        assert all(text.endswith(".") for text in self.core.why_not(self.now))

    def start(self, effect: StartWorkers, choices: Choices) -> None:
        here = sum(job.workers for job in self.core.jobs if job.id not in self.stopping)
        assert self.is_listed and not self.has_stopped, (
            "it starts workers although it cannot see its jobs, or must stop"
        )
        assert 0 < effect.count <= self.wanted - here, "it starts more workers than are missing"
        if choices.flag(4):
            self.core.on_start_failed("There is no room.", self.now)
            return
        share = effect.count if choices.flag() else 1
        jobs = [self.new_job(min(share, effect.count - first)) for first in range(0, effect.count, share)]
        self.core.on_started(jobs[: len(jobs) - choices.below(2)] or jobs, self.now)

    def new_job(self, workers: int) -> Job:
        """It exists even if it is not reported."""
        self.started += 1
        job = Job(f"job {self.started}", workers)
        self.jobs[job.id] = job
        return job

    # ---- what happens ------------------------------------------------------------------------------------------------

    def step(self, choices: Choices) -> None:
        operation = choices.below(8)
        if operation <= 1:
            self.list_jobs()
        elif operation == 2:
            self.is_listed = False
            self.core.on_unobserved("The jobs cannot be listed.", self.now)
        elif operation == 3:
            self.now += choices.pick(PAUSES_SECONDS)
        elif operation == 4:
            self.order(choices.below(2 * MOST_WORKERS))
        elif operation == 5 and choices.flag(16):
            self.has_stopped = True
            self.core.on_stop()
        elif self.jobs:
            self.change(choices)
        self.act(choices)
        TALLY.count_messages()

    def order(self, workers: int) -> None:
        self.wanted = max(self.least, min(workers, self.least if self.most is None else self.most))
        self.core.on_order(workers)

    def change(self, choices: Choices) -> None:
        """One job runs, ends, or is gone without a trace."""
        job = choices.pick([*self.jobs.values()])
        what = choices.below(4)
        if what <= 1:
            self.jobs[job.id] = replace(job, state=JobState.RUNNING)
        elif what == 2:
            self.end(job, choices.pick(ENDS))
        else:
            del self.jobs[job.id]

    def end(self, job: Job, state: JobState) -> None:
        self.jobs[job.id] = replace(job, state=state, reason="failed")

    def list_jobs(self) -> None:
        jobs = [*self.jobs.values()]
        self.jobs = {job.id: job for job in jobs if job.state in LIVE}
        self.is_listed = True
        self.has_stopped = self.has_stopped or (self.most is None and self.was_dismissed(jobs))
        self.core.on_observed(jobs, self.now)

    def was_dismissed(self, jobs: list[Job]) -> bool:
        """A manager of a fixed number ends with its scheduler."""
        return any(job.state is JobState.DISMISSED and job.id not in self.stopping for job in jobs)

    def work(self) -> None:
        """Do what the core wants, and list everything."""
        for job in [*self.jobs.values()]:
            if job.id in self.stopping:
                self.end(job, JobState.DISMISSED)
            elif job.state in LIVE:
                self.jobs[job.id] = replace(job, state=JobState.RUNNING)
        self.now += LONGEST_PAUSE_SECONDS
        self.list_jobs()
        self.act(Choices(b""))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def check_end(self) -> None:
        for _ in range(4):
            self.work()
        if not self.has_stopped:
            running = sum(job.workers for job in self.jobs.values() if job.id not in self.stopping)
            assert running >= self.wanted and not self.core.why_not(self.now), (self.jobs, self.wanted)
        self.has_stopped = True
        self.core.on_stop()
        self.act(Choices(b""))
        for _ in range(2):
            self.work()
        assert self.core.finished and not self.jobs, self.jobs


def one_input(data: bytes) -> None:
    choices = Choices(data)
    system = JobSystem(choices)
    system.act(choices)
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        system.step(choices)
    system.check_end()


def seeds() -> Iterator[bytes]:
    for first in range(4):
        yield bytes([first, first, *range(200)])
        yield bytes([5, 2, first, *(number * 37 % 256 for number in range(400))])
