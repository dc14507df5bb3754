"""PBS (OpenPBS and PBS Professional): what is submitted to it, and what its answers mean."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaler_worker.manager.core.batch_reasons import explain_exit
from scaler_worker.manager.core.batch_script import DRAIN, END, NOTE, mebibytes, option_words
from scaler_worker.manager.core.batch_system import BatchCall, BatchJob, BatchSystem, BatchTerms
from scaler_worker.manager.core.jobs import JobState

_RESERVED = ("-I", "-J", "-N", "-S", "-V", "-X", "-j", "-r", "-v")

_RECORD = "SCALER_JOB"
"""The variable of a job that tells its number of workers, and, as a checksum, the address of its scheduler."""

_SUBMITTED = re.compile(r"([0-9]+)(\[\])?(\.\S+)?")
_SIGNALS = 256

_STARTING = {"Q", "H", "W", "T", "M"}
_RUNNING = {"R", "E", "S", "U", "B"}

_ENDS = {
    -27: "used more memory than PBS gave it. Give a larger --memory-per-worker",
    -28: "used more CPU time than PBS gave it",
    -29: "reached its time limit before its workers had ended. Give a larger --time-limit-seconds",
}
"""Exit codes with which PBS tells what it did."""

_WAITS = (
    (r"[Cc]an [Nn]ever [Rr]un",
     "no node suffices. Give a smaller --workers-per-job, --cpus-per-worker or --memory-per-worker, or another "
     "--queue."),
    (r"[Hh]eld by user|Hold_Types u", "they are held. Run: qrls {jobs}"),
    (r"Hold_Types", "an operator holds them. Ask the administrators of the cluster."),
    (r"[Ii]nsufficient amount of (?:queue|server)|limit reached|would exceed|quota",
     "a limit is reached. Wait, or give another --queue or --project."),
    (r"[Ii]nsufficient amount of resource|[Nn]o suitable|[Nn]ot enough",
     "no suitable nodes are free. Wait, or ask for less per job."),
    (r"[Qq]ueue .*(?:not started|disabled)|dedicated|prime", "the queue is closed. Give another --queue, or wait."),
)  # fmt: skip

_UNLISTED = (
    (r"(?:invalid|illegal|unrecognized) option|usage:",
     "These are commands of Torque or of an old PBS. Use OpenPBS, or PBS Professional 14 or later."),
)  # fmt: skip

_REJECTIONS = (
    (r"[Uu]nknown queue", "Give another --queue; qstat -Q shows those that exist."),
    (r"[Aa]ccess to queue", "Give another --queue, or ask the administrators of the cluster."),
    (r"[Nn]o default queue", "Give a --queue; qstat -Q shows those that exist."),
    (r"[Aa]ccount", "Give another --account."),
    (r"[Pp]roject", "Give another --project."),
    (r"[Aa]rray", "Give a larger --workers-per-job."),
    (r"(?:exceeds|violates) .*queue|exceeds allowable|all possible destinations",
     "Give a smaller --workers-per-job, --memory-per-worker or --time-limit-seconds, or another --queue."),
    (r"[Uu]nknown resource|[Rr]esource invalid|[Ii]llegal attribute|invalid option|illegal -",
     "Correct --qsub-options or --resources."),
    (r"[Uu]nauthorized|[Aa]ccess .*(?:denied|not allowed)|Bad [UG]ID", "Ask the administrators of the cluster."),
)  # fmt: skip

_DELAYS = (
    (r"[Qq]ueue is not (?:enabled|started)", "Wait, or give another --queue; qstat -Q shows which ones are enabled."),
    (r"would exceed|limit|Maximum number", "Wait until other jobs have ended, or give another --queue."),
    (r"connect|timed out|[Cc]ommunication", "Check with qstat -B that the server runs."),
)


# ---- submission ------------------------------------------------------------------------------------------------------


def pbs_options(text: str) -> tuple[str, ...]:
    """Return the options of qsub. Raises ValueError."""
    return option_words(text, "qsub", r"(-[a-zA-Z])", _RESERVED, "-name value")


def submission(terms: BatchTerms, workers: int, jobs: int) -> BatchCall:
    memory = mebibytes(terms.memory_per_worker, workers)
    parts = [f"select=1:ncpus={workers * terms.cpus_per_worker}"]
    parts += [f"mem={memory}mb"] if memory is not None else []
    parts += [terms.resources] if terms.resources is not None else []
    arguments = ["-N", _job_name(terms), "-S", "/bin/sh", "-j", "oe", "-r", "y", "-V"]
    arguments += ["-v", f"{_RECORD}={workers}.{_checksum(terms)}", "-l", ":".join(parts)]
    if terms.time_limit_seconds is not None:
        arguments += ["-l", f"walltime={math.ceil(terms.time_limit_seconds)}"]
    arguments += ["-o", terms.output] if terms.output is not None else []
    arguments += ["-J", f"0-{jobs - 1}"] if jobs > 1 else []
    return BatchCall("qsub", [*arguments, *terms.options])


def verification(call: BatchCall) -> BatchCall | None:
    """Ask for the queue of the jobs, if one is given: PBS has no call that verifies all of their terms."""
    queue = call.last_value_of("-q")
    return BatchCall("qstat", ["-Q", queue]) if queue is not None else None


def read_ids(text: str, jobs: int) -> list[str]:
    """Return the ids of the jobs that qsub has accepted. Raises ValueError for other output."""
    match = _SUBMITTED.fullmatch(text.strip().rpartition("\n")[2])
    if match is None or (match[2] is not None) != (jobs > 1):
        raise ValueError(text)
    server = match[3] or ""
    return [f"{match[1]}{server}"] if jobs == 1 else [f"{match[1]}[{place}]{server}" for place in range(jobs)]


def _job_name(terms: BatchTerms) -> str:
    return f"scaler.{terms.name}"


def _checksum(terms: BatchTerms) -> str:
    return f"{zlib.crc32(terms.address.encode()):08x}"


# ---- listing ---------------------------------------------------------------------------------------------------------


def selection(terms: BatchTerms, user: str) -> BatchCall:
    """Select the jobs, also those that have ended, if the server keeps a history."""
    return BatchCall("qselect", ["-x", "-T", "-u", user, "-N", _job_name(terms)])


def listing(terms: BatchTerms, user: str, ids: Sequence[str]) -> BatchCall:
    return BatchCall("qstat", ["-x", "-t", "-f", "-F", "json", *ids])


def read_jobs(text: str, terms: BatchTerms) -> list[BatchJob]:
    """The jobs of this manager. Raises ValueError."""
    try:
        jobs = json.loads(text or "{}", strict=False).get("Jobs", {})
        return list(_jobs(jobs, terms))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError("the output of qstat is not JSON") from None


def _jobs(jobs: Mapping[str, Mapping[str, Any]], terms: BatchTerms) -> Iterator[BatchJob]:
    """An array is listed, too; its comment holds for those of its jobs that have none. Jobs of other managers are
    skipped, however qselect compares names."""
    for id, each in jobs.items():
        workers, _, checksum = str(each.get("Variable_List", {}).get(_RECORD, "")).partition(".")
        is_own = (each.get("Job_Name"), checksum) == (_job_name(terms), _checksum(terms))
        if "[]" not in id and workers.isdigit() and is_own:
            array = jobs.get(re.sub(r"\[[0-9]+\]", "[]", id), {})
            yield _job(id, int(workers), each, str(each.get("comment") or array.get("comment") or ""))


def _job(id: str, workers: int, values: Mapping[str, Any], comment: str) -> BatchJob:
    state = values.get("job_state")
    if state == "H":
        return BatchJob(id, workers, JobState.STARTING, f"Hold_Types {values.get('Hold_Types', 'u')}")
    if state in _STARTING:
        return BatchJob(id, workers, JobState.STARTING, comment.removeprefix("Not Running: ").strip())
    if state in _RUNNING:
        return BatchJob(id, workers, JobState.RUNNING, is_ending=state == "E")
    code = values.get("Exit_status")
    if code is None:
        return BatchJob(id, workers, JobState.FAILED, end="was deleted. Stop the manager to delete all of its jobs")
    return _ended(id, workers, int(code))


def _ended(id: str, workers: int, code: int) -> BatchJob:
    if code == 0:
        return BatchJob(id, workers, JobState.DISMISSED)
    number = code - _SIGNALS if code > _SIGNALS else 0
    return BatchJob(id, workers, JobState.FAILED, end=_ENDS.get(code) or explain_exit(code, number, "", "PBS"))


# ---- end -------------------------------------------------------------------------------------------------------------


def stop(jobs: Sequence[BatchJob]) -> list[BatchCall]:
    waiting = [job.id for job in jobs if job.state is JobState.STARTING]
    running = [job.id for job in jobs if job.state is JobState.RUNNING]
    calls = [cancel(waiting)] if waiting else []
    return [*calls, BatchCall("qsig", ["-s", "SIGUSR1", *running])] if running else calls


def cancel(ids: Sequence[str]) -> BatchCall:
    return BatchCall("qdel", list(ids))


PBS = BatchSystem(
    title="PBS",
    programs=("qsub", "qselect", "qstat", "qsig", "qdel"),
    package="",
    check="Check with qstat -B that the server runs.",
    help="Run: qstat -f {job}",
    variables=("PBS_CONF_FILE", "PBS_DEFAULT", "PBS_EXEC", "PBS_SERVER"),
    foreign_variables=("PBS_",),
    traps={"USR1": END, "USR2": DRAIN, "TERM": NOTE, "INT": NOTE},
    submit=submission,
    verify=verification,
    read_ids=read_ids,
    select=selection,
    list_jobs=listing,
    read_jobs=read_jobs,
    nothing=r"Unknown Job Id|Job has finished",
    stop=stop,
    cancel=cancel,
    controller=(BatchCall("qstat", ["-B", "-f"]), r"^\s*server_host = (\S+)$"),
    unlisted=_UNLISTED,
    waits=_WAITS,
    rejections=_REJECTIONS,
    delays=_DELAYS,
)
