"""Grid Engine: what is submitted to it, and what its answers mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from scaler_worker.manager.core.batch_reasons import explain_exit
from scaler_worker.manager.core.batch_script import DRAIN, mebibytes, option_words
from scaler_worker.manager.core.batch_system import (
    BatchCall,
    BatchJob,
    BatchSystem,
    BatchTerms,
    JobEnd,
    job_name,
    workers_in_name,
)
from scaler_worker.manager.core.jobs import JobState

_RESERVED = ("-N", "-S", "-V", "-b", "-cwd", "-j", "-notify", "-pe", "-r", "-sync", "-t", "-terse", "-wd")

_SUBMITTED = re.compile(r"([0-9]+)(?:\.[0-9]+-[0-9]+:[0-9]+)?")
_SIGNALS = 128

_WAITS = (
    (r"E", "Grid Engine could not start them. Run: qstat -j {job}; correct the cause, then run: qmod -cj {jobs}"),
    (r"h", "they are held. Run: qrls {jobs}"),
    (r"qw", "no suitable slots are free. Wait, or see what is missing: qalter -w v {job}"),
)

_REJECTIONS = (
    (r"unknown queue", "Give another --queue; qconf -sql shows those that exist."),
    (r"project", "Give another --project."),
    (r"parallel environment", "Give another --parallel-environment; qconf -spl shows those that exist."),
    (r"no suitable queues",
     "Give a smaller --workers-per-job, --cpus-per-worker, --memory-per-worker or --time-limit-seconds, or another "
     "--queue."),
    (r"unknown resource|invalid option|not a \w+ value|attribute", "Correct --qsub-options."),
    (r"max_aj_tasks|array (?:job|task)", "Give a larger --workers-per-job."),
    (r"not (?:a|an) (?:submit|admin)\w* host", "Run the manager on a host from which jobs may be submitted."),
    (r"access|permission|denied", "Ask the administrators of the cluster."),
)  # fmt: skip

_DELAYS = (
    (r"[Oo]nly \d+ jobs are allowed|quota|limit", "Wait until other jobs have ended."),
    (r"qmaster|commlib|timed out", "Check with qhost that sge_qmaster runs."),
)


# ---- submission ------------------------------------------------------------------------------------------------------


def gridengine_options(text: str) -> tuple[str, ...]:
    """Return the options of qsub. Raises ValueError."""
    return option_words(text, "qsub", r"(-[a-zA-Z_]+)", _RESERVED, "-name value")


def submission(terms: BatchTerms, workers: int, jobs: int) -> BatchCall:
    """Return the call of qsub. With -notify, qdel sends a signal and waits before it ends a job. -w e: rejects what can
    never run."""
    slots = workers * terms.cpus_per_worker
    environment = terms.parallel_environment or ""
    memory = mebibytes(terms.memory_per_worker)
    resources = {
        "h_rt": math.ceil(terms.time_limit_seconds) if terms.time_limit_seconds is not None else None,
        "h_vmem": f"{math.ceil(memory / terms.cpus_per_worker)}M" if memory is not None else None,
    }
    arguments = ["-terse", "-notify", "-w", "e", "-r", "y", "-V", "-cwd", "-j", "y", "-S", "/bin/sh"]
    arguments += ["-N", job_name(terms, workers)]
    arguments += ["-pe", environment, str(slots)] if slots > 1 else []
    for name, value in resources.items():
        arguments += ["-l", f"{name}={value}"] if value is not None else []
    arguments += ["-o", terms.output] if terms.output is not None else []
    arguments += ["-t", f"1-{jobs}"] if jobs > 1 else []
    return BatchCall("qsub", [*arguments, *terms.options])


def verification(call: BatchCall) -> BatchCall:
    """Let qsub only say whether the job can ever run, with -w v. The options of the user may contain another -w."""
    pairs = zip(("", *call.arguments), call.arguments, strict=False)
    return call._replace(arguments=["v" if before == "-w" else word for before, word in pairs])


def read_ids(text: str, jobs: int) -> list[str]:
    """Return the ids of the jobs that qsub has accepted. Raises ValueError for other output."""
    match = _SUBMITTED.fullmatch(text.strip().rpartition("\n")[2])
    if match is None:
        raise ValueError(text)
    return [match[1]] if jobs == 1 else [f"{match[1]}.{place}" for place in range(1, jobs + 1)]


# ---- listing ---------------------------------------------------------------------------------------------------------


def listing(terms: BatchTerms, user: str, ids: Sequence[str]) -> BatchCall:
    return BatchCall("qstat", ["-xml", "-g", "d", "-u", user])


def read_jobs(text: str, terms: BatchTerms) -> list[BatchJob]:
    """The jobs of this manager. Raises ValueError."""
    try:
        return list(_jobs(ElementTree.fromstring(text), terms))
    except ElementTree.ParseError:
        raise ValueError("its output is not XML") from None


def _jobs(root: ElementTree.Element, terms: BatchTerms) -> Iterator[BatchJob]:
    for each in root.iter("job_list"):
        workers = workers_in_name(each.findtext("JB_name", ""), terms)
        if workers is not None:
            number, task = each.findtext("JB_job_number", ""), each.findtext("tasks", "")
            letters = each.findtext("state", "")
            state = JobState.STARTING if "q" in letters else JobState.RUNNING
            yield BatchJob(f"{number}.{task}" if task else number, workers, state, letters)


def inspection(id: str) -> BatchCall:
    number, _, task = id.partition(".")
    return BatchCall("qacct", ["-j", number, *(["-t", task] if task else [])])


def read_end(text: str) -> JobEnd | None:
    """Return the facts of the last run of the job. One that was started again has several."""
    code = [int(each) for each in re.findall(r"^exit_status +([0-9]+)", text, re.MULTILINE)]
    failures = re.findall(r"^failed +([0-9]+) *:? *(.*?) *$", text, re.MULTILINE)
    if not code or not failures:
        return None
    number, words = failures[-1]
    if number not in ("0", "100"):
        return JobEnd(JobState.FAILED, f"failed: {words or number}")
    if code[-1] == 0:
        return JobEnd(JobState.DISMISSED, "")
    signal = code[-1] - _SIGNALS if number == "100" and code[-1] > _SIGNALS else 0
    return JobEnd(JobState.FAILED, explain_exit(code[-1], signal, "", "Grid Engine"))


# ---- end -------------------------------------------------------------------------------------------------------------


def stop(jobs: Sequence[BatchJob]) -> list[BatchCall]:
    """The queue's notify time is the longest that running tasks get. A job that is being deleted is not told again."""
    ids = [job.id for job in jobs if "d" not in job.reason]
    return [cancel(ids)] if ids else []


def cancel(ids: Sequence[str]) -> BatchCall:
    return BatchCall("qdel", list(ids))


GRID_ENGINE = BatchSystem(
    title="Grid Engine",
    programs=("qsub", "qstat", "qdel", "qacct"),
    package="gridengine-client",
    check="Check with qhost that sge_qmaster runs.",
    help="See: man qstat",
    variables=("SGE_ARCH", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_EXECD_PORT", "SGE_QMASTER_PORT", "SGE_ROOT"),
    foreign_variables=("SGE_", "JOB_ID", "JOB_NAME", "PE_HOSTFILE"),
    traps={"USR1": DRAIN, "USR2": DRAIN, "TERM": DRAIN},
    submit=submission,
    verify=verification,
    read_ids=read_ids,
    list_jobs=listing,
    read_jobs=read_jobs,
    inspect=inspection,
    read_end=read_end,
    stop=stop,
    cancel=cancel,
    controller=(BatchCall("qconf", ["-sss"]), r"^(\S+)$"),
    waits=_WAITS,
    rejections=_REJECTIONS,
    delays=_DELAYS,
)
