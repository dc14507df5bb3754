"""The loop of a worker manager: it observes the jobs, calls the core, and carries out its effects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from scaler_protocol.command import current_parent, install_stop_signals
from scaler_worker.manager.backend import StartError, WorkerBackend
from scaler_worker.manager.core.core import ManagerCore
from scaler_worker.manager.core.jobs import StartWorkers


class ManagerLoop:
    def __init__(self, core: ManagerCore, backend: WorkerBackend, capabilities: Sequence[str]) -> None:
        self._core = core
        self._backend = backend
        self._capabilities = tuple(capabilities)
        self._stopped = asyncio.Event()
        self._told: list[str] = []

    async def run(self) -> None:
        """Return when a signal asked for the end, or the scheduler has ended, and no job is left."""
        install_stop_signals(asyncio.get_running_loop(), self._on_stop)
        while not self._core.finished:
            self._turn()
            await self._pause()

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
            jobs = self._backend.start(count, self._capabilities)
        except StartError as error:
            self._core.on_start_failed(str(error), time.monotonic())
        else:
            self._core.on_started(jobs, time.monotonic())

    def _tell(self) -> None:
        """Log each reason once, not again while it holds."""
        reasons = [*self._core.why_not(time.monotonic()), *self._backend.why_not()]
        causes = [each.partition(" The next attempt")[0] for each in reasons]
        for cause, reason in zip(causes, reasons, strict=True):
            if cause not in self._told:
                logging.log(logging.WARNING if "missing" in cause else logging.INFO, reason)
        self._told = causes

    async def _pause(self) -> None:
        """Until the core's deadline, or a signal."""
        seconds = 0.05 if self._stopped.is_set() else max(0.0, self._core.next_deadline() - time.monotonic())
        if self._stopped.is_set():
            await asyncio.sleep(seconds)
            return
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            pass

    def _on_stop(self) -> None:
        self._core.on_stop()
        self._stopped.set()
