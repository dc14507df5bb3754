"""The commands of Slurm, each with a bound in time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scaler_protocol.command import BadInput

ANSWER_SECONDS = 20.0

_PROGRAMS = ("sbatch", "squeue", "scancel")
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
_CHANGING = ("SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV")
"""A user's defaults for sbatch hold for jobs, except for these."""

_FOREIGN = ("SLURM_", "SQUEUE_", "SCANCEL_")

_EXPORTED = (
    "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH", "SCALER_HOME", "SCALER_KEYS", "SHELL",
    "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip


class SlurmAnswer(NamedTuple):
    """``complaint``: what the command wrote to stderr if it failed, or why it could not run."""

    output: str
    complaint: str | None = None


def check_programs() -> None:
    """Raises BadInput when this host has no commands of Slurm."""
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        raise BadInput(
            f"Cannot use Slurm: this host has no program {missing[0]}. Run the manager on a login node of the cluster, "
            "or install slurm-client."
        )


def run_slurm(program: str, arguments: Sequence[str], script: str = "") -> SlurmAnswer:
    """``script``: the input of sbatch, whose job gets the environment of sbatch."""
    environment = job_environment(os.environ) if program == "sbatch" else command_environment(os.environ)
    try:
        done = subprocess.run(
            [program, *arguments],
            input=script,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=ANSWER_SECONDS,
            env=environment,
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        return SlurmAnswer("", f"{program} timed out after {ANSWER_SECONDS:g} s")
    except OSError as error:
        return SlurmAnswer("", f"{program} cannot be run: {error.strerror}")
    return SlurmAnswer(done.stdout, (done.stderr or f"exit code {done.returncode}") if done.returncode else None)


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that a job of Slurm, in which the manager itself may run, and a
    user's defaults of screens set."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or (not name.startswith(_FOREIGN) and name != "SBATCH_ARRAY_INX")
    }


def job_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that jobs get: where programs and keys are found, and no others. A list for
    ``--export`` would make Slurm load the login environment of the user as well."""
    names = {*_EXPORTED, *_KEPT}
    return {
        name: value
        for name, value in environment.items()
        if name in names or (name.startswith("SBATCH_") and name not in _CHANGING)
    }
