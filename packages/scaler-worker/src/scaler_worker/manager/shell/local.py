"""The kind ``local``: jobs are child processes on this host."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scaler_protocol.command import BadInput, ChildCommand, settings_arguments
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.backend import StartError
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.termination_notice import STOPPED_CODE


class LocalCommand(NamedTuple):
    """The command of a job: its module, its arguments and its name."""

    module: str
    arguments: Sequence[str]
    name: str


def cluster_command(settings: ManagerSettings, workers: int, capabilities: Sequence[str]) -> LocalCommand:
    names = [field.name for field in dataclasses.fields(ClusterSettings)]
    values = {name: getattr(settings, name) for name in names}
    values |= {"num_of_workers": workers, "per_worker_capabilities": tuple(capabilities)}
    return LocalCommand("scaler_worker.cli", settings_arguments(ClusterSettings, values), "scaler_cluster")


class LocalBackend:
    """Runs a ``scaler_cluster`` of at most ``--workers-per-job`` workers as a job. It ends with the manager, however
    the manager ends. ``command``: another command that does the same."""

    def __init__(
        self,
        settings: ManagerSettings,
        command: Callable[[ManagerSettings, int, Sequence[str]], LocalCommand] = cluster_command,
    ) -> None:
        self._settings = settings
        self._command = command
        self._most_per_job = settings.most_per_job
        self._children: dict[str, tuple[ChildCommand, int]] = {}
        self._ready: set[str] = set()

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        jobs: list[Job] = []
        while n > 0:
            workers = min(n, self._most_per_job)
            try:
                jobs.append(self._start_one(workers, capabilities))
            except StartError:
                if not jobs:
                    raise
                break
            n -= workers
        return jobs

    def _start_one(self, workers: int, capabilities: Sequence[str]) -> Job:
        command = self._command(self._settings, workers, capabilities)
        child = ChildCommand(command.module, command.arguments)
        try:
            child.start()
        except OSError as error:
            raise StartError(
                f"Cannot start {command.name}: {error.strerror}. Give this host more memory, processes or descriptors."
            ) from None
        self._children[str(child.pid)] = (child, workers)
        return Job(str(child.pid), workers)

    def stop(self, ids: Sequence[str]) -> None:
        for each in ids:
            if each in self._children:
                self._children[each][0].terminate()

    def list(self) -> Sequence[Job]:
        jobs = [self._observed(each) for each in self._children]
        for job in jobs:
            if job.state in (JobState.FAILED, JobState.DISMISSED, JobState.EVICTED):
                child, _ = self._children.pop(job.id)
                child.join()
                self._ready.discard(job.id)
        return jobs

    def close(self) -> None:
        """Nothing is left."""

    def why_not(self) -> Sequence[str]:
        return ()

    def _observed(self, id: str) -> Job:
        child, workers = self._children[id]
        code = child.exit_code
        refusal = self._notice_ready(id, child)
        if code is None:
            return Job(id, workers, JobState.RUNNING if id in self._ready else JobState.STARTING)
        if code == 0:
            return Job(id, workers, JobState.DISMISSED)
        if code == STOPPED_CODE:
            return Job(id, workers, JobState.EVICTED)
        return Job(id, workers, JobState.FAILED, refusal or _end(code))

    def _notice_ready(self, id: str, child: ChildCommand) -> str:
        """Return why the child refused to start, or an empty text."""
        if id in self._ready:
            return ""
        try:
            child.wait_ready(0.0)
            self._ready.add(id)
        except BadInput as error:
            return f"refused to start: {str(error).rstrip('.')}"
        except (TimeoutError, RuntimeError):
            pass
        return ""


def _end(code: int) -> str:
    return f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
