"""The reasons why Slurm does not run a job: one sentence with its own words, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from scaler_worker.manager.core.slurm_listing import SlurmJob
from scaler_worker.manager.core.slurm_script import STOPPED_CODE

_ASK = "Ask the administrators of the cluster."

_WAITS = (
    (r"JobHeldUser", "they are held. Run: scontrol release {jobs}"),
    (r"JobHeldAdmin", "an administrator holds them. Ask the administrators of the cluster."),
    (r"[Hh]eld", "Slurm holds them after a failed start. See the log of slurmd, then run: scontrol release {jobs}"),
    (r"Resources|Nodes_required|ReqNodeNotAvail", "no suitable nodes are free. Wait, or ask for less per job."),
    (r"Priority", "jobs with a higher priority wait, too. Wait, or give another --partition or --qos."),
    (r"PartitionTimeLimit",
     "the partition allows less time. Give a smaller --time-limit-seconds, or another --partition."),
    (r"PartitionNodeLimit|PartitionConfig", "the partition has no such nodes. Give a smaller --workers-per-job."),
    (r"PartitionDown|PartitionInactive", "the partition is closed. Give another --partition, or wait."),
    (r"InvalidAccount|AssociationJobLimit|.*Account.*", "the account may not run them. Give another --account."),
    (r"InvalidQOS|.*QOSNotAllowed", "the quality of service may not be used. Give another --qos."),
    (r"QOS\w*(Max|Grp|Min|Limit|Usage)|MaxJobsPer|MaxTRESPer",
     "a limit of the quality of service is reached. Wait, ask for less, or give another --qos."),
    (r"Assoc\w*(Max|Grp|Limit)", "a limit of the account is reached. Wait, ask for less, or give another --account."),
    (r"Licenses", "licenses are missing. Wait, or change --sbatch-options."),
    (r"Reservation", "a reservation is in the way. Wait, or change --sbatch-options."),
    (r"BeginTime", "they may not begin yet. Wait: Slurm delays jobs that were requeued."),
    (r"Dependency", "they wait for other jobs. Change --sbatch-options."),
    (r"BadConstraints", "no node has these features. Change --sbatch-options, or ask for less per job."),
)  # fmt: skip
"""Slurm's reason, and what it means."""

_REJECTIONS = (
    (r"[Ii]nvalid partition", "Give another --partition; sinfo shows those that exist."),
    (r"[Ii]nvalid account", "Give another --account or --partition."),
    (r"[Ii]nvalid qos", "Give another --qos."),
    (r"[Rr]equested time limit", "Give a smaller --time-limit-seconds, or another --partition."),
    (r"node configuration is not available|[Mm]ore processors|[Mm]emory specification|CPU count",
     "Give a smaller --workers-per-job, --cpus-per-worker or --memory-per-worker, or another --partition."),
    (r"nrecognized option|[Ii]nvalid (?:generic resource|feature|constraint)|[Ii]nvalid \S+ specification",
     "Correct --sbatch-options."),
    (r"[Ii]nvalid (?:job )?array", "Give a larger --workers-per-job."),
    (r"[Aa]ccess/permission denied", _ASK),
)  # fmt: skip
"""The messages of sbatch about jobs that it never accepts, and what to do."""

_DELAYS = (
    (r"QOS policy|[Ll]imit|submit", "Wait until other jobs have ended, or give another --account or --qos."),
    (r"contact slurm controller|[Cc]onnection|timed out|[Cc]ommunication", "Check with sinfo that slurmctld runs."),
)

_MOST_NAMED = 5


def explain_waits(jobs: Iterable[SlurmJob]) -> list[str]:
    """A sentence for each reason of jobs that wait."""
    waiting: dict[str, list[SlurmJob]] = {}
    for job in jobs:
        if job.is_pending and job.reason not in ("", "None"):
            waiting.setdefault(job.reason, []).append(job)
    return [_explain_wait(reason, found) for reason, found in sorted(waiting.items())]


def _explain_wait(reason: str, jobs: Sequence[SlurmJob]) -> str:
    workers = sum(job.workers for job in jobs)
    wait = "1 worker waits" if workers == 1 else f"{workers} workers wait"
    advice = next((text for pattern, text in _WAITS if re.search(pattern, reason)), "See: man squeue")
    names = " ".join(job.id for job in jobs[:_MOST_NAMED])
    return f"{wait} in the queue of Slurm for the reason {reason}: {advice.format(jobs=names)}"


def explain_rejection(errors: str) -> tuple[str, bool]:
    """The sentence about jobs that sbatch did not accept, and whether it never will. ``errors``: what it said."""
    said = last_words(errors)
    for pattern, advice in _REJECTIONS:
        if re.search(pattern, said):
            return f"Slurm rejects the jobs: {said}. {advice}", True
    advice = next((text for pattern, text in _DELAYS if re.search(pattern, said)), _ASK)
    return f"Slurm does not accept the jobs: {said}. {advice}", False


def explain_unlisted(errors: str) -> str:
    return f"Cannot list the jobs of Slurm: {last_words(errors)}. Check with sinfo that slurmctld runs."


def explain_exit(code: int, number: int, output: str) -> str:
    """Explain how a job failed: its exit code or the signal that ended it, and the file of its output if it is
    known."""
    if code == STOPPED_CODE:
        return "was ended by Slurm, at its time limit or for another job"
    how = f"was ended by signal {number}" if number else f"exited with code {code}"
    if code in (126, 127):
        how += " because its node has no such Python. Give --remote-python"
    return f"{how}. See {output}" if output else how


def last_words(errors: str) -> str:
    """The last line that a command of Slurm wrote, without the names before it and hints at its help."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("Try ")]
    text = re.sub(r"^\w+: (?:(?:error|fatal): )?(?:Batch job submission failed: )?", "", lines[-1]) if lines else ""
    return text.rstrip(".") or "it gives no reason"
