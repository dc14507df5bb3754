"""LSF: what is submitted to it, and what its answers mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaler_worker.manager.core.batch_reasons import explain_exit
from scaler_worker.manager.core.batch_script import DRAIN, END, NOTE, mebibytes, minutes, option_words
from scaler_worker.manager.core.batch_system import (
    BatchCall,
    BatchJob,
    BatchSystem,
    BatchTerms,
    job_name,
    workers_in_name,
)
from scaler_worker.manager.core.jobs import JobState

_RESERVED = ("-I", "-Ip", "-Is", "-J", "-K", "-W", "-env", "-n", "-r", "-rn")

_SUBMITTED = re.compile(r"^Job <([0-9]+)> is submitted", re.MULTILINE)
_FIELDS = "jobid jobindex stat exit_code exit_reason pend_reason output_file job_name"
_SIGNALS = 128

_STARTING = {"PEND", "PSUSP", "PROV", "WAIT"}
_RUNNING = {"RUN", "USUSP", "SSUSP", "UNKWN"}

_ENDS = (
    (r"TERM_RUNLIMIT", "reached its time limit before its workers had ended. Give a larger --time-limit-seconds"),
    (r"TERM_MEMLIMIT|TERM_SWAP", "used more memory than LSF gave it. Give a larger --memory-per-worker"),
    (r"TERM_OWNER|TERM_ADMIN|TERM_FORCE", "was ended with bkill. Stop the manager to end all of its jobs"),
    (r"TERM_PREEMPT", "was preempted by another job"),
)
"""The reasons that LSF gives for an end, and what they mean."""

_WAITS = (
    (r"PSUSP|suspended by the user", "they are held. Run: bresume {jobs}"),
    (r"queue .*(?:closed|inactivated|not accepting)|dispatch window",
     "the queue is closed. Give another --queue, or wait."),
    (r"limit|quota|threshold", "a limit is reached. Wait, ask for less, or give another --queue or --project."),
    (r"New job is waiting", "LSF has not looked at them yet. Wait."),
    (r"slots|resource|host|[Mm]emory", "no suitable hosts are free. Wait, or ask for less per job."),
)  # fmt: skip

_REJECTIONS = (
    (r"No such queue|cannot use the queue", "Give another --queue; bqueues shows those that exist."),
    (r"project", "Give another --project."),
    (r"Too many (?:processors|tasks|slots)",
     "Give a smaller --workers-per-job or --cpus-per-worker, or another --queue."),
    (r"RUNLIMIT|run (?:time )?limit", "Give a smaller --time-limit-seconds, or another --queue."),
    (r"MEMLIMIT|memory limit", "Give a smaller --memory-per-worker, or another --queue."),
    (r"[Bb]ad resource requirement|[Ii]llegal option|[Uu]nknown resource|[Bb]ad argument", "Correct --bsub-options."),
    (r"[Jj]ob array", "Give a larger --workers-per-job."),
    (r"permission|not permitted", "Ask the administrators of the cluster."),
)  # fmt: skip

_DELAYS = (
    (r"[Qq]ueue has been closed", "Wait, or give another --queue; bqueues shows which ones are open."),
    (r"[Pp]ending job threshold|limit|quota", "Wait until other jobs have ended, or give another --queue."),
    (r"LSF is down|batch daemon|timed out|[Cc]onnection|LIM", "Check with lsid that LSF runs."),
)


# ---- submission ------------------------------------------------------------------------------------------------------


def bsub_options(text: str) -> tuple[str, ...]:
    """Raises ValueError."""
    return option_words(text, "bsub", r"(-[a-zA-Z]+)", _RESERVED, "-name value")


def submission(terms: BatchTerms, workers: int, jobs: int) -> BatchCall:
    memory = mebibytes(terms.memory_per_worker, workers)
    array = f"[1-{jobs}]" if jobs > 1 else ""
    arguments = ["-J", f"{job_name(terms, workers)}{array}", "-n", str(workers * terms.cpus_per_worker)]
    arguments += ["-R", "span[hosts=1]", "-r", "-env", "all"]
    arguments += ["-R", f"rusage[mem={memory}MB]", "-M", f"{memory}MB"] if memory is not None else []
    if terms.time_limit_seconds is not None:
        arguments += ["-W", str(minutes(terms.time_limit_seconds))]
    arguments += ["-o", terms.output or ("scaler-%J-%I.out" if jobs > 1 else "scaler-%J.out")]
    return BatchCall("bsub", [*arguments, *terms.options])


def verification(call: BatchCall) -> BatchCall | None:
    """Ask for the queue of the jobs, if one is given: LSF has no call that verifies all of their terms."""
    queue = call.last_value_of("-q")
    return BatchCall("bqueues", [queue]) if queue is not None else None


def read_ids(text: str, jobs: int) -> list[str]:
    """Return the ids of the jobs that bsub has accepted. Raises ValueError for other output."""
    match = _SUBMITTED.search(text)
    if match is None:
        raise ValueError(text)
    return [match[1]] if jobs == 1 else [f"{match[1]}[{place}]" for place in range(1, jobs + 1)]


# ---- listing ---------------------------------------------------------------------------------------------------------


def listing(terms: BatchTerms, user: str, ids: Sequence[str]) -> BatchCall:
    return BatchCall("bjobs", ["-a", "-u", user, "-J", f"scaler.{terms.name}.*", "-json", "-o", _FIELDS])


def read_jobs(text: str, terms: BatchTerms) -> list[BatchJob]:
    """The jobs of this manager. Raises ValueError."""
    try:
        return list(_jobs(json.loads(text or "{}", strict=False).get("RECORDS", []), terms))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError("the output of bjobs is not JSON") from None


def _jobs(records: Sequence[Mapping[str, Any]], terms: BatchTerms) -> Iterator[BatchJob]:
    for each in records:
        workers = workers_in_name(str(each.get("JOB_NAME", "")).partition("[")[0], terms)
        if workers is not None:
            index = str(each.get("JOBINDEX", ""))
            id = str(each["JOBID"])
            yield _job(f"{id}[{index}]" if index not in ("", "0") else id, workers, each)


def _job(id: str, workers: int, values: Mapping[str, Any]) -> BatchJob:
    state = str(values.get("STAT", ""))
    if state in _STARTING:
        reason = state if state == "PSUSP" else str(values.get("PEND_REASON", "")).strip(" ;")
        return BatchJob(id, workers, JobState.STARTING, reason)
    if state in _RUNNING:
        return BatchJob(id, workers, JobState.RUNNING)
    if state == "DONE":
        return BatchJob(id, workers, JobState.DISMISSED)
    return BatchJob(id, workers, JobState.FAILED, end=_end(state, values))


def _end(state: str, values: Mapping[str, Any]) -> str:
    text, reason = str(values.get("EXIT_CODE", "")), str(values.get("EXIT_REASON", ""))
    found = next((words for pattern, words in _ENDS if re.search(pattern, reason)), "")
    if found or not text.isdigit():
        return found or f"ended in the state {state}"
    code = int(text)
    return explain_exit(code, code - _SIGNALS if code > _SIGNALS else 0, str(values.get("OUTPUT_FILE", "")), "LSF")


# ---- end -------------------------------------------------------------------------------------------------------------


def stop(jobs: Sequence[BatchJob]) -> list[BatchCall]:
    waiting = [job.id for job in jobs if job.state is JobState.STARTING]
    running = [job.id for job in jobs if job.state is JobState.RUNNING]
    calls = [cancel(waiting)] if waiting else []
    return [*calls, BatchCall("bkill", ["-s", "USR1", *running])] if running else calls


def cancel(ids: Sequence[str]) -> BatchCall:
    return BatchCall("bkill", list(ids))


LSF = BatchSystem(
    title="LSF",
    programs=("bsub", "bjobs", "bkill"),
    package="",
    check="Check with lsid that LSF runs.",
    help="Run: bjobs -l {job}",
    variables=("LSF_BINDIR", "LSF_ENVDIR", "LSF_LIBDIR", "LSF_SERVERDIR", "XLSF_UIDDIR"),
    foreign_variables=("LSB_", "LS_"),
    traps={"USR1": END, "USR2": DRAIN, "TERM": NOTE, "INT": NOTE},
    submit=submission,
    verify=verification,
    read_ids=read_ids,
    list_jobs=listing,
    read_jobs=read_jobs,
    nothing=r"No (?:matching|unfinished) job found|is not found|No job found",
    stop=stop,
    cancel=cancel,
    controller=(BatchCall("lsid", []), r"^My master name is (\S+)$"),
    waits=_WAITS,
    rejections=_REJECTIONS,
    delays=_DELAYS,
)
