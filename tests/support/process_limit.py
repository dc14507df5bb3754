"""Processes of a user who may have only a few processes and threads. Root is exempt from such a limit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import child_environment

_PROGRAMS = ("setpriv", "prlimit")
needs_users = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, _PROGRAMS)), reason="only root can become a user without processes"
)

_CAPABILITY = "-all,+dac_read_search"
"""The user must read this Python, which may be root's."""


class LimitedUser:
    """A user who has no other processes. ``environment`` is for all of his processes; his home is in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.id = 100_000 + os.getpid()
        home = folder / "home"
        home.mkdir(mode=0o700)
        os.chown(home, self.id, self.id)
        self.environment = child_environment(HOME=str(home), SCALER_HOME=str(home), TMPDIR=str(home))
        self.environment.pop("XDG_RUNTIME_DIR", None)

    def command(self, limit: int, arguments: list[str]) -> list[str]:
        """A command line that runs ``arguments`` as this user. It starts neither a process nor a thread when the user
        has ``limit`` of them, until ``allow`` is called."""
        user = ["setpriv", "--reuid", str(self.id), "--regid", str(self.id), "--clear-groups"]
        rights = [f"--{kind}={_CAPABILITY}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
        return [*user, *rights, "prlimit", f"--nproc={limit}:", *arguments]

    def allow(self, pid: int, limit: int) -> None:
        """Let this process of the user, and those that it starts, start others."""
        subprocess.run(self.command(limit, ["prlimit", f"--pid={pid}", f"--nproc={limit}:"]), check=True, timeout=60)
