"""The environment of this process, which it enters before it imports anything of its first task."""

from __future__ import annotations

import importlib
import os
import site
import socket
import sys
import time

from scaler_protocol.shipping.environments import Environment, set_current_environment
from scaler_worker.package_cache import PackageFolder, acquire
from scaler_worker.worker_process.errors import EnvironmentUnusableError


class ProcessEnvironment:
    """The environment of this process, at most one until it ends: the agent gives it tasks of no other."""

    def __init__(self, worker_name: str) -> None:
        self._where = f"on worker {worker_name}" if worker_name else "on the worker"
        self._text = ""
        self._is_closed = False
        self._packages: PackageFolder | None = None

    def enter(self, text: str) -> None:
        """Raises EnvironmentUnusableError; then it may be tried again."""
        if text == self._text:
            return
        if self._is_closed:
            raise EnvironmentUnusableError(
                f"Cannot enter the environment {self._where}: its process has run other tasks."
            )
        environment = Environment.from_text(text)
        if environment.working_directory:
            self._change_directory(environment.working_directory)
        if environment.requirements:
            self._packages = self._find_packages(environment.requirements)
        os.environ.update(environment.variables)
        if self._packages is not None:
            _add_packages(self._packages.path)
        if "TZ" in environment.variables:
            time.tzset()
        self._text = text
        set_current_environment(text)

    def close(self) -> None:
        """A function is about to be loaded: from now on this process enters no other environment."""
        self._is_closed = True

    def _change_directory(self, path: str) -> None:
        try:
            os.chdir(path)
        except OSError as error:
            raise EnvironmentUnusableError(
                f"Cannot use the working directory {path} on {socket.gethostname()}: {error.strerror}. Create it on "
                "each host."
            ) from None

    def _find_packages(self, requirements: tuple[str, ...]) -> PackageFolder:
        """They stay there as long as this process has them."""
        try:
            found = acquire(requirements)
        except OSError as error:
            raise EnvironmentUnusableError(f"Cannot use packages {self._where}: {error}.") from None
        if found is None:
            raise EnvironmentUnusableError(f"Cannot use packages {self._where}: they were removed. Submit it again.")
        return found


def _add_packages(folder: str) -> None:
    """They come before the packages of the host, and behind the standard library, here and in child processes."""
    before = set(sys.path)
    site.addsitedir(folder)
    added = [each for each in sys.path if each not in before]
    others = [each for each in sys.path if each in before]
    place = next((index for index, each in enumerate(others) if _holds_packages(each)), len(others))
    sys.path[:] = [*others[:place], *added, *others[place:]]
    importlib.invalidate_caches()
    for name, path in (("PYTHONPATH", folder), ("PATH", os.path.join(folder, "bin"))):
        known = os.environ.get(name)
        os.environ[name] = path + os.pathsep + known if known else path


def _holds_packages(path: str) -> bool:
    return os.path.basename(path) in ("site-packages", "dist-packages")
