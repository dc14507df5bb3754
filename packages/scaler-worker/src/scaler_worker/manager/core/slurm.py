"""Slurm: what is submitted to it, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scaler_worker.manager.core import slurm_reasons
from scaler_worker.manager.core.batch_reasons import explain_exit
from scaler_worker.manager.core.batch_script import DRAIN, END, mebibytes, minutes, notice_seconds, option_words
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, BatchSystem, BatchTerms, JobEnd
from scaler_worker.manager.core.jobs import JobState

STOP_SIGNAL = "USR1"
"""The signal with which the manager ends a job; Slurm's own is TERM."""

LISTING_FORMAT = "%i|%T|%r|%j|%k"
"""The job, its state, the reason why it waits, its name, and its comment, which may contain the separator."""

_COMMENT = re.compile(r"scaler workers=([0-9]{1,6}) scheduler=(\S+)")
_SUBMITTED = re.compile(r"([0-9]+)(?:;\S+)?")

_RESERVED = (
    "--array", "--comment", "--cpus-per-task", "--export", "--job-name", "--mem", "--nodes", "--no-requeue", "--ntasks",
    "--parsable", "--requeue", "--signal", "--test-only", "--time", "--wait", "--wrap",
)  # fmt: skip

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
    "FAILED": "",  # the exit code says more
    "REVOKED": "was started in another cluster",
}


# ---- submission ------------------------------------------------------------------------------------------------------


def sbatch_options(text: str) -> tuple[str, ...]:
    """Raises ValueError."""
    words = option_words(text, "sbatch", r"(--[a-z][a-z0-9-]*)(?:=.*)?", _RESERVED, "--name=value")
    wrong = [word for word in words if not word.startswith("--")]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not an option of sbatch. Give options as --name=value.")
    return words


def job_comment(workers: int, address: str) -> str:
    """Return the comment of a job with this many workers for the scheduler at this address."""
    return f"scaler workers={workers} scheduler={address}"


def submission(terms: BatchTerms, workers: int, jobs: int) -> BatchCall:
    memory = mebibytes(terms.memory_per_worker, workers)
    named = {
        "job-name": _job_name(terms),
        "comment": job_comment(workers, terms.address),
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": workers * terms.cpus_per_worker,
        "mem": f"{memory}M" if memory is not None else None,
        "time": minutes(terms.time_limit_seconds),
        "signal": f"B:TERM@{notice_seconds(terms.grace_seconds)}",
        "export": "ALL",  # a list would make Slurm load the login environment of the user as well
        "output": terms.output,
        "array": f"0-{jobs - 1}" if jobs > 1 else None,
    }
    given = [f"--{name}={value}" for name, value in named.items() if value is not None]
    return BatchCall("sbatch", ["--parsable", "--requeue", *given, *terms.options])


def verification(call: BatchCall) -> BatchCall:
    return call._replace(arguments=["--test-only", *call.arguments])


def read_ids(text: str, jobs: int) -> list[str]:
    """Return the ids of the jobs that sbatch has accepted. Raises ValueError for other output."""
    match = _SUBMITTED.fullmatch(text.strip().rpartition("\n")[2])
    if match is None:
        raise ValueError(text)
    return [match[1]] if jobs == 1 else [f"{match[1]}_{place}" for place in range(jobs)]


def _job_name(terms: BatchTerms) -> str:
    return f"scaler:{terms.name}"


# ---- listing ---------------------------------------------------------------------------------------------------------


def listing(terms: BatchTerms, user: str, ids: Sequence[str]) -> BatchCall:
    filters = ["--array", "--states=all", f"--user={user}", f"--name={_job_name(terms)}"]
    return BatchCall("squeue", ["--noheader", *filters, f"--format={LISTING_FORMAT}"])


def read_jobs(text: str, terms: BatchTerms) -> list[BatchJob]:
    """The jobs of this manager for this scheduler. Lines of other jobs are skipped: squeue selects names without regard
    to their case."""
    return list(_jobs(text, _job_name(terms), terms.address))


def _jobs(text: str, name: str, address: str) -> Iterator[BatchJob]:
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|", 4)]
        comment = _COMMENT.fullmatch(fields[4]) if len(fields) == 5 else None
        if comment is not None and (fields[3], comment[2]) == (name, address):
            id, state, reason, *_ = fields
            end = _ENDS.get(state, f"ended in the state {state}")
            meaning = meaning_of(state)
            is_failed = meaning is JobState.FAILED
            yield BatchJob(
                id, int(comment[1]), meaning, reason, end if is_failed else "", is_ending=state == "COMPLETING"
            )


def meaning_of(state: str) -> JobState:
    """Return the meaning of a state in Slurm's words."""
    if state in _STARTING:
        return JobState.STARTING
    if state in _RUNNING:
        return JobState.RUNNING
    return JobState.DISMISSED if state == "COMPLETED" else JobState.FAILED


def inspection(id: str) -> BatchCall:
    return BatchCall("scontrol", ["show", "job", "--oneliner", id])


def read_end(text: str) -> JobEnd | None:
    code = re.search(r"(?:^|\s)ExitCode=([0-9]+):([0-9]+)", text)
    output = re.search(r"(?:^|\s)StdOut=(\S+)", text)
    if code is None:
        return None
    return JobEnd(
        JobState.FAILED, explain_exit(int(code[1]), int(code[2]), output[1] if output is not None else "", "Slurm")
    )


# ---- end -------------------------------------------------------------------------------------------------------------


def stop(jobs: Sequence[BatchJob]) -> list[BatchCall]:
    """A job that waited when it was listed may run by now: Slurm decides which command it gets."""
    ids = [job.id for job in jobs]
    return [
        BatchCall("scancel", ["--state=PENDING", *ids]),
        BatchCall("scancel", ["--batch", f"--signal={STOP_SIGNAL}", *ids]),
    ]


def cancel(ids: Sequence[str]) -> BatchCall:
    return BatchCall("scancel", list(ids))


SLURM = BatchSystem(
    title="Slurm",
    programs=("sbatch", "squeue", "scancel"),
    package="slurm-client",
    check="Check with sinfo that slurmctld runs.",
    help="See: man squeue",
    variables=("SLURM_CONF", "SLURM_CLUSTERS"),
    foreign_variables=("SLURM_", "SQUEUE_", "SCANCEL_"),
    default_variables="SBATCH_",
    changing_variables=("SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV"),
    traps={"TERM": DRAIN, STOP_SIGNAL: END},
    has_notice=True,
    names_users=False,
    submit=submission,
    verify=verification,
    unsure=r"node configuration is not available",  # it also says this while all nodes are drained
    read_ids=read_ids,
    list_jobs=listing,
    read_jobs=read_jobs,
    inspect=inspection,
    read_end=read_end,
    stop=stop,
    cancel=cancel,
    controller=(BatchCall("scontrol", ["show", "config"]), r"^SlurmctldHost\S*\s*=\s*([^\s(]+)(?:\(([^)]+)\))?"),
    stuck=r"launch failed requeued held",
    waits=slurm_reasons.WAITS,
    rejections=slurm_reasons.REJECTIONS,
    delays=slurm_reasons.DELAYS,
)
