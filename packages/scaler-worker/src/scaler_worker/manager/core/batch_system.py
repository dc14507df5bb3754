"""A batch system as a worker manager sees it: a table of its commands, its words, and what they mean.

Each function of the table writes the arguments of a command or reads its output. Nothing else in the manager knows one
batch system from another, so that a further one is one more table.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaler_worker.manager.core.jobs import JobState

Advice = Sequence[tuple[str, str]]
"""Patterns of what a batch system says, and the sentence that says what to do. The first one that matches holds."""


class BatchCall(NamedTuple):
    """A command of a batch system. ``script``: its input."""

    program: str
    arguments: Sequence[str]
    script: str = ""

    def last_value_of(self, option: str) -> str | None:
        """Return the word behind the last ``option``: that of the user, whose options follow those of the manager."""
        pairs = zip(("", *self.arguments), self.arguments, strict=False)
        return next((word for before, word in reversed([*pairs]) if before == option), None)


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job, or one of an array. ``reason``: why it waits, in the words of the batch system. ``end``: how it ended, as
    the end of a sentence about it; empty if that must be asked for. ``is_ending``: its processes have ended or are
    being ended."""

    id: str
    workers: int
    state: JobState = JobState.STARTING
    reason: str = ""
    end: str = ""
    is_ending: bool = False

    @property
    def is_live(self) -> bool:
        return self.state in (JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """The terms of jobs. None: as the batch system is configured. ``options``: further arguments.
    ``parallel_environment`` is Grid Engine's, ``resources`` PBS's."""

    name: str
    address: str
    grace_seconds: float
    cpus_per_worker: int = 1
    memory_per_worker: int | None = None
    time_limit_seconds: float | None = None
    output: str | None = None
    options: tuple[str, ...] = ()
    parallel_environment: str | None = None
    resources: str | None = None


class JobEnd(NamedTuple):
    """``words``: the end of a sentence about the job."""

    state: JobState
    words: str


@dataclass(frozen=True, kw_only=True)
class BatchSystem:
    """``title``: its name. ``programs``: without these, it cannot be used; ``package`` of Debian has them. ``check``:
    the sentence for a system that does not answer. ``help``: where its reasons are explained.

    ``variables``: those that its commands and jobs need. ``foreign_variables``: prefixes of those that a job gets, in
    which the manager itself may run, or that change what its commands print. ``default_variables``: the prefix of a
    user's defaults for jobs, without ``changing_variables``.

    ``traps``: what the script of a job does when a signal comes. ``has_notice``: the system tells jobs before their
    time limit; otherwise their script looks at the time. ``names_users``: users are given by name, otherwise by number.

    ``submit``: with a number of workers per job, and of jobs. ``verify``: changes the call that submits into one that
    only tells whether such jobs, or at least their queue, are accepted; None if there is no such call. ``unsure``: a
    pattern of complaints that it has about jobs that would be accepted. ``select``: the ids of the jobs that
    ``list_jobs`` shows, a line each; None: it needs none. ``nothing``: what a command says when there are no such jobs.
    ``inspect``: asks how a job has ended. ``stop``: tells jobs to end cleanly. ``cancel`` ends them. ``controller``: a
    command, and a pattern of the host in its output that nodes and this host reach. ``stuck``: a pattern of the reasons
    of jobs that wait until someone releases them, because they could not be started. ``unlisted``: of what is said when
    the jobs cannot be listed, where ``check`` does not help."""

    title: str
    programs: tuple[str, ...]
    package: str
    check: str
    help: str
    variables: tuple[str, ...]
    foreign_variables: tuple[str, ...]
    default_variables: str | None = None
    changing_variables: tuple[str, ...] = ()
    traps: Mapping[str, str]
    has_notice: bool = False
    largest_array: int = 1000
    names_users: bool = True
    submit: Callable[[BatchTerms, int, int], BatchCall]
    verify: Callable[[BatchCall], BatchCall | None] = lambda call: None
    unsure: str | None = None
    read_ids: Callable[[str, int], list[str]]
    select: Callable[[BatchTerms, str], BatchCall] | None = None
    list_jobs: Callable[[BatchTerms, str, Sequence[str]], BatchCall]
    read_jobs: Callable[[str, BatchTerms], list[BatchJob]]
    nothing: str | None = None
    inspect: Callable[[str], BatchCall] | None = None
    read_end: Callable[[str], JobEnd | None] = lambda text: None
    stop: Callable[[Sequence[BatchJob]], list[BatchCall]]
    cancel: Callable[[Sequence[str]], BatchCall]
    controller: tuple[BatchCall, str] | None = None
    stuck: str | None = None
    unlisted: Advice = ()
    waits: Advice
    rejections: Advice
    delays: Advice

    def is_unsure(self, complaint: str) -> bool:
        """The answer of ``verify`` does not tell whether a job would be accepted."""
        return self.unsure is not None and re.search(self.unsure, complaint) is not None

    def is_stuck(self, job: BatchJob) -> bool:
        """The job waits until someone releases it."""
        if self.stuck is None or job.state is not JobState.STARTING:
            return False
        return re.search(self.stuck, job.reason) is not None

    def says_nothing(self, complaint: str) -> bool:
        """A command failed because there are no such jobs."""
        return self.nothing is not None and re.search(self.nothing, complaint) is not None


def job_name(terms: BatchTerms, workers: int) -> str:
    """The name of a job tells its manager, its number of workers, and, as a checksum, the address of its scheduler."""
    return f"{_beginning(terms)}{workers}.{zlib.crc32(terms.address.encode()):08x}"


def workers_in_name(name: str, terms: BatchTerms) -> int | None:
    """None: this is not the name of a job of this manager for this scheduler."""
    beginning = re.escape(_beginning(terms))
    match = re.fullmatch(rf"{beginning}([0-9]{{1,6}})\.{zlib.crc32(terms.address.encode()):08x}", name)
    return int(match[1]) if match is not None else None


def _beginning(terms: BatchTerms) -> str:
    return f"scaler.{terms.name}."
