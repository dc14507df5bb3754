"""The loop of a worker manager: it observes the jobs, calls the core, and carries out its effects."""

from __future__ import annotations

import asyncio
import logging
import time

from scaler_protocol.command import current_parent, install_stop_signals
from scaler_protocol.limits import REASONS_LIMIT
from scaler_protocol.messages import ManagerReport
from scaler_worker.manager.backend import StartError, WorkerBackend
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.core import ManagerCore
from scaler_worker.manager.core.jobs import JobState, StartWorkers
from scaler_worker.manager.shell.connection import ManagerConnection

_STOPPING_SECONDS = 0.05


class ManagerLoop:
    """``link``: the connection to the scheduler of a manager that follows the load; None: it keeps its number of
    workers."""

    def __init__(
        self,
        core: ManagerCore,
        backend: WorkerBackend,
        settings: ManagerSettings,
        name: str,
        link: ManagerConnection | None = None,
    ) -> None:
        self._core = core
        self._backend = backend
        self._settings = settings
        self._name = name
        self._link = link
        self._changed = asyncio.Event()
        self._stopped = False
        self._told: list[str] = []

    async def run(self) -> None:
        """Return when a signal asked for the end, or the scheduler has ended, and no job is left."""
        install_stop_signals(asyncio.get_running_loop(), self._on_stop)
        speaking = asyncio.create_task(self._link.run(self._report, self._on_link)) if self._link is not None else None
        while not self._core.finished:
            self._turn()
            await self._pause()
        if speaking is not None:
            speaking.cancel()
            await asyncio.wait([speaking])

    def _turn(self) -> None:
        self._core.on_observed(self._backend.list(), time.monotonic())
        for effect in self._core.take_effects(time.monotonic()):
            if isinstance(effect, StartWorkers):
                self._start(effect.count)
            else:
                self._backend.stop(effect.ids)
        parent = current_parent()
        if parent is not None:
            parent.report_ready()
        self._tell()

    def _start(self, count: int) -> None:
        try:
            jobs = self._backend.start(count, self._settings.per_worker_capabilities)
        except StartError as error:
            self._core.on_start_failed(str(error), time.monotonic())
        else:
            self._core.on_started(jobs, time.monotonic())

    def _tell(self) -> None:
        """Log each reason once, not again while it holds."""
        reasons = self._reasons()
        causes = [each.partition(" The next attempt")[0] for each in reasons]
        for cause, reason in zip(causes, reasons, strict=True):
            if cause not in self._told:
                logging.log(logging.WARNING if "missing" in cause else logging.INFO, reason)
        self._told = causes

    async def _pause(self) -> None:
        """Until the core's deadline, a signal, or an order."""
        self._changed.clear()
        seconds = _STOPPING_SECONDS if self._stopped else max(0.0, self._core.next_deadline() - time.monotonic())
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            pass

    def _on_stop(self) -> None:
        self._core.on_stop()
        self._stopped = True
        self._changed.set()

    # ---- the scheduler -----------------------------------------------------------------------------------------------

    def _on_link(self) -> None:
        """The scheduler has sent another order, or ended the session."""
        assert self._link is not None
        if self._link.session.ended:
            logging.log(logging.ERROR if self._link.session.is_refused else logging.INFO, self._link.session.ended)
            self._on_stop()
        elif self._link.session.order is not None:
            self._core.on_order(self._link.session.order)
            self._changed.set()

    def _report(self) -> ManagerReport:
        settings, jobs = self._settings, self._core.jobs
        return ManagerReport(
            self._name,
            settings.capabilities,
            settings.minimum_workers,
            settings.maximum_workers or 0,
            settings.cost_per_worker_hour,
            settings.target_seconds,
            settings.cool_down_seconds,
            sum(job.workers for job in jobs if job.state is JobState.STARTING),
            sum(job.workers for job in jobs if job.state is JobState.RUNNING),
            tuple(self._reasons()[:REASONS_LIMIT]),
        )

    def _reasons(self) -> list[str]:
        return [*self._core.why_not(time.monotonic()), *self._backend.why_not()]
