"""The child process of an agent that installs the packages of an environment, with uv or pip.

``python -m scaler_worker.package_installation AGENT_PID KEPT REQUIREMENT...`` prints ``installed``, or why it failed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from scaler_protocol.command import restore_environment
from scaler_protocol.command.inherited import restore_signals
from scaler_worker.package_cache import fill, remove_unused
from scaler_worker.system import die_with_parent

INSTALLED = "installed"
_TEMPORARY = ".temporary"
_REQUIREMENTS_CHARACTERS = 200
_LIMIT = 1000
_ERROR = "ERROR:"
_UNHELPFUL = ("ERROR: Exception:", "ERROR: ResolutionImpossible:")
"""A traceback follows the first one, and the other one follows what the requirements contradict."""

_RETRIED = "after connection broken by"
_UV_ERROR, _UV_CAUSE = "error:", "cause:"
_PIP_PROBLEM = re.compile(r"error: [a-z]+(-[a-z]+)+")
"""The name of a problem, in newer versions of pip. Its text and its cause follow."""

_PIP_CAUSE = re.compile(r"╰─> (?!\[\d+ lines of output\])(.*)")
_DECORATION = " \t×╰─▶│├→"


class InstallationError(Exception):
    """Its text is the last line of the installer."""


def install(requirements: Sequence[str], folder: str) -> None:
    """Install packages, and what they need, into ``folder``. Raises InstallationError or OSError."""
    temporary = os.path.join(folder, _TEMPORARY)
    os.mkdir(temporary)
    done = subprocess.run(
        [*installer(), "--target", folder, "--", *requirements],
        cwd="/",
        env={**os.environ, "TMPDIR": temporary},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=partial(die_with_parent, os.getpid()),
        check=False,
    )
    if done.returncode:
        text = done.stdout.decode(errors="replace")
        sys.stderr.write(text)
        raise InstallationError(last_line(text) or f"the installer ended with code {done.returncode}")
    shutil.rmtree(temporary, ignore_errors=True)


def installer() -> list[str]:
    """The beginning of the command line. Raises InstallationError."""
    uv = shutil.which("uv", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--no-progress", "--python", sys.executable]
    pip = ["-m", "pip"] if find_spec("pip") is not None else _bundled_pip()
    return [
        sys.executable, "-P", *pip, "install", "--quiet", "--disable-pip-version-check", "--no-input",
        "--no-warn-script-location", "--progress-bar", "off",
    ]  # fmt: skip


def _bundled_pip() -> list[str]:
    """The pip that Python itself brings along, for new virtual environments."""
    found = find_spec("ensurepip")
    folders = found.submodule_search_locations if found is not None else None
    wheels = [each for folder in folders or () for each in glob.glob(os.path.join(folder, "_bundled", "pip-*.whl"))]
    if not wheels:
        raise InstallationError("neither uv nor pip is on this host. Install one of them")
    return [os.path.join(max(wheels), "pip")]


def last_line(text: str) -> str:
    """Return the last line of an installer: of pip, the last line that names an error, which does not say that an index
    did not answer, or the text of a problem and its cause; of uv, the error and its last cause; otherwise the last
    line."""
    lines = [line.strip(_DECORATION) for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("[notice]")]
    found = [line for line in lines if line.startswith(_ERROR) and not line.startswith(_UNHELPFUL)][-1:]
    problem = [] if found else _pip_problem(text)
    if not found and not problem:
        found = [line for line in lines if line.startswith(_UV_ERROR)][-1:]
        found += [line for line in lines if found and line.startswith(_UV_CAUSE)][-1:]
    reasons = [line.partition(":")[2].strip() for line in found] or problem or lines[-1:]
    if any(_RETRIED in line for line in lines):
        reasons.append("a package index or address did not answer")
    return ": ".join(reasons)[:_LIMIT]


def _pip_problem(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = [place for place, line in enumerate(lines[:-1]) if _PIP_PROBLEM.fullmatch(line)]
    if not names:
        return []
    following = lines[names[-1] + 1 :]
    causes = [cause[1] for line in following if (cause := _PIP_CAUSE.fullmatch(line))]
    return [following[0].strip(_DECORATION), *causes[:1]]


def failure_text(requirements: Sequence[str], reason: str) -> str:
    names = ", ".join(requirements)
    if len(names) > _REQUIREMENTS_CHARACTERS:
        names = names[:_REQUIREMENTS_CHARACTERS] + "..."
    remedy = "Correct the requirements, or what uv and pip are told on this host."
    return f"Cannot install {names} on {socket.gethostname()}: {reason.rstrip('.')}. {remedy}"


def main() -> None:
    restore_environment()
    restore_signals()
    die_with_parent(int(sys.argv[1]))
    kept, requirements = int(sys.argv[2]), sys.argv[3:]
    try:
        fill(requirements, partial(install, requirements))
        text = INSTALLED
    except InstallationError as error:
        text = failure_text(requirements, str(error))
    except OSError as error:
        text = failure_text(requirements, error.strerror or str(error))
    remove_unused(kept)
    print(text, flush=True)


if __name__ == "__main__":
    main()
