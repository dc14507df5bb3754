"""The loop of a worker manager: it observes the jobs, calls the core, and carries out its effects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scaler_protocol.command import BadInput, current_parent, install_stop_signals
from scaler_protocol.command.service_manager import notify
from scaler_protocol.limits import REASONS_LIMIT
from scaler_protocol.messages import ManagerReport
from scaler_worker.manager.backend import ListError, StartError, WorkerBackend
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.jobs import JobState, StartWorkers
from scaler_worker.manager.core.manager import ManagerCore
from scaler_worker.manager.shell.connection import ManagerConnection

_STOPPING_SECONDS = 0.05
"""The interval between two observations while jobs end."""

ABANDONED_SECONDS = 60.0
"""A manager whose script is gone ends this long after the grace time of its jobs, also if some of them have not."""

_T = TypeVar("_T")


class ManagerLoop:
    """The backend's functions run in one thread of their own, so that signals are noticed while they block.

    ``connection``: to the scheduler, which is told what runs and why workers are missing, and tells a manager that
    follows the load how many workers to run.
    ``waits_for_job``: the script that started the manager, if one did, waits until a job runs. ``outlives_manager``:
    the jobs do not end with the manager, so that it ends them when that script is gone.
    ``on_ending`` is called once no job will be started, perhaps several times."""

    def __init__(
        self,
        core: ManagerCore,
        backend: WorkerBackend,
        settings: ManagerSettings,
        name: str,
        connection: ManagerConnection,
        waits_for_job: bool = False,
        outlives_manager: bool = False,
        on_ending: Callable[[], None] = lambda: None,
    ) -> None:
        self._core = core
        self._backend = backend
        self._settings = settings
        self._name = name
        self._connection = connection
        self._waits_for_job = waits_for_job
        self._patience_seconds = settings.grace_seconds + ABANDONED_SECONDS if outlives_manager else 0.0
        self._on_ending = on_ending
        self._changed = asyncio.Event()
        self._stopped = False
        self._began = False  # the first turn is over
        self._reasons: list[str] = []
        self._told: list[str] = []
        self._status = ""
        self._thread = ThreadPoolExecutor(1, "backend")

    async def run(self) -> None:
        """Return when a signal asked for the end, or the scheduler has ended, and no job is left."""
        loop = asyncio.get_running_loop()
        install_stop_signals(loop, self._on_stop, parent_patience_seconds=self._patience_seconds)
        self._speaking = asyncio.create_task(self._connection.run(self._report, self._on_session))
        try:
            await self._run_turns()
            if not self._connection.session.is_name_taken:
                await self._blocking(self._backend.close)
        finally:
            self._thread.shutdown()
            self._speaking.cancel()
            await asyncio.wait([self._speaking])

    async def _run_turns(self) -> None:
        while not self._core.finished:
            await self._turn()
            await self._pause()

    async def _turn(self) -> None:
        await self._observe()
        for effect in self._core.take_effects(time.monotonic()):
            if isinstance(effect, StartWorkers):
                await self._start(effect.count)
            else:
                await self._blocking(self._backend.stop, effect.ids)
        self._began = True
        if self._core.ending:
            self._on_ending()
        self._report_ready()
        self._report_status()
        self._reasons = [*self._core.why_not(time.monotonic()), *await self._blocking(self._backend.why_not)]
        self._tell()

    async def _observe(self) -> None:
        try:
            jobs = await self._blocking(self._backend.list)
        except ListError as error:
            self._core.on_unobserved(str(error), time.monotonic())
        else:
            self._core.on_observed(jobs, time.monotonic())

    async def _start(self, count: int) -> None:
        """Start workers. A job that can never be started ends the manager in its first turn only. Later, tasks may wait
        for the workers, and no one looks at the exit code of the manager: it stays, so that ``explain`` can say why."""
        try:
            jobs = await self._blocking(self._backend.start, count, self._settings.per_worker_capabilities)
        except StartError as error:
            self._core.on_start_failed(str(error), time.monotonic(), error.wait_seconds)
        except BadInput as error:
            if not self._began:
                raise
            self._core.on_start_failed(str(error), time.monotonic())
        else:
            self._core.on_started(jobs, time.monotonic())

    async def _blocking(self, function: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _report_ready(self) -> None:
        parent = current_parent()
        runs = any(job.state is JobState.RUNNING for job in self._core.jobs)
        if parent is not None and (runs or not self._waits_for_job):
            parent.report_ready()

    def _report_status(self) -> None:
        """Tell the service manager that this command is ready, although workers may be missing."""
        running, starting = self._workers(JobState.RUNNING), self._workers(JobState.STARTING)
        status = f"{running} workers are running, {starting} are starting"
        if status != self._status and not self._stopped:
            self._status = status
            notify(READY="1", STATUS=status)

    def _workers(self, state: JobState) -> int:
        return sum(job.workers for job in self._core.jobs if job.state is state)

    def _tell(self) -> None:
        """Log each reason once, not again while it holds."""
        causes = [each.partition(" The next attempt")[0] for each in self._reasons]
        for cause, reason in zip(causes, self._reasons, strict=True):
            if cause not in self._told:
                logging.log(logging.INFO if cause.endswith("starting.") else logging.WARNING, reason)
        self._told = causes

    async def _pause(self) -> None:
        """Wait until the core's deadline, a signal, or an order."""
        seconds = _STOPPING_SECONDS if self._stopped else max(0.0, self._core.next_deadline() - time.monotonic())
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            pass
        self._changed.clear()

    def _on_stop(self) -> None:
        self._core.on_stop()
        self._stop()

    def _stop(self) -> None:
        self._on_ending()
        self._stopped = True
        self._changed.set()

    # ---- the scheduler -----------------------------------------------------------------------------------------------

    def _on_session(self) -> None:
        """The scheduler has sent another order, or ended the session. A manager that needs no orders goes on without
        one."""
        session = self._connection.session
        if session.is_name_taken:
            logging.error(session.ended)
            self._core.on_name_taken()
            self._stop()
        elif session.is_refused and not self._settings.scales:
            logging.warning(f"The scheduler does not show the state of this manager: {session.ended}")
            self._speaking.cancel()
            self._core.on_name_granted()
        elif session.ended:
            logging.log(logging.ERROR if session.is_refused else logging.INFO, session.ended)
            self._on_stop()
        elif session.order is not None:
            self._core.on_order(session.order)
            self._changed.set()

    def _report(self) -> ManagerReport:
        settings = self._settings
        return ManagerReport(
            self._name,
            settings.capabilities,
            settings.minimum_workers,
            settings.maximum_workers or 0,
            settings.cost_per_worker_hour,
            settings.target_seconds,
            settings.cool_down_seconds,
            self._workers(JobState.STARTING),
            self._workers(JobState.RUNNING),
            tuple(self._reasons[:REASONS_LIMIT]),
        )
