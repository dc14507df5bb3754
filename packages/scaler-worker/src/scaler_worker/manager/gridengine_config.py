"""The settings of ``scaler_worker_manager gridengine``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from scaler_protocol.command import BadInput, option
from scaler_worker.manager.batch_config import BatchSettings
from scaler_worker.manager.core.batch_system import BatchSystem, BatchTerms
from scaler_worker.manager.core.gridengine import GRID_ENGINE, gridengine_options


def _qsub_options(text: str) -> str:
    gridengine_options(text)
    return text


@dataclass(frozen=True, kw_only=True)
class GridEngineSettings(BatchSettings):
    """The options of the kind ``gridengine``, besides those of every batch system."""

    queue: str | None = option(
        None, metavar="NAME", default_text="Grid Engine's choice", help="Submit the jobs to this queue."
    )
    project: str | None = option(
        None, metavar="NAME", default_text="Grid Engine's default", help="Submit the jobs for this project."
    )
    parallel_environment: str | None = option(
        None,
        metavar="NAME",
        default_text="none",
        help="Reserve the slots of a job with several CPUs in this parallel environment, which must keep them on one "
        "host.",
    )
    qsub_options: str | None = option(
        None,
        metavar="OPTIONS",
        parse=_qsub_options,
        default_text="none",
        help="Pass these further options to qsub, such as '-l gpu=1'.",
    )

    @staticmethod
    def system() -> BatchSystem:
        return GRID_ENGINE

    def system_options(self) -> tuple[str, ...]:
        queue = ("-q", self.queue) if self.queue is not None else ()
        project = ("-P", self.project) if self.project is not None else ()
        return (*queue, *project, *gridengine_options(self.qsub_options or ""))

    def terms(self) -> BatchTerms:
        count = self.maximum_workers if self.maximum_workers is not None else self.worker_count
        if self.parallel_environment is None and min(count, self.most_per_job) * self.cpus_per_worker > 1:
            raise BadInput(
                "Cannot reserve several slots of Grid Engine for a job without a parallel environment. Give "
                "--parallel-environment, such as smp, or --workers-per-job=1 and --cpus-per-worker=1."
            )
        return dataclasses.replace(super().terms(), parallel_environment=self.parallel_environment)
