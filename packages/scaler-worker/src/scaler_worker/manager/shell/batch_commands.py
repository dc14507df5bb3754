"""The commands of batch systems, each with a bound in time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from scaler_protocol.command import BadInput
from scaler_worker.manager.core.batch_system import BatchCall, BatchSystem

ANSWER_SECONDS = 20.0

_EXPORTED = (
    "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH", "SCALER_HOME", "SCALER_KEYS", "SHELL",
    "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip


class BatchAnswer(NamedTuple):
    """``complaint``: what the command wrote to stderr if it failed, or why it could not run."""

    output: str
    complaint: str | None = None


def check_programs(system: BatchSystem) -> None:
    """Raises BadInput when this host has no commands of the batch system."""
    missing = [each for each in system.programs if shutil.which(each) is None]
    if missing:
        install = f", or install {system.package}" if system.package else ""
        raise BadInput(
            f"Cannot use {system.title}: this host has no program {missing[0]}. Run the manager on a login node of the "
            f"cluster{install}."
        )


def run_batch(system: BatchSystem, call: BatchCall) -> BatchAnswer:
    """A command that gets a script submits a job, which gets its environment."""
    environment = (job_environment if call.script else command_environment)(system, os.environ)
    try:
        done = subprocess.run(
            [call.program, *call.arguments],
            input=call.script,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=ANSWER_SECONDS,
            env=environment,
            process_group=0,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="backslashreplace").strip()
        return BatchAnswer("", said or f"{call.program} timed out after {ANSWER_SECONDS:g} s")
    except OSError as error:
        return BatchAnswer("", f"{call.program} cannot be run: {error.strerror}")
    said = done.stderr or f"exit code {done.returncode}"
    return BatchAnswer(done.stdout, said if done.returncode else None)


def command_environment(system: BatchSystem, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that a job, in which the manager itself may run, and a user's
    defaults of screens set."""
    return {
        name: value
        for name, value in environment.items()
        if name in system.variables
        or (not name.startswith(system.foreign_variables) and name not in system.changing_variables)
    }


def job_environment(system: BatchSystem, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this process that jobs get: where programs and keys are found, a user's defaults for jobs, and
    no others."""
    names, prefix = {*_EXPORTED, *system.variables}, system.default_variables
    return {
        name: value
        for name, value in environment.items()
        if name in names or (prefix is not None and name.startswith(prefix) and name not in system.changing_variables)
    }
