"""The kind ``ssh``: jobs are processes on other hosts, each at the end of a connection of its own."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from scaler_protocol.command import BadInput, current_parent, settings_arguments
from scaler_worker import __version__
from scaler_worker.config import ClusterSettings
from scaler_worker.manager.backend import StartError
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.retries import RetryPause
from scaler_worker.manager.core.ssh_failures import (
    explain_end,
    explain_failure,
    explain_python,
    explain_refusal,
    explain_unstopped,
    explain_version,
)
from scaler_worker.manager.core.ssh_hosts import RemoteHost, assign
from scaler_worker.manager.shell.ssh_connection import ALIVE_SECONDS, SSHConnection
from scaler_worker.manager.shell.ssh_keys import keys_for_workers
from scaler_worker.manager.ssh_config import SSHSettings

START_SECONDS = 45.0
"""A job whose workers do not run after this long is given up and tried again."""

SHORTEST_SILENCE_SECONDS = 3 * ALIVE_SECONDS
"""A job waits at least this long for a word of its manager."""

END_SECONDS = 15.0
"""A job that does not end this long after its grace time is ended at once."""


class SSHBackend:
    """A job belongs to a host until it is stopped. When it fails, it is tried again on the same host after a pause of
    its own, so that a host that is lost does not delay the others. When the first attempts on all hosts have failed, a
    manager that a script has started gives up while the script waits for it, so that the script gets the reason."""

    def __init__(self, settings: SSHSettings) -> None:
        self._settings = settings
        self._hosts = {each.text: each for each in settings.remote_hosts}
        self._capacities = settings.host_capacities
        self._jobs: dict[str, RemoteJob] = {}
        self._count = 0
        self._gives_up = current_parent() is not None and (not settings.scales or settings.minimum_workers > 0)
        if shutil.which("ssh") is None:
            raise BadInput("Cannot run ssh: this host has no such program. Install openssh-client.")
        settings.check_ssh_config()
        keys_for_workers(settings.address)  # what is wrong with them is said at once

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        used = {name: sum(job.workers for job in self._jobs.values() if job.host.text == name) for name in self._hosts}
        shares = assign(n, self._capacities, used)
        if not shares:
            raise StartError(f"All hosts have as many workers as they may: {sum(self._capacities.values())}.")
        most = self._settings.most_per_job
        return [
            self._start_one(name, min(most, workers - begin), capabilities)
            for name, workers in shares.items()
            for begin in range(0, workers, most)
        ]

    def stop(self, ids: Sequence[str]) -> None:
        for each in ids:
            if each in self._jobs:
                self._jobs[each].stop(time.monotonic())

    def list(self) -> Sequence[Job]:
        now = time.monotonic()
        found = []
        for id, job in list(self._jobs.items()):
            state = job.observe(now)
            if state is None or state is JobState.DISMISSED:
                del self._jobs[id]
            if state is not None:
                found.append(Job(id, job.workers, state))
        self._give_up(found)
        return found

    def close(self) -> None:
        """Nothing is left."""

    def why_not(self) -> Sequence[str]:
        now = time.monotonic()
        return [sentence for job in self._jobs.values() if (sentence := job.why_not(now))]

    def _give_up(self, jobs: Sequence[Job]) -> None:
        if any(job.state is JobState.RUNNING for job in jobs):
            self._gives_up = False
        reasons = [job.reason for job in self._jobs.values() if job.reason]
        if self._gives_up and reasons and len(reasons) == len(self._jobs):
            raise BadInput(" ".join(reasons))

    def _start_one(self, name: str, workers: int, capabilities: Sequence[str]) -> Job:
        self._count += 1
        id = f"{name}-{self._count}"
        self._jobs[id] = RemoteJob(self._hosts[name], workers, self._settings, capabilities)
        return Job(id, workers, self._jobs[id].observe(time.monotonic()) or JobState.STARTING)


class RemoteJob:
    """Workers on one host, and the attempts to run them. ``reason``: why the last one failed, until one succeeds."""

    def __init__(self, host: RemoteHost, workers: int, settings: SSHSettings, capabilities: Sequence[str]) -> None:
        self.host = host
        self.workers = workers
        self._settings = settings
        self._capabilities = tuple(capabilities)
        self._connection: SSHConnection | None = None
        self._pause = RetryPause()
        self.reason = ""
        self._hangs = False
        self._stopped_at: float | None = None

    def observe(self, now: float) -> JobState | None:
        """None: it was stopped, and has ended."""
        if self._connection is None:
            if self._stopped_at is not None:
                return None
            if self._pause.remaining_seconds(now) <= 0:
                self._connect(now)
            return JobState.STARTING
        if self._connection.exit_code is not None:
            return self._on_end(self._connection, now)
        self._connection.keep_alive(now)
        self._end_what_hangs(self._connection, now)
        if not self._connection.facts.get("ready"):
            return JobState.STARTING
        self.reason = ""
        return JobState.RUNNING

    def stop(self, now: float) -> None:
        self._stopped_at = now
        if self._connection is not None:
            self._connection.stop()

    def why_not(self, now: float) -> str:
        if self._stopped_at is not None:
            waited_seconds = now - self._stopped_at
            return explain_unstopped(waited_seconds, self._silence_seconds, self.host.text) if self._hangs else ""
        if not self.reason:
            return ""
        missing = "1 worker is" if self.workers == 1 else f"{self.workers} workers are"
        pause = self._pause.remaining_seconds(now)
        return f"{missing} missing: {self.reason} The next attempt is in {pause:.0f} s."

    def _connect(self, now: float) -> None:
        self._pause.on_started(now)
        self._hangs = False
        try:
            self._connection = SSHConnection(
                self.host, self._settings.ssh_config, self._settings.remote_python, self._order()
            )
        except OSError as error:
            self._fail(f"Cannot run ssh: {error.strerror}. Give this host more memory or processes.", now)
        except BadInput as error:  # of keys that were changed
            self._fail(str(error), now)

    def _order(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(ClusterSettings)]
        values = {name: getattr(self._settings, name) for name in names}
        values |= {"num_of_workers": self.workers, "per_worker_capabilities": self._capabilities}
        return {
            "address": self._settings.address,
            "arguments": settings_arguments(ClusterSettings, values),
            "keys": keys_for_workers(self._settings.address),
            "silence_seconds": self._silence_seconds,
        }

    @property
    def _silence_seconds(self) -> float:
        return max(self._settings.death_timeout_seconds, SHORTEST_SILENCE_SECONDS)

    def _end_what_hangs(self, connection: SSHConnection, now: float) -> None:
        if self._stopped_at is not None:
            if now - self._stopped_at >= self._settings.grace_seconds + END_SECONDS:
                self._hangs = True
                connection.end()
        elif not connection.facts.get("ready") and now - connection.started_at >= START_SECONDS:
            self._hangs = True
            connection.end()
        elif self._mismatch(connection):
            connection.end()

    def _on_end(self, connection: SSHConnection, now: float) -> JobState | None:
        self._connection = None
        connection.close()
        if self._stopped_at is not None:
            return None
        if connection.facts.get("ended") == 0:
            return JobState.DISMISSED
        self._fail(self._explained(connection, None if self._hangs else connection.exit_code), now)
        return JobState.STARTING

    def _explained(self, connection: SSHConnection, exit_code: int | None) -> str:
        facts, text = connection.facts, self.host.text
        if "failed" in facts:
            return explain_refusal(facts["failed"], text)
        if "ended" in facts:
            return explain_end(facts["ended"], connection.complaint, text)
        return self._mismatch(connection) or explain_failure(
            connection.output, exit_code, self.host, self._settings.remote_python or "python3", __version__
        )

    def _mismatch(self, connection: SSHConnection) -> str | None:
        """Return why the Python there cannot run these jobs."""
        facts, text = connection.facts, self.host.text
        python = self._settings.remote_python or "python3"
        if "python" in facts:
            reason = explain_python(facts["python"], sys.version_info[:2], text)
            if reason is not None:
                return reason
        return explain_version(facts["version"], __version__, text, python) if "version" in facts else None

    def _fail(self, reason: str, now: float) -> None:
        self.reason = reason
        self._pause.on_failed(now)
