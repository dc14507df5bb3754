"""The reasons why a batch system does not run a job: one sentence with its own words, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from scaler_worker.manager.core.batch_system import BatchJob, BatchSystem
from scaler_worker.manager.core.jobs import JobState
from scaler_worker.termination_notice import STOPPED_CODE

_ASK = "Ask the administrators of the cluster."
_MOST_NAMED = 5
_NO_REASONS = ("", "None")


def explain_waits(jobs: Iterable[BatchJob], system: BatchSystem) -> list[str]:
    """A sentence for each reason of jobs that wait."""
    waiting: dict[str, list[BatchJob]] = {}
    for job in jobs:
        if job.state is JobState.STARTING and job.reason not in _NO_REASONS:
            waiting.setdefault(job.reason, []).append(job)
    return [_explain_wait(reason, found, system) for reason, found in sorted(waiting.items())]


def _explain_wait(reason: str, jobs: Sequence[BatchJob], system: BatchSystem) -> str:
    workers = sum(job.workers for job in jobs)
    wait = "1 worker waits" if workers == 1 else f"{workers} workers wait"
    advice = next((text for pattern, text in system.waits if re.search(pattern, reason)), system.help)
    names = " ".join(job.id for job in jobs[:_MOST_NAMED])
    return f"{wait} in the queue of {system.title} for the reason {reason}: {advice.format(jobs=names, job=jobs[0].id)}"


def explain_rejection(errors: str, system: BatchSystem) -> tuple[str, bool]:
    """The sentence about jobs that were not accepted, and whether they never will be. ``errors``: what was said."""
    said = last_words(errors)
    for pattern, advice in system.rejections:
        if re.search(pattern, said):
            return f"{system.title} rejects the jobs: {said}. {advice}", True
    advice = next((text for pattern, text in system.delays if re.search(pattern, said)), _ASK)
    return f"{system.title} does not accept the jobs: {said}. {advice}", False


def explain_unlisted(errors: str, system: BatchSystem) -> str:
    advice = next((text for pattern, text in system.unlisted if re.search(pattern, errors)), system.check)
    return f"Cannot list the jobs of {system.title}: {last_words(errors)}. {advice}"


def explain_exit(code: int, number: int, output: str, title: str) -> str:
    """Explain how a job failed: its exit code or the signal that ended it, and the file of its output if it is
    known."""
    if code == STOPPED_CODE:
        return f"was ended by {title}, at its time limit or for another job, or with its machine"
    how = f"was ended by signal {number}" if number else f"exited with code {code}"
    if code in (126, 127):
        how += " because its node has no such Python. Give --remote-python"
    return f"{how}. See {output}" if output else how


def last_words(errors: str) -> str:
    """The last line that a command of a batch system wrote, without the names before it and hints at its help."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not _SKIPPED.match(line.strip())]
    return _NAMES.sub("", lines[-1] if lines else "").rstrip(".") or "it gives no reason"


_SKIPPED = re.compile(r"Try |Exiting\.|usage:|Request aborted by esub")
_NAMES = re.compile(
    r"^(?:Unable to run job: |[a-z]\w*: )?(?:(?:error|fatal): )?"
    r"(?:Batch job submission failed: |Job was rejected because |job rejected: |allocation failure: )?"
)
