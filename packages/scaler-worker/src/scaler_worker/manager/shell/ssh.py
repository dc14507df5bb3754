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
    is_lasting_failure,
)
from scaler_worker.manager.core.ssh_hosts import RemoteHost, assign
from scaler_worker.manager.shell.ssh_connection import ALIVE_SECONDS, SSHConnection
from scaler_worker.manager.shell.ssh_keys import keys_for_workers
from scaler_worker.manager.ssh_config import SSHSettings
from scaler_worker.termination_notice import STOPPED_CODE

START_SECONDS = 45.0
"""A job whose workers do not run after this long is given up and tried again."""

SHORTEST_SILENCE_SECONDS = 3 * ALIVE_SECONDS
"""A job waits at least this long for a word of its manager."""

END_SECONDS = 15.0
"""A job that does not end this long after its grace time is ended at once."""


class HostRecord:
    """The failures of a host. ``reason``: why the last attempt to run workers there failed, until one succeeds. Until
    then, one job at a time is tried, after a pause."""

    def __init__(self) -> None:
        self.reason = ""
        self.pause = RetryPause()
        self._tried: RemoteJob | None = None

    def may_try(self, job: RemoteJob, now: float) -> bool:
        """Return whether a job may begin an attempt now; then it does."""
        if self.pause.remaining_seconds(now) > 0 or (self.reason and self._tried is not None):
            return False
        self._tried = job
        self.pause.on_started(now)
        return True

    def on_ready(self) -> None:
        self.reason = ""

    def on_failed(self, reason: str, now: float, is_lasting: bool = False) -> None:
        """Failures during the pause, as of jobs that were started together, count once."""
        self.reason = reason
        if self.pause.remaining_seconds(now) <= 0:
            self.pause.on_failed(now, is_lasting=is_lasting)

    def on_end(self, job: RemoteJob) -> None:
        """An attempt is over."""
        if self._tried is job:
            self._tried = None


class SSHBackend:
    """A job belongs to a host. When it fails, and another host without failures has room, it is withdrawn, so that
    others are started there at once. Otherwise it is tried again on its host after a pause, so that a host that is lost
    does not delay the others. When the first attempts on all hosts have failed, a manager that a script has started
    gives up while the script waits for it, so that the script gets the reason."""

    def __init__(self, settings: SSHSettings) -> None:
        self._settings = settings
        self._hosts = {each.text: each for each in settings.remote_hosts}
        self._capacities = settings.host_capacities
        self._records = {name: HostRecord() for name in self._hosts}
        self._jobs: dict[str, RemoteJob] = {}
        self._count = 0
        self._gives_up = current_parent() is not None and (not settings.scales or settings.minimum_workers > 0)
        if shutil.which("ssh") is None:
            raise BadInput("Cannot run ssh: this host has no such program. Install openssh-client.")
        settings.check_ssh_config()
        keys_for_workers(settings.address)  # what is wrong with them is said at once

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        good = {name: limit for name, limit in self._capacities.items() if not self._records[name].reason}
        shares = assign(n, good, self._used())
        others = {name: limit for name, limit in self._capacities.items() if name not in good}
        shares |= assign(n - sum(shares.values()), others, self._used())
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
        jobs = self._withdraw(found)
        self._give_up(jobs)
        return jobs

    def _used(self) -> dict[str, int]:
        """Return how many workers run, start or wait on each host."""
        return {name: sum(job.workers for job in self._jobs.values() if job.host.text == name) for name in self._hosts}

    def _withdraw(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Give up jobs that wait for another attempt, as many as other hosts have room for."""
        used = self._used()
        room = sum(limit - used[name] for name, limit in self._capacities.items() if not self._records[name].reason)
        found = []
        for job in jobs:
            if job.id in self._jobs and self._jobs[job.id].waits and room > 0:
                room -= job.workers
                del self._jobs[job.id]
                job = Job(job.id, job.workers, JobState.WITHDRAWN)
            found.append(job)
        return found

    def close(self) -> None:
        """Nothing is left."""

    def why_not(self) -> Sequence[str]:
        now = time.monotonic()
        hanging = [sentence for job in self._jobs.values() if (sentence := job.why_not_ended(now))]
        return [*hanging, *(self._why_not_on(name, now) for name in self._hosts if self._records[name].reason)]

    def _why_not_on(self, name: str, now: float) -> str:
        record = self._records[name]
        missing = sum(job.workers for job in self._jobs.values() if job.host.text == name and job.is_missing)
        if not missing:
            return f"{record.reason} Other hosts are used instead."
        pause = record.pause.remaining_seconds(now)
        workers = "1 worker is" if missing == 1 else f"{missing} workers are"
        return f"{workers} missing: {record.reason} The next attempt is in {pause:.0f} s."

    def _give_up(self, jobs: Sequence[Job]) -> None:
        if any(job.state is JobState.RUNNING for job in jobs):
            self._gives_up = False
        if self._gives_up and self._jobs and all(job.has_failed for job in self._jobs.values()):
            raise BadInput(" ".join(record.reason for record in self._records.values() if record.reason))

    def _start_one(self, name: str, workers: int, capabilities: Sequence[str]) -> Job:
        self._count += 1
        id = f"{name}-{self._count}"
        self._jobs[id] = RemoteJob(self._hosts[name], workers, self._settings, capabilities, self._records[name])
        return Job(id, workers, self._jobs[id].observe(time.monotonic()) or JobState.STARTING)


class RemoteJob:
    """Workers on one host, and the attempts to run them. ``record``: of the host."""

    def __init__(
        self,
        host: RemoteHost,
        workers: int,
        settings: SSHSettings,
        capabilities: Sequence[str],
        record: HostRecord,
    ) -> None:
        self.host = host
        self.workers = workers
        self._settings = settings
        self._capabilities = tuple(capabilities)
        self._connection: SSHConnection | None = None
        self._record = record
        self._is_ready = False
        self.has_failed = False
        """The last attempt has failed, and none has succeeded since."""
        self._hangs = False
        self._stopped_at: float | None = None

    @property
    def is_missing(self) -> bool:
        """Its workers should run, and do not."""
        return self._stopped_at is None and not self._is_ready

    @property
    def waits(self) -> bool:
        """It waits for an attempt on a host that has failed."""
        return self._stopped_at is None and self._connection is None and bool(self._record.reason)

    def observe(self, now: float) -> JobState | None:
        """None: it was stopped, and has ended."""
        if self._connection is None:
            if self._stopped_at is not None:
                return None
            if self._record.may_try(self, now):
                self._connect(now)
            return JobState.STARTING
        if self._connection.exit_code is not None:
            return self._on_end(self._connection, now)
        self._connection.keep_alive(now)
        self._end_what_hangs(self._connection, now)
        if not self._connection.facts.get("ready"):
            return JobState.STARTING
        if not self._is_ready:
            self._is_ready, self.has_failed = True, False
            self._record.on_end(self)
            self._record.on_ready()
        return JobState.RUNNING

    def stop(self, now: float) -> None:
        self._stopped_at = now
        if self._connection is not None:
            self._connection.stop()

    def why_not_ended(self, now: float) -> str:
        """Say that it was stopped and does not end; empty otherwise."""
        if self._stopped_at is None or not self._hangs:
            return ""
        return explain_unstopped(now - self._stopped_at, self._silence_seconds, self.host.text)

    def _connect(self, now: float) -> None:
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
        self._connection, self._is_ready = None, False
        self._record.on_end(self)
        connection.close()
        if self._stopped_at is not None:
            return None
        if connection.facts.get("ended") == 0:
            return JobState.DISMISSED
        exit_code = None if self._hangs else connection.exit_code
        self._fail(self._explained(connection, exit_code), now, self._is_lasting(connection, exit_code))
        return JobState.STARTING

    def _is_lasting(self, connection: SSHConnection, exit_code: int | None) -> bool:
        """Return whether a failure will not pass by itself."""
        facts = connection.facts
        if "failed" in facts:
            return bool(facts.get("refused"))
        if "ended" in facts:
            return facts["ended"] == STOPPED_CODE
        return self._mismatch(connection) is not None or is_lasting_failure(connection.output, exit_code)

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

    def _fail(self, reason: str, now: float, is_lasting: bool = False) -> None:
        self.has_failed = True
        self._record.on_end(self)
        self._record.on_failed(reason, now, is_lasting)
