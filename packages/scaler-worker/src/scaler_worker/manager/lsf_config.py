"""The settings of ``scaler_worker_manager lsf``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import option
from scaler_worker.manager.batch_config import BatchSettings
from scaler_worker.manager.core.batch_system import BatchSystem
from scaler_worker.manager.core.lsf import LSF, bsub_options


def _bsub_options(text: str) -> str:
    bsub_options(text)
    return text


@dataclass(frozen=True, kw_only=True)
class LSFSettings(BatchSettings):
    """The options of the kind ``lsf``, besides those of every batch system."""

    queue: str | None = option(
        None, metavar="NAME", default_text="LSF's default", help="Submit the jobs to this queue."
    )
    project: str | None = option(
        None, metavar="NAME", default_text="LSF's default", help="Submit the jobs for this project."
    )
    bsub_options: str | None = option(
        None,
        metavar="OPTIONS",
        parse=_bsub_options,
        default_text="none",
        help="Pass these further options to bsub, such as '-gpu num=1'.",
    )

    @staticmethod
    def system() -> BatchSystem:
        return LSF

    def system_options(self) -> tuple[str, ...]:
        queue = ("-q", self.queue) if self.queue is not None else ()
        project = ("-P", self.project) if self.project is not None else ()
        return (*queue, *project, *bsub_options(self.bsub_options or ""))
