"""The submission of jobs to Slurm: the arguments of ``sbatch`` and the script of a job."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from scaler_worker.manager.core.slurm_listing import job_comment

STOPPED_CODE = 75
"""The exit code of a job that had to end although its workers were needed: at its time limit, or for another job."""

STOP_SIGNAL = "USR1"
"""The signal with which the manager ends a job; Slurm's own is TERM."""

SIGNAL_MARGIN_SECONDS = 30.0
"""Workers that drain have their grace time, and this long to end."""

_LONGEST_NOTICE_SECONDS = 65_535
_MEBIBYTE = 1 << 20

_RESERVED = (
    "array", "comment", "cpus-per-task", "export", "job-name", "mem", "nodes", "no-requeue", "ntasks", "parsable",
    "requeue", "signal", "test-only", "time", "wait", "wrap",
)  # fmt: skip
"""Options of sbatch that the manager gives, or that it could not work with."""

_OPTION = re.compile(r"--([a-z][a-z0-9-]*)(?:=.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SlurmTerms:
    """The terms of jobs. ``options``: further arguments of sbatch. None: as Slurm is configured."""

    job_name: str
    address: str
    grace_seconds: float
    cpus_per_worker: int = 1
    memory_per_worker: int | None = None
    time_limit_seconds: float | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    output: str | None = None
    options: tuple[str, ...] = ()


def sbatch_options(text: str) -> tuple[str, ...]:
    """The options in a text that is written as for a shell. Raises ValueError."""
    words = tuple(shlex.split(text))
    for word in words:
        match = _OPTION.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is not an option of sbatch. Give options as --name=value.")
        if match[1] in _RESERVED:
            raise ValueError(f"--{match[1]} is set by the manager itself. Leave it out.")
    return words


def submit_arguments(terms: SlurmTerms, workers: int, jobs: int) -> list[str]:
    """The arguments of sbatch for this many jobs with this many workers each. The script is its input."""
    named = {
        "job-name": terms.job_name,
        "comment": job_comment(workers, terms.address),
        "nodes": 1,
        "ntasks": 1,
        "cpus-per-task": workers * terms.cpus_per_worker,
        "mem": _mebibytes(terms.memory_per_worker, workers),
        "time": _minutes(terms.time_limit_seconds),
        "signal": f"B:TERM@{notice_seconds(terms.grace_seconds)}",
        "export": "ALL",
        "partition": terms.partition,
        "account": terms.account,
        "qos": terms.qos,
        "output": terms.output,
        "array": f"0-{jobs - 1}" if jobs > 1 else None,
    }
    given = [f"--{name}={value}" for name, value in named.items() if value is not None]
    return ["--parsable", "--requeue", *given, *terms.options]


def notice_seconds(grace_seconds: float) -> int:
    """Return how long before its time limit a job is told to drain."""
    return min(math.ceil(grace_seconds + SIGNAL_MARGIN_SECONDS), _LONGEST_NOTICE_SECONDS)


def job_script(command: Sequence[str], setup: str | None) -> str:
    """The script of a job that runs the command. SIGTERM, which Slurm sends to the script, and the manager's signal end
    the command in good order. Further signals are ignored: a second one would end the command at once. ``setup``:
    commands of the shell that run before."""
    lines = [
        "#!/bin/sh",
        *([setup, ""] if setup else []),
        "stopped=",
        "ended=",
        "child=",
        'end() { test -n "$ended" || test -z "$child" || kill -TERM "$child" 2>/dev/null; ended=yes; }',
        "trap 'stopped=yes; end' TERM",
        f"trap end {STOP_SIGNAL}",
        f"{shlex.join(command)} &",
        "child=$!",
        'test -z "$ended" || kill -TERM "$child" 2>/dev/null',
        "while",
        '    wait "$child"',
        "    code=$?",
        '    kill -0 "$child" 2>/dev/null',
        "do :; done",
        f'test -z "$stopped" || test "$code" != 0 || code={STOPPED_CODE}',
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"


def _mebibytes(size_bytes: int | None, workers: int) -> str | None:
    return None if size_bytes is None else f"{math.ceil(workers * size_bytes / _MEBIBYTE)}M"


def _minutes(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds / 60)
