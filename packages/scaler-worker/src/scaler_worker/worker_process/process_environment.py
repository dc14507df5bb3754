"""The environment of this process, which it enters before it imports anything of its first task."""

from __future__ import annotations

import os
import time

from scaler_protocol.shipping.environments import Environment, set_current_environment
from scaler_worker.worker_process.errors import EnvironmentUnusableError


class ProcessEnvironment:
    """At most one environment, until the process ends: the agent gives it tasks of no other."""

    def __init__(self, worker_name: str) -> None:
        self._where = f"on worker {worker_name}" if worker_name else "on the worker"
        self._text = ""

    def enter(self, text: str) -> None:
        """Raises EnvironmentUnusableError; then it may be tried again."""
        if text == self._text:
            return
        if self._text:
            raise EnvironmentUnusableError(f"Cannot enter the environment {self._where}: its process has another one.")
        environment = Environment.from_text(text)
        if environment.requirements:
            raise EnvironmentUnusableError(f"Cannot install packages {self._where}: this version cannot do so yet.")
        if environment.working_directory:
            self._change_directory(environment.working_directory)
        os.environ.update(environment.variables)
        if "TZ" in environment.variables:
            time.tzset()
        self._text = text
        set_current_environment(text)

    def _change_directory(self, path: str) -> None:
        try:
            os.chdir(path)
        except OSError as error:
            raise EnvironmentUnusableError(
                f"Cannot use the working directory {path} {self._where}: {error.strerror}. Create it on each host."
            ) from None
