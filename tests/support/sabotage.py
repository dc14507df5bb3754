"""Faults built into real processes: a ``sitecustomize`` that they import when they start."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from tests.support.commands import child_environment


def sabotaged_environment(folder: Path, source: str, **extra: str) -> dict[str, str]:
    """An environment whose Python processes run ``source`` when they start. There ``module`` is the one that was named
    to ``python -m``, and ``first_time()`` is true once among all processes."""
    write_sabotage(folder, source)
    environment = child_environment(**extra)
    return {**environment, "PYTHONPATH": f"{folder}{os.pathsep}{environment['PYTHONPATH']}"}


def write_sabotage(folder: Path, source: str) -> None:
    """For processes that have ``folder`` in their path before all else."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_BEGINNING.format(mark=str(folder / "mark")) + textwrap.dedent(source))


_BEGINNING = """\
import os, sys
arguments = sys.orig_argv
module = arguments[arguments.index("-m") + 1] if "-m" in arguments else ""

def first_time():
    try:
        os.mkdir({mark!r})
    except FileExistsError:
        return False
    return True

"""
