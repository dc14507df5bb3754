"""The settings of ``scaler_worker_manager pbs``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from scaler_protocol.command import option
from scaler_worker.manager.batch_config import BatchSettings
from scaler_worker.manager.core.batch_system import BatchSystem, BatchTerms
from scaler_worker.manager.core.pbs import PBS, pbs_options


def _qsub_options(text: str) -> str:
    pbs_options(text)
    return text


@dataclass(frozen=True, kw_only=True)
class PBSSettings(BatchSettings):
    """The options of the kind ``pbs``, besides those of every batch system."""

    queue: str | None = option(
        None, metavar="NAME", default_text="PBS's default", help="Submit the jobs to this queue."
    )
    account: str | None = option(
        None, metavar="NAME", default_text="PBS's default", help="Charge this account for the jobs."
    )
    project: str | None = option(
        None, metavar="NAME", default_text="PBS's default", help="Submit the jobs for this project."
    )
    resources: str | None = option(
        None,
        metavar="RESOURCES",
        default_text="none",
        help="Reserve these further resources for each job, such as 'ngpus=1:model=fast'.",
    )
    qsub_options: str | None = option(
        None,
        metavar="OPTIONS",
        parse=_qsub_options,
        default_text="none",
        help="Pass these further options to qsub, such as '-l place=excl'.",
    )

    @staticmethod
    def system() -> BatchSystem:
        return PBS

    def system_options(self) -> tuple[str, ...]:
        named = {"-q": self.queue, "-A": self.account, "-P": self.project}
        given = [word for name, value in named.items() if value is not None for word in (name, value)]
        return (*given, *pbs_options(self.qsub_options or ""))

    def terms(self) -> BatchTerms:
        return dataclasses.replace(super().terms(), resources=self.resources)
